"""One door to a played engine: facts go in, and a job is looked at in terms that all engines share.

After every fact the world comes to rest: workers that should start have started, those that should go are gone, and
cycles of the engine's own scheduler are run until one changes nothing. Time is a clock that stands still until a story
moves it, so a story takes no longer than the engine needs.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

from sterna.lifecycle.counters import Counted, settled
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.outcome import deadline_s
from sterna.model.conditions import Conditions, ConditionType, is_true
from sterna.model.jobs import JobSpec
from sterna.model.phases import Phase
from sterna.model.plan import Step
from sterna.model.workload import Workload
from tests.engine_contract.facts import (
    Cordoned,
    Declared,
    Deleted,
    Drained,
    Ends,
    Fact,
    MoveAsked,
    NodeBack,
    NodeLost,
    NodeSilent,
    Resumed,
    Says,
    Scaled,
    SchedulerComes,
    SchedulerDies,
    SchedulerKilled,
    Seen,
    ServingPodWaits,
    StartsHeld,
    StartsLet,
    StopsHeld,
    StopsLet,
    Submitted,
    Suspended,
    TimePasses,
)
from tests.waiting import until_async

POLICY = "elastic-fifo"
CYCLES_MAX = 8
_LOOK_S = 0.002
_KNOWN = (
    ConditionType.CREATED,
    ConditionType.RUNNING,
    ConditionType.RESTARTING,
    ConditionType.SUSPENDED,
    ConditionType.SUCCEEDED,
    ConditionType.FAILED,
)


class StoryClock:
    """Stands still until it is moved. Begins now, since a real API server writes moments of its own."""

    def __init__(self) -> None:
        self.began_s = self._now_s = float(int(time.time()))

    def wall(self) -> float:
        return self._now_s

    def mono(self) -> float:
        return self._now_s

    async def sleep(self, seconds: float) -> None:
        """What an engine pauses for between two tries against a server is not part of a story."""
        await asyncio.sleep(min(seconds, _LOOK_S))

    def move(self, seconds: float) -> None:
        self._now_s += seconds


async def until(holds: Callable[[], bool], what: str, *, patience_s: float) -> None:
    """Looks again and again, since caches and threads tell nobody when they are done."""
    try:
        await until_async(holds, what, patience_s=patience_s, every_s=_LOOK_S)
    except AssertionError as error:
        raise RuntimeError(f"in vain: {what}") from error


class Kept(Counted, Protocol):
    """A job's state as every engine keeps it."""

    @property
    def phase(self) -> Phase: ...

    @property
    def reason(self) -> str: ...

    @property
    def failures(self) -> int: ...

    @property
    def retry_s(self) -> float | None: ...

    @property
    def waiting_since_s(self) -> float | None: ...

    @property
    def migrations(self) -> int: ...


def seen_of(
    kept: Kept,
    spec: JobSpec,
    workload: Workload,
    conditions: Conditions,
    *,
    clock: StoryClock,
    units_left: float | None,
    events: Mapping[str, str],
    refusal: str,
) -> Seen:
    """`events` are the messages by their reasons."""
    now_s, began_s = clock.mono(), clock.began_s
    counted = settled(kept, spec, now_s)

    def since(moment: float | None) -> float | None:
        return None if moment is None else round(moment - began_s, 3)

    over_s = None if kept.phase in (Phase.SUCCEEDED, Phase.FAILED) else deadline_s(workload, kept.active_s)
    later = kept.retry_s is not None and kept.retry_s > now_s
    return Seen(
        phase=kept.phase.value,
        size=size_of(kept.assigned),
        nodes=tuple(str(worker.node) for worker in kept.assigned),
        seats=tuple(f"{worker.role}-{worker.ordinal}" for worker in kept.assigned),
        reason=kept.reason,
        failures=kept.failures,
        retry_s=since(kept.retry_s) if later else None,
        deadline_s=since(over_s),
        waiting_since_s=since(kept.waiting_since_s),
        started_s=since(kept.started_s),
        served_gpu_s=counted["gpu_s"],
        served_since_start_gpu_s=counted["gpu_s_since_start"],
        units_left=units_left,
        migrations=kept.migrations,
        conditions=frozenset(kind.value for kind in _KNOWN if is_true(conditions, kind)),
        events=tuple(events),
        words=tuple(events.values()),
        refusal=refusal,
    )


class PlayedWorld(ABC):
    """Two nodes of two GPUs each, node-1 and node-2, as in `worlds.py`."""

    def __init__(self) -> None:
        self.clock = StoryClock()
        self.jobs: dict[str, Declared] = {}
        self.refusals: dict[str, str] = {}
        self.is_watched = True  # False: no scheduler runs, and only workers, nodes and the clock can do anything

    async def happen(self, fact: Fact) -> None:
        """Play it, and let the world come to rest."""
        match fact:
            case Submitted(job):
                self.jobs[job.name] = job
                await self.submit(job)
            case Ends(job, code, worker):
                await self.end(job, worker, code)
            case Says():
                await self.say(fact)
            case TimePasses(seconds):
                self.clock.move(seconds)
                if self.is_watched:
                    await self.time_passed()
            case NodeLost(node):
                await self.set_node_ready(node, ready=False)
            case NodeSilent(node):
                await self.silence_node(node)
            case NodeBack(node):
                await self.set_node_ready(node, ready=True)
            case Cordoned(node):
                await self.cordon(node)
            case Drained(node):
                await self.drain(node)
            case Suspended(job):
                await self.suspend(job, suspended=True)
            case Resumed(job):
                await self.suspend(job, suspended=False)
            case Scaled(job, at_least, at_most):
                await self.scale(job, at_least, at_most)
            case Deleted(job):
                await self.delete(job)
            case MoveAsked(job, to):
                self.refusals.pop(job, None)
                await self.ask_move(job, to)
            case StartsHeld():
                await self.hold_starts(held=True)
            case StartsLet():
                await self.hold_starts(held=False)
            case StopsHeld():
                await self.hold_stops(held=True)
            case StopsLet():
                await self.hold_stops(held=False)
            case SchedulerKilled():
                await self.end_scheduler()
                await self.begin_scheduler()
            case SchedulerDies():
                await self.end_scheduler()
                self.is_watched = False
            case SchedulerComes():
                await self.begin_scheduler()
                self.is_watched = True
            case ServingPodWaits(name, gpus):
                await self.serve(name, gpus)
        if self.is_watched:
            await self.rest()

    async def rest(self) -> None:
        """Cycles until one decides nothing, or the same as the one before it: that one waits for workers to go."""
        before: tuple[Step, ...] = ()
        for _ in range(CYCLES_MAX):
            await self.settle()
            steps = await self.cycle()
            if not steps or steps == before:
                await self.settle()
                return
            before = steps
        raise RuntimeError(f"{CYCLES_MAX} cycles, and each decided something else")

    # -- what each engine plays its own way ---------------------------------------------------------------------------

    @abstractmethod
    async def submit(self, job: Declared) -> None: ...

    @abstractmethod
    async def end(self, job: str, worker: str, code: int) -> None: ...

    @abstractmethod
    async def say(self, said: Says) -> None: ...

    @abstractmethod
    async def time_passed(self) -> None: ...

    @abstractmethod
    async def set_node_ready(self, node: str, *, ready: bool) -> None: ...

    @abstractmethod
    async def silence_node(self, node: str) -> None: ...

    @abstractmethod
    async def cordon(self, node: str) -> None: ...

    @abstractmethod
    async def drain(self, node: str) -> None: ...

    @abstractmethod
    async def suspend(self, job: str, *, suspended: bool) -> None: ...

    @abstractmethod
    async def scale(self, job: str, at_least: int, at_most: int) -> None: ...

    @abstractmethod
    async def delete(self, job: str) -> None: ...

    @abstractmethod
    async def ask_move(self, job: str, to: str) -> None: ...

    @abstractmethod
    async def hold_starts(self, *, held: bool) -> None: ...

    @abstractmethod
    async def hold_stops(self, *, held: bool) -> None: ...

    @abstractmethod
    async def end_scheduler(self) -> None:
        """As a crash would; workers run on."""

    @abstractmethod
    async def begin_scheduler(self) -> None:
        """Over the same state."""

    @abstractmethod
    async def serve(self, name: str, gpus: int) -> None: ...

    @abstractmethod
    async def settle(self) -> None: ...

    @abstractmethod
    async def cycle(self) -> tuple[Step, ...]:
        """One cycle of the engine's scheduler, and what it decided to change."""

    @abstractmethod
    async def seen(self, job: str) -> Seen: ...
