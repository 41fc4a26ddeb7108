"""Who this rank is, and how the ranks come together: once to hear what rank 0 has decided, once when all have loaded.

Both are a `Meeting` of the SDK in a directory beside the signal file: files outlive launches, so every process draws a
name of its own, and what was left behind by others concerns nobody. Every wait ends.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sterna.protocol import WorkerIdentity
from sterna.training.errors import NotEverybodyCame
from sterna.training.migrator.places import MEET_S
from sterna.training.ranks.meeting import Meeting


def identity(rank: int | None, environment: Mapping[str, str] | None = None) -> WorkerIdentity:
    """Rank and world as they are now: what the program said, else the process group, else the environment."""
    who = WorkerIdentity.from_environment(environment)
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        who = replace(who, rank=distributed.get_rank(), world_size=distributed.get_world_size())
    return who if rank is None else replace(who, rank=rank, world_size=max(who.world_size, rank + 1))


class Ranks:
    """One rank's part. In a world of one everybody is there at once."""

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
