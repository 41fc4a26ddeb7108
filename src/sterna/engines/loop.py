"""One cycle: observe, decide, apply. Every engine runs this very function, the simulator included.

An engine reports facts and carries out actions. Async begins at its door; a simulated engine never really waits, so its
cycles are driven to their end without an event loop (`run_at_once`).
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from sterna.journal.journal import Journal
from sterna.model.errors import EngineUnavailable, StaleView
from sterna.model.plan import Action, Decision, Held, Outcome
from sterna.model.snapshot import Snapshot
from sterna.planner.decide import Placing, Settings, Sizing, decide

T = TypeVar("T")


class Engine(Protocol):
    """Where plans become true. Carrying out an action twice leaves the world as carrying it out once."""

    async def observe(self) -> Snapshot:
        """The world as it is now, the policy's memory included."""

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        """Carry out the actions of one step, side by side where the engine can; one outcome each."""

    async def remember(self, decision: Decision) -> None:
        """Keep the policy's memory, and the moment to wake at, where a restart finds them again."""


class CycleResult(NamedTuple):
    """What came of a cycle that may fail without taking the scheduler down with it."""

    decision: Decision | None  # None: it failed before anything was decided; what was decided last stays in force
    error: Exception | None = None
    again_after_s: float | None = None  # None: no sooner than something happens


Think = Callable[[Callable[[], Decision]], Awaitable[Decision]]  # where a decision is made


async def at_once(decision: Callable[[], Decision]) -> Decision:
    """Right here: for engines that have nothing else to do meanwhile."""
    return decision()


async def try_cycle(
    engine: Engine,
    size: Sizing,
    place: Placing,
    journal: Journal,
    settings: Settings,
    *,
    retry_after_s: float,
    think: Think = at_once,
) -> CycleResult:
    """`run_cycle` at the boundary where errors end: nothing is applied by a decision that could not be made.

    The caller asks for another cycle after `again_after_s`, and reports what went wrong.
    """
    try:
        return CycleResult(await run_cycle(engine, size, place, journal, settings, think))
    except StaleView as error:
        return CycleResult(None, error, 0.0)
    except EngineUnavailable as error:
        return CycleResult(None, error, error.retry_after_s)
    except Exception as error:  # the boundary of a cycle: a bug in a policy must not stop jobs that run
        return CycleResult(None, error, retry_after_s)


async def run_cycle(
    engine: Engine, size: Sizing, place: Placing, journal: Journal, settings: Settings, think: Think = at_once
) -> Decision:
    """Look once, decide once, carry out what was decided as far as the world allows."""
    view = await engine.observe()
    decision = await think(lambda: decide(view, size, place, settings))
    journal.decided(view, decision)  # written before it is done: whatever crashes below can be replayed
    await engine.remember(decision)
    released = True
    for step in decision.steps:
        if step.after_release and (not released or view.leaving):
            break  # workers are still leaving; the cycle that their going wakes will take up the rest
        outcomes = await engine.apply(step.actions)
        journal.happened(outcomes)
        if not all(outcome.went_well for outcome in outcomes):
            break  # the world is not what the plan assumed, so look again rather than press on
        released = released and all(outcome.held is Held.DONE for outcome in outcomes)
    return decision


def run_at_once(cycle: Coroutine[Any, Any, T]) -> T:
    """Drive a coroutine that never really waits. One that does is a bug in a simulated engine."""
    try:
        cycle.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    cycle.close()
    raise RuntimeError("a simulated engine waited for something outside the simulation")
