"""One process's standing, from its first use of the migrator on: which rank it is, what it is to load, whose files.

Rank 0 owns the files and decides; the others ask it. Reading a checkpoint and meeting the other ranks is here, saving
is in `saving`.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sterna.training.checkpoint.fence import read_fence
from sterna.training.errors import RestoreFailed
from sterna.training.migrator.console import say
from sterna.training.migrator.desk import Desk
from sterna.training.migrator.exchange import Generation, Word
from sterna.training.migrator.link import Link
from sterna.training.migrator.owner import Owner
from sterna.training.migrator.places import Places, meet_s
from sterna.training.migrator.progress import Progress
from sterna.training.migrator.ranks import Ranks, identity
from sterna.training.migrator.saved import Saved
from sterna.training.migrator.shelf import find, take_stock
from sterna.training.migrator.variables import load

_SHOWS_UP_WITHIN_S = 10.0  # on a network file system a file that rank 0 sees may take a while to reach the others
_LOOK_S = 0.1


class Session:
    """Making it may wait, inside Sterna, for the order to run. Asking what to load waits for the other ranks."""

    def __init__(self, rank: int | None, environment: Mapping[str, str] | None, progress: Progress) -> None:
        self.who = identity(rank, environment)
        self.desk = Desk(Places.from_environment(environment))
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
        """Whatever was not loaded by now never will be."""
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
        until_s = time.monotonic() + _SHOWS_UP_WITHIN_S
        while find(self.desk, digest) is None:
            if time.monotonic() > until_s:
                return f"no file at {self.desk.places.checkpoint} has the digest {digest[:16]}"
            time.sleep(_LOOK_S)
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
