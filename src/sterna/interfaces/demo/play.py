"""Plays the story against a running engine and notes what is seen: cues in, observations out. No files, no screens."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sterna.interfaces.demo.story import CUES, DRAIN, GIVES_UP_AFTER_S, Cue, Drain, manifest
from sterna.interfaces.plots.gpu_slots import Mark, Stretch
from sterna.interfaces.scheduler_port import FINISHED, Record
from sterna.model.errors import EngineUnavailable

_LOOKS_EVERY_S = 0.5


class Engine(Protocol):
    """What the play asks of the engine's client."""

    def submit(self, manifest: str, *, cwd: str) -> list[Record]: ...
    def jobs(self) -> list[Record]: ...
    def nodes(self) -> list[Record]: ...
    def events(self, job_id: str | None = None, *, after: int = 0) -> list[Record]: ...
    def migrations(self, job_id: str | None = None) -> list[Record]: ...
    def job(self, job_id: str) -> Record: ...
    def drain(self, node: str) -> Record: ...
    def uncordon(self, node: str) -> Record: ...


@dataclass(slots=True)
class Seen:
    """Everything the play saw, for the report."""

    took_s: float = 0.0
    jobs: list[Record] = field(default_factory=list)  # full records, as they ended
    migrations: list[Record] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    drained: list[Mark] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)  # node -> GPUs
    in_time: bool = True  # False: it was given up


@dataclass(slots=True, kw_only=True)
class Play:
    engine: Engine
    python: str
    script: str
    cwd: str
    on_events: Callable[[float, Sequence[Record]], None]
    on_look: Callable[[float, Sequence[Record], Sequence[Record]], None]
    cues: tuple[Cue, ...] = CUES
    drain: Drain | None = DRAIN
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> Seen:
        """From the first cue until every job has ended, or until `GIVES_UP_AFTER_S`."""
        seen, lanes = Seen(), _Lanes()
        began, told = self.clock(), 0
        script = list(self._script())
        while True:
            now_s = self.clock() - began
            while script and script[0][0] <= now_s:
                script.pop(0)[1](seen, now_s)
            nodes, jobs = self.engine.nodes(), self.engine.jobs()
            seen.slots = {node["name"]: int(node["gpus"]) for node in nodes}
            lanes.look(now_s, nodes)
            if events := self.engine.events(after=told):
                told = max(event["id"] for event in events)
                self.on_events(now_s, events)
            self.on_look(now_s, jobs, nodes)
            ended = len(jobs) == len(self.cues) and all(job["phase"] in FINISHED for job in jobs)
            if (ended and not script) or now_s > GIVES_UP_AFTER_S:
                break
            self.sleep(_LOOKS_EVERY_S)
        seen.in_time = ended
        seen.took_s = self.clock() - began
        seen.stretches = lanes.stretches(seen.took_s)
        seen.jobs = [self.engine.job(job["id"]) for job in jobs]
        seen.migrations = self.engine.migrations()
        return seen

    def _script(self) -> Iterator[tuple[float, Callable[[Seen, float], None]]]:
        """Everything the play does, by time."""
        entries = [(cue.at_s, self._entry(cue)) for cue in self.cues]
        if self.drain is not None:
            name = f"node-{self.drain.node}"
            entries.append((self.drain.at_s, self._emptied(name)))
            entries.append((self.drain.back_s, self._given_back(name)))
        return iter(sorted(entries, key=lambda entry: entry[0]))

    def _entry(self, cue: Cue) -> Callable[[Seen, float], None]:
        def enters(_seen: Seen, _now_s: float) -> None:
            self.engine.submit(manifest(cue, python=self.python, script=self.script), cwd=self.cwd)

        return enters

    def _emptied(self, node: str) -> Callable[[Seen, float], None]:
        def empties(seen: Seen, now_s: float) -> None:
            self.engine.drain(node)
            seen.drained.append(Mark(node, now_s, now_s, "drained"))

        return empties

    def _given_back(self, node: str) -> Callable[[Seen, float], None]:
        def gives_back(seen: Seen, now_s: float) -> None:
            self.engine.uncordon(node)
            seen.drained[-1] = seen.drained[-1]._replace(to_s=now_s)

        return gives_back


class _Lanes:
    """Gives each worker a row of its node while it is there, so that a picture can be drawn afterwards."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], tuple[int, float]] = {}  # (node, worker) -> row, since
        self._done: list[Stretch] = []

    def look(self, now_s: float, nodes: Sequence[Record]) -> None:
        there: set[tuple[str, str]] = set()
        for node in nodes:
            there |= {(node["name"], worker) for worker in node["workers"]}
        for key in [key for key in self._open if key not in there]:
            self._close(key, now_s)
        first_row = 0
        for node in nodes:
            rows = range(first_row, first_row + int(node["gpus"]))
            first_row += len(rows)
            taken = {row for row, _ in self._open.values()}
            free = [row for row in rows if row not in taken]
            for worker in sorted(node["workers"]):
                key = (node["name"], worker)
                if key not in self._open and free:  # one that only waits for its predecessor has no row yet
                    self._open[key] = (free.pop(0), now_s)

    def stretches(self, end_s: float) -> list[Stretch]:
        for key in list(self._open):
            self._close(key, end_s)
        return sorted(self._done)

    def _close(self, key: tuple[str, str], now_s: float) -> None:
        row, since_s = self._open.pop(key)
        node, worker = key
        job = worker.rsplit("/", 1)[0].rsplit("/", 1)[-1]
        self._done.append(Stretch(row, job, since_s, now_s, f"{worker} on {node}, {now_s - since_s:.1f} s"))


def patiently(
    ask: Callable[[], Any], *, until_s: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Any:
    """The answer of an engine that is still starting up."""
    while True:
        try:
            return ask()
        except EngineUnavailable:
            if clock() > until_s:
                raise
            sleep(0.1)
