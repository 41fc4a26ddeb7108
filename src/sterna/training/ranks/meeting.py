"""How the ranks of one launch find each other and settle on the checkpoint that all of them load, through files.

Rank 0, the chief, decides; the others follow. Nothing in the environment tells launches apart reliably (torchrun keeps
its restart count when members change), so every process draws a name for itself, and a decision lists the names of
those it is for. A file left behind by a dead process names another one, and is ignored:

    rank-<r>.json    who I am; which decision I have tried, and whether I could load what it names
    decision.json    chief's name and round, the names it is for, which generation, and at last: go

    follower:  say who I am -> a decision lists me: load it into memory, answer -> go: done
    chief:     all there -> decide -> load as well -> all could: go.  One could not: an older one, next round.
               Another process is a rank now: next round, with the new name.

Loading into memory comes first and changes no object of the program; that happens after "go". So a generation that one
rank cannot read is forgotten by all of them without a trace.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sterna.protocol.mailbox import write_atomically
from sterna.training.errors import NotEverybodyCame, RestoreFailed
from sterna.training.patience import Patience
from sterna.training.small_files import read_object

_SEQ_MAX = 10**15


class Decision(NamedTuple):
    """What the chief has decided, for the processes it lists."""

    chief: str
    round: int
    names: tuple[str, ...]  # by rank
    generation: str | None  # None: from nothing
    seq: int  # the number after which all ranks count their saves
    go: bool


class Answer(NamedTuple):
    """What a rank says: its name, and whether it could load what was decided."""

    name: str
    chief: str = ""  # with `round`: the decision this is about; empty: has not tried one yet
    round: int = 0
    problem: str | None = None  # None: loaded


Load = Callable[[str | None], str | None]  # a generation by name (None: nothing to load); answers what went wrong
Idle = Callable[[float], None]  # waits at most so long, and no longer than until there may be something new


class Meeting:
    """One rank's part in it. Used once: a new launch is a new meeting."""

    def __init__(self, directory: Path, *, rank: int, world_size: int, patience_s: float, idle: Idle) -> None:
        self.directory = directory
        self.name = os.urandom(8).hex()  # not from `random`, whose sequence is the program's own
        self._rank = rank
        self._world_size = world_size
        self._patience_s = patience_s
        self._idle = idle
        self.passed_over: list[str] = []  # generations that a rank could not load, and why

    def announce(self) -> None:
        """Say that this rank is here. Raises NotEverybodyCame where nothing can be written."""
        self.patiently(lambda: self.directory.mkdir(parents=True, exist_ok=True))
        self._say(Answer(self.name))

    def patiently(self, write: Callable[[], object]) -> None:
        """Write, and try again while it fails: a full disk may have room soon, and giving up would end all ranks."""
        patience = self._patience()
        while True:
            try:
                write()
            except OSError as error:
                if patience.over:
                    raise NotEverybodyCame(
                        f"ranks cannot meet in {self.directory}: {error.strerror or error}; it has to be writable"
                    ) from error
                patience.pause()
            else:
                return

    def lead(self, candidates: Sequence[str], load: Load, *, seq: int, prepare: Callable[[Decision], None]) -> Decision:
        """Chief: have all ranks load the first of `candidates` that all of them can; `prepare` comes just before "go".

        Raises RestoreFailed when there are candidates and none will do, and NotEverybodyCame.
        """
        left = list(candidates)
        own: dict[str | None, str | None] = {}  # what came of loading, so that a new round does not load again
        number = 0
        while True:
            generation = left[0] if left else None
            if generation is None and candidates:
                raise RestoreFailed(
                    f"{len(candidates)} checkpoints in {self.directory.parent.parent}, and none that every rank can"
                    f" load: {'; '.join(self.passed_over)}"
                )
            number += 1
            decision = Decision(self.name, number, self._everybody(), generation, seq, go=False)
            self._decide(decision)
            if generation not in own:
                own = {generation: load(generation)}
            problem = own[generation] or self._problem_of_others(decision)
            if problem:
                self.passed_over.append(f"{generation}: {problem}")
                left = left[1:]
            elif problem is None:
                prepare(decision)
                self._decide(decision._replace(go=True))
                return decision

    def follow(self, load: Load, *, holding: Callable[[], bool], wanted: Callable[[], bool]) -> Decision | None:
        """Any other rank. Waits without limit while `holding`; None once not `wanted`. Raises NotEverybodyCame."""
        own: dict[str | None, str | None] = {}
        answer = Answer(self.name)
        patience = self._patience()
        while wanted():
            decision = self._decision()
            if decision is not None and self._is_for_me(decision):
                if (decision.chief, decision.round) != (answer.chief, answer.round):
                    if decision.generation not in own:
                        own = {decision.generation: load(decision.generation)}
                    answer = Answer(self.name, decision.chief, decision.round, own[decision.generation])
                    self._say(answer)
                    patience.renew()
                elif decision.go:
                    return decision
            if holding():
                patience.prolong()
            elif patience.over:
                raise NotEverybodyCame(
                    f"rank {self._rank} of {self._world_size} waited {self._patience_s:.0f} s for rank 0 to say which"
                    f" checkpoint to load; has it started, with the same checkpoint directory and world size?"
                )
            if (said := self._answer_of(self._rank)) is None or said.name != self.name:
                self._say(answer)  # a predecessor that was not yet dead wrote over it
            patience.pause()
        return None

    def _everybody(self) -> tuple[str, ...]:
        """Names of all ranks, once all are there."""
        patience = self._patience()
        while True:
            answers = {rank: self._answer_of(rank) for rank in range(1, self._world_size)}
            missing = [rank for rank, answer in answers.items() if answer is None]
            if not missing:
                return (self.name, *(answer.name for answer in answers.values() if answer is not None))
            if patience.over:
                raise NotEverybodyCame(
                    f"waited {self._patience_s:.0f} s for {_ranks(missing)} of {self._world_size} to call restore()"
                    f" or steps(); have they started, with the same checkpoint directory and world size?"
                )
            patience.pause()

    def _problem_of_others(self, decision: Decision) -> str | None:
        """None: all have loaded it. Empty: another process is a rank now, decide again. Otherwise why a rank cannot."""
        patience = self._patience()
        while True:
            missing = []
            for rank in range(1, self._world_size):
                answer = self._answer_of(rank)
                if answer is None or answer.name != decision.names[rank]:
                    return ""
                if (answer.chief, answer.round) != (decision.chief, decision.round):
                    missing.append(rank)
                elif answer.problem is not None:
                    return f"rank {rank}: {answer.problem}"
            if not missing:
                return None
            if patience.over:
                raise NotEverybodyCame(
                    f"waited {self._patience_s:.0f} s for {_ranks(missing)} of {self._world_size} to load"
                    f" {decision.generation or 'nothing'}"
                )
            if self._decision() != decision:
                self._decide(decision)  # a predecessor that was not yet dead wrote over it
            patience.pause()

    def _is_for_me(self, decision: Decision) -> bool:
        return len(decision.names) == self._world_size and decision.names[self._rank] == self.name

    def _patience(self) -> Patience:
        return Patience(self._patience_s, idle=self._idle)

    def _say(self, answer: Answer) -> None:
        body = {**answer._asdict(), "world_size": self._world_size}
        self.patiently(lambda: write_atomically(self.directory / f"rank-{self._rank}.json", json.dumps(body)))

    def _decide(self, decision: Decision) -> None:
        self.patiently(lambda: write_atomically(self.directory / "decision.json", json.dumps(decision._asdict())))

    def _answer_of(self, rank: int) -> Answer | None:
        body = read_object(self.directory / f"rank-{rank}.json")
        if body.pop("world_size", None) != self._world_size:
            return None
        match body:
            case {"name": str(name), "chief": str(chief), "round": int(number), "problem": None | str() as problem}:
                return Answer(name, chief, number, problem)
        return None

    def _decision(self) -> Decision | None:
        body = read_object(self.directory / "decision.json")
        match body:
            case {
                "chief": str(chief),
                "round": int(number),
                "names": list(names),
                "generation": None | str() as generation,
                "seq": int(seq),
                "go": bool(go),
            } if type(number) is int and type(seq) is int and 0 <= seq < _SEQ_MAX:
                return Decision(chief, number, tuple(names), generation, seq, go)
        return None


def _ranks(missing: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in missing[:8]) + (", ..." if len(missing) > 8 else "")
    return f"{'ranks' if len(missing) > 1 else 'rank'} {shown}"
