"""One process's standing, from its first use of the migrator on: which rank it is, what it is to load, whose files.

Rank 0 owns the files and decides; the others ask it. The ranks meet twice, once to hear what rank 0 has decided and
once when all have loaded: each time a `Meeting` of the SDK, in a directory beside the signal file. Files outlive
launches, so every process draws a name of its own, and files of earlier processes are ignored. Saving is in
`wanted_saves`.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sterna.protocol import WorkerIdentity
from sterna.training.checkpoint.fence import read_fence
from sterna.training.errors import NotEverybodyCame, RestoreFailed
from sterna.training.migrator.boundary import Progress
from sterna.training.migrator.checkpoint_files import find, take_stock
from sterna.training.migrator.console import say
from sterna.training.migrator.engine_link import Link
from sterna.training.migrator.migrator_files import MEET_S, MigratorFiles, meet_s
from sterna.training.migrator.owner import Owner
from sterna.training.migrator.signal_files import Desk
from sterna.training.migrator.signal_protocol import Generation, Word
from sterna.training.migrator.variables import Saved, load
from sterna.training.patience import Patience
from sterna.training.ranks.meeting import Meeting

_SHOWS_UP_WITHIN_S = 10.0  # on a network file system a file that rank 0 sees may take a while to reach the others
_LOOK_S = 0.1


class Session:
    """Making it may wait, inside Sterna, for the order to run. Asking what to load waits for the other ranks."""

    def __init__(self, rank: int | None, environment: Mapping[str, str] | None, progress: Progress) -> None:
        self.who = identity(rank, environment)
        self.desk = Desk(MigratorFiles.from_environment(environment))
        self.desk.places.make_directories()
        self.link = Link(self.who, facts=progress.facts) if self.who.inside else None
        if self.link is not None:
            self.link.hold()
        self.ranks = Ranks(self.desk.places.ranks, self.who, meet_s=meet_s(environment))
        self._progress = progress
        self.owner: Owner | None = None
        if self.who.rank == 0:
            incarnation = self.who.incarnation if self.who.inside else None
            self.owner = Owner(self.desk, incarnation=incarnation, allowed=self._require_unfenced)
            self._say_what_was_found(self.owner)
        self._digest: str | None = None  # of what is to be loaded
        self._decided = False
        self._loaded = False

    @property
    def resume(self) -> bool:
        """Whether there is a checkpoint to load; once that is done, whether the next launch will find one."""
        return self.pending or self.desk.word() == Word.RESUME

    @property
    def pending(self) -> bool:
        """There is something to load that is not loaded yet: the same on all ranks, which meet here the first time."""
        if not self._decided:
            if self.owner is not None:
                self._digest = None if self.owner.start is None else self.owner.start.digest
                self.ranks.tell(self._digest)
            else:
                self._digest = self.ranks.ask(self._why_unreadable)
            self._decided = True
        return self._digest is not None and not self._loaded

    def read(self, *, map_location: Any, weights_only: bool) -> Saved:
        """The checkpoint that was decided on; without one, the newest there is. Raises RestoreFailed."""
        began_s = time.monotonic()
        chosen = self._chosen()
        if chosen is None:
            raise RestoreFailed(f"there is no complete checkpoint at {self.desk.places.checkpoint}")
        path, generation = chosen
        saved = Saved(load(path, map_location=map_location, weights_only=weights_only), generation)
        self._progress.step_restored = generation.step
        if self.link is not None:
            self.link.restored(step=generation.step, load_s=time.monotonic() - began_s)
        return saved

    def meet(self) -> None:
        """Wait until all ranks have loaded what was decided."""
        if self.pending:
            self.ranks.meet()
            self._loaded = True

    def trains_on(self) -> None:
        """What is not loaded by now will not be loaded."""
        self._decided = self._loaded = True

    def _chosen(self) -> tuple[Path, Generation] | None:
        """The file to load. Its digest has been looked at, now or when it was decided on."""
        if self.pending and self.owner is None:
            assert self._digest is not None
            path = find(self.desk, self._digest)
            listed = next((known for known in self.desk.listed() or () if known.digest == self._digest), None)
            unlisted = Generation(number=0, digest=self._digest, bytes=0, lineage="")
            return None if path is None else (path, listed or unlisted)
        if self.pending and self.owner is not None:
            complete = [item for item in self.owner.stock.complete.items() if item[1] == self.owner.start]
        else:
            complete = list(take_stock(self.desk).complete.items())
        return max(complete, key=lambda item: item[1].number, default=None)

    def _why_unreadable(self, digest: str) -> str | None:
        patience = Patience(_SHOWS_UP_WITHIN_S, longest_s=_LOOK_S)
        while find(self.desk, digest) is None:
            if patience.over:
                return f"no file at {self.desk.places.checkpoint} has the digest {digest[:16]}"
            patience.pause()
        return None

    def _require_unfenced(self) -> None:
        if self.who.inside and self.who.checkpoint_dir is not None:
            read_fence(self.who.checkpoint_dir).require(self.who.incarnation)

    def _say_what_was_found(self, owner: Owner) -> None:
        for path in owner.stock.damaged:
            say(f"{path} is not what was saved there: passed over")
        start = "from nothing" if owner.start is None else f"from checkpoint {owner.start.number}"
        if owner.word_found == Word.SAVE:
            say(f"a trainer before this one was asked to save and did not live to do it: starting {start}")
        elif owner.word_found == Word.RESUME and owner.start is None:
            say(f"the signal says resume and there is no complete checkpoint: starting {start}")
        elif owner.word_found == Word.INIT and owner.start is not None:
            say(f"the trainer before this one did not come to its end: starting {start}")

    def finished(self) -> None:
        """The program came to its end."""
        if self.owner is not None:
            self.owner.end()
        if self.link is not None:
            self.link.finished()


def identity(rank: int | None, environment: Mapping[str, str] | None = None) -> WorkerIdentity:
    """Rank and world as they are now: what the program said, else the process group, else the environment."""
    who = WorkerIdentity.from_environment(environment)
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        who = replace(who, rank=distributed.get_rank(), world_size=distributed.get_world_size())
    return who if rank is None else replace(who, rank=rank, world_size=max(who.world_size, rank + 1))


class Ranks:
    """One rank's part. In a world of one there is no other rank to wait for."""

    def __init__(self, directory: Path, who: WorkerIdentity, *, meet_s: float) -> None:
        self._directory = directory
        self._who = who
        self._meet_s = meet_s

    def tell(self, digest: str | None) -> None:
        """Rank 0: tell the others which checkpoint to load (None: none), and wait until all know."""
        self._lead("decided", [] if digest is None else [digest])

    def ask(self, why_unreadable: Callable[[str], str | None]) -> str | None:
        """Any other rank: the digest of the checkpoint to load, or None. It first makes sure that it can."""
        return self._follow("decided", lambda digest: None if digest is None else why_unreadable(digest))

    def meet(self) -> None:
        """Wait until every rank has come here: all have loaded."""
        if self._who.rank == 0:
            self._lead("loaded", [])
        else:
            self._follow("loaded", lambda _: None)

    def _lead(self, what: str, candidates: list[str]) -> None:
        if self._who.world_size > 1:
            meeting = self._meeting(what)
            with self._in_our_words():
                meeting.announce()
                meeting.lead(candidates, lambda _: None, seq=0, prepare=lambda _: None)

    def _follow(self, what: str, load: Callable[[str | None], str | None]) -> str | None:
        meeting = self._meeting(what)
        with self._in_our_words():
            meeting.announce()
            decision = meeting.follow(load, holding=lambda: False, wanted=lambda: True)
        return None if decision is None else decision.generation

    def _meeting(self, what: str) -> Meeting:
        return Meeting(
            self._directory / what,
            rank=self._who.rank,
            world_size=self._who.world_size,
            patience_s=self._meet_s,
            idle=time.sleep,
        )

    @contextlib.contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except NotEverybodyCame as error:
            raise NotEverybodyCame(
                f"rank {self._who.rank} of {self._who.world_size} waited {self._meet_s:g} s ({MEET_S}) for the others:"
                " every rank must ask migrator.resume and call load_ckpt() (or MigratableVariable), and share"
                f" {self._directory.parent}"
            ) from error
