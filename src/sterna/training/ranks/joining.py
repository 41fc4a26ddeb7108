"""The way into training: stand by while on hold, then load what all ranks agree on, into memory only."""

import contextlib
import shutil
import time
from pathlib import Path
from typing import NamedTuple, Protocol

from sterna.protocol import Order, Orders, WorkerIdentity
from sterna.training.checkpoint import CheckpointProblem, CheckpointStore, Generation, Loaded
from sterna.training.checkpoint.checkpoint_problems import short
from sterna.training.errors import Mismatch, RestoreFailed
from sterna.training.progress import position_in
from sterna.training.ranks.agreement import Agreement, Alone, Chief, Member
from sterna.training.ranks.board import Board
from sterna.training.ranks.meeting import Decision, Meeting

_HOLD_LOOK_S = 0.2  # a wake usually comes first


class Surroundings(Protocol):
    """What joining needs of the worker it is done for."""

    def look(self) -> Orders: ...
    def wait(self, at_most_s: float) -> None: ...
    def should_leave(self) -> bool: ...  # told to stop, and not to wait any longer for ranks that have yet to come
    def say_ready(self) -> None: ...  # on hold, with everything behind it that can be
    def say_restoring(self) -> None: ...


class Joined(NamedTuple):
    """How this process came in, and what it loaded."""

    agreement: Agreement
    generation: Generation | None  # None: from nothing
    loaded: Loaded | None
    load_s: float | None
    passed_over: tuple[str, ...]  # newer ones that could not be loaded, and why


class Joining:
    """One process on its way in. `store` None: there is nowhere to load from, nor to meet."""

    def __init__(
        self, identity: WorkerIdentity, store: CheckpointStore | None, around: Surroundings, *, patience_s: float
    ) -> None:
        self._identity = identity
        self._store = store
        self._around = around
        self._patience_s = patience_s
        self._found: tuple[Generation, Loaded] | None = None
        self._load_s: float | None = None
        self._passed_over: list[str] = []

    def join(self, *, load: bool) -> Joined | None:
        """None: told to stop before it came to training. Raises RestoreFailed, NotEverybodyCame."""
        try:
            return self._join(load)
        except _Left:
            return None

    def _join(self, load: bool) -> Joined | None:
        identity = self._identity
        if self._store is None or not identity.gang or identity.world_size == 1:
            if not self._held():
                return None
            self._keep_others_out()
            self._load_newest([generation.name for generation in self._candidates(load)])
            return self._joined(Alone())
        meeting = Meeting(
            self._meeting_directory(identity.incarnation),
            rank=identity.rank,
            world_size=identity.world_size,
            patience_s=self._patience_s,
            idle=self._idle,
        )
        meeting.announce()
        if identity.rank == 0:
            return self._lead(meeting, self._store, load=load) if self._held() else None
        if self._around.look().order is Order.HOLD:
            self._around.say_ready()
        decision = meeting.follow(self._load, holding=self._holding, wanted=self._wanted)
        if decision is None:
            return None
        self._store.number_from(decision.seq)
        return self._joined(Member(self._board(meeting, decision), patience_s=2 * self._patience_s))

    def _lead(self, meeting: Meeting, store: CheckpointStore, *, load: bool) -> Joined:
        def prepare(decision: Decision) -> None:
            step = self._found[0].step if self._found is not None else 0
            path, world_size = _board_path(meeting, decision), self._identity.world_size
            meeting.patiently(lambda: Board.create(path, world_size=world_size, step=step))

        self._keep_others_out()
        candidates = self._candidates(load)
        names = [generation.name for generation in candidates]
        seq = max([store.seq, *(generation.seq for generation in candidates)])
        decision = meeting.lead(names, self._load, seq=seq, prepare=prepare)
        store.number_from(seq)
        self._passed_over += meeting.passed_over
        self._forget_old_meetings(meeting)
        return self._joined(Chief(self._board(meeting, decision), patience_s=self._patience_s))

    def _joined(self, agreement: Agreement) -> Joined:
        generation, loaded = self._found if self._found is not None else (None, None)
        return Joined(agreement, generation, loaded, self._load_s, tuple(self._passed_over))

    def _idle(self, at_most_s: float) -> None:
        """Wait for others, as long as that makes sense."""
        self._around.wait(at_most_s)
        if self._around.should_leave():
            raise _Left

    def _keep_others_out(self) -> None:
        """It is this incarnation's turn: what an older one saves from now on, on a node that was given up, is ignored.

        A directory that cannot be written is told about when there is something to save.
        """
        if self._store is not None:
            with contextlib.suppress(CheckpointProblem):
                self._store.raise_fence()

    def _held(self) -> bool:
        """Wait while on hold. Whether to go on afterwards."""
        if self._holding():
            self._around.say_ready()
        while self._holding():
            self._around.wait(_HOLD_LOOK_S)
        return self._wanted()

    def _holding(self) -> bool:
        return self._around.look().order is Order.HOLD

    def _wanted(self) -> bool:
        """A standby that is told to stop has nothing to commit: it just goes. Others stop at their first boundary."""
        return not (self._identity.standby and self._around.look().order is Order.STOP)

    def _candidates(self, load: bool) -> tuple[Generation, ...]:
        if not load or self._store is None:
            return ()
        try:
            candidates = self._store.generations()
        except CheckpointProblem as problem:
            raise RestoreFailed(
                f"the checkpoints in {self._identity.checkpoint_dir} cannot be read: {problem}"
            ) from problem
        lost = [f"{skipped.name}: {short(skipped.why)}" for skipped in self._store.skipped if skipped.lost]
        self._passed_over += lost
        if lost and not candidates:  # from nothing would be the worst answer
            raise self._none_can_be_loaded(len(lost))
        return candidates

    def _load_newest(self, candidates: list[str]) -> None:
        for name in candidates:
            problem = self._load(name)
            if problem is None:
                return
            self._passed_over.append(f"{name}: {problem}")
        if candidates:
            raise self._none_can_be_loaded(len(self._passed_over))

    def _none_can_be_loaded(self, count: int) -> RestoreFailed:
        return RestoreFailed(
            f"{count} checkpoints in {self._identity.checkpoint_dir}, and none can be loaded:"
            f" {'; '.join(self._passed_over)}"
        )

    def _load(self, name: str | None) -> str | None:
        """Into memory. What went wrong, if something did."""
        self._found = None
        if name is None or self._store is None:
            return None
        self._around.say_restoring()
        began_s = time.monotonic()
        try:
            generation = self._store.named(name)
            loaded = self._store.load(generation)
            position_in(generation.about)  # a generation whose place in the data is not known is of no use
            self._found = (generation, loaded)
        except (CheckpointProblem, Mismatch, OSError, MemoryError) as problem:
            return short(problem)
        self._load_s = time.monotonic() - began_s
        return None

    def _board(self, meeting: Meeting, decision: Decision) -> Board:
        path = _board_path(meeting, decision)
        return Board(path, rank=self._identity.rank, world_size=self._identity.world_size)

    def _meeting_directory(self, incarnation: int) -> Path:
        assert self._identity.checkpoint_dir is not None
        return self._identity.checkpoint_dir / "agreement" / f"i{incarnation}"

    def _forget_old_meetings(self, meeting: Meeting) -> None:
        """Remove what earlier launches left behind: no process of this launch reads it."""
        with contextlib.suppress(OSError, ValueError):
            for path in meeting.directory.glob("board-*"):
                if path.name != f"board-{meeting.name}":
                    path.unlink(missing_ok=True)
            for path in meeting.directory.parent.iterdir():
                if int(path.name.removeprefix("i")) < self._identity.incarnation:
                    shutil.rmtree(path, ignore_errors=True)


class _Left(Exception):
    """Told to stop while waiting for others."""


def _board_path(meeting: Meeting, decision: Decision) -> Path:
    return meeting.directory / f"board-{decision.chief}"
