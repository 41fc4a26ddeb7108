"""One cycle against an engine that fails, lags or lies: what is applied, in which order, and what is tried again."""

from collections.abc import Sequence

import pytest

from sterna.engines.loop import CycleResult, run_at_once, run_cycle, try_cycle
from sterna.engines.simulator.misfortune import Costs
from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.training import SimulatedJob
from sterna.engines.simulator.world import SimulatedEngine
from sterna.journal.journal import NoJournal
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import EngineUnavailable, InvariantBroken, StaleView
from sterna.model.ids import JobId
from sterna.model.jobs import JobSpec
from sterna.model.nodes import Cluster
from sterna.model.plan import Action, Grow, Held, Outcome, Shrink
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import NEXT_IN_ORDER
from sterna.placement.packed import packed
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import policy
from tests.worlds import cluster, job, node

RETRY_S = 31.0


class Flaky(SimulatedEngine):
    """A simulated engine that notes every action, and refuses some of them the first time."""

    def __init__(self, *, gpus: int = 8, fails: Sequence[type] = ()) -> None:
        super().__init__(Cluster.of([node("n1", gpus=gpus)]), Costs(), on_finish_known=lambda *_: None)
        self.actions: list[Action] = []
        self._fails: list[tuple[type, str | None]] = [(kind, None) for kind in fails]  # None: of whichever job

    def fail_once(self, kind: type, job_id: str) -> None:
        self._fails.append((kind, job_id))

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        outcomes = []
        for action in actions:
            self.actions.append(action)
            failing = next((f for f in self._fails if f in ((type(action), None), (type(action), action.job_id))), None)
            if failing is not None:
                self._fails.remove(failing)
                outcomes.append(Outcome(action, Held.TRY_AGAIN, "injected"))
            else:
                outcomes += await super().apply([action])
        return outcomes

    def submit(self, name: str, *, at_least: int, at_most: int) -> None:
        spec = JobSpec(
            id=JobId(name),
            submitted_s=self.now_s,
            request=Resources(gpu_milli=1000),
            workers_min=at_least,
            workers_max=at_most,
            workers_initial=at_least,
        )
        self.arrive(SimulatedJob(spec, PacedTraining(1e6, SpeedupCurve.linear(at_most))))

    def sizes(self) -> dict[str, int]:
        return {job_id: held.size for job_id, held in self.jobs.items() if held.size}


def grants(**workers: int):
    """A policy that grants just this."""

    def size(view: Snapshot) -> Target:
        return Target({JobId(name): Grant(count, count, NEXT_IN_ORDER) for name, count in workers.items()})

    return size


def cycle(engine: SimulatedEngine, size) -> CycleResult:
    result = run_at_once(try_cycle(engine, size, packed, NoJournal(), Settings(), retry_after_s=RETRY_S))
    engine.commit()
    return result


def test_voda_10_stops_and_shrinks_come_before_starts_and_growth():
    jobs = [
        job("grows", at_least=1, at_most=4, on=["n1"]),
        job("shrinks", at_least=1, at_most=4, on=["n1"] * 3),
        job("starts", at_least=1, at_most=4),
        job("stops", at_least=2, at_most=4, on=["n1"] * 2),
    ]
    view = cluster(nodes=[node("n1", gpus=8)], jobs=jobs)
    decision = decide(view, grants(grows=3, shrinks=1, starts=2), packed)
    order = [(type(action).__name__, action.job_id) for step in decision.steps for action in step.actions]
    assert order == [("Shrink", "stops"), ("Shrink", "shrinks"), ("Grow", "starts"), ("Grow", "grows")]


@pytest.mark.parametrize("name", ["elastic-fifo", "afs-l", "elastic-tiresias"])
def test_voda_10_never_more_gpus_in_use_than_there_are_however_slowly_pods_leave(name):
    peaks: list[float] = []

    def look(view: Snapshot) -> None:
        peaks.append(sum(len(held.workers) + len(held.leaving) for held in view.jobs))

    specs = [
        JobSpec(
            id=JobId(f"job-{number:02}"),
            submitted_s=number * 7.0,
            request=Resources(gpu_milli=1000),
            workers_min=1 + number % 3,
            workers_max=8,
            workers_initial=1 + number % 3,
        )
        for number in range(20)
    ]
    chosen = policy(name)
    setup = Simulation(
        nodes=[node("n1", gpus=8), node("n2", gpus=4)],
        jobs=[SimulatedJob(spec, PacedTraining(300.0, SpeedupCurve.linear(8))) for spec in specs],
        size=chosen,
        place=packed,
        grace_s=20.0,
    )
    result = simulate(setup, observer=look)
    assert all(record.finished_s is not None for record in result.records)
    assert max(peaks) <= 12


@pytest.mark.parametrize(
    ("error", "again_after_s"),
    [
        pytest.param(InvariantBroken("a plan that breaks a promise"), RETRY_S, id="a decision that breaks a promise"),
        pytest.param(ZeroDivisionError("a bug"), RETRY_S, id="a bug in the policy"),
        pytest.param(EngineUnavailable("down", retry_after_s=5.0), 5.0, id="somebody else's trouble"),
        pytest.param(StaleView("the world moved on"), 0.0, id="a stale view is looked at again at once"),
    ],
)
def test_voda_11_a_cycle_that_fails_leaves_the_old_plan_in_force_and_is_tried_again(error, again_after_s):
    engine = Flaky()
    engine.submit("a", at_least=2, at_most=4)
    assert cycle(engine, grants(a=3)).error is None
    engine.actions.clear()

    def failing(view: Snapshot) -> Target:
        raise error

    result = cycle(engine, failing)
    assert result == CycleResult(None, error, again_after_s)
    assert engine.actions == []
    assert engine.sizes() == {"a": 3}
    assert cycle(engine, grants(a=4)).error is None
    assert engine.sizes() == {"a": 4}


@pytest.mark.parametrize(
    ("plan", "after"),
    [
        pytest.param(Target({}), {}, id="an empty plan stops every job"),
        pytest.param(
            Target({JobId("a"): Grant(4, 4, NEXT_IN_ORDER)}), {"a": 4}, id="a partial plan stops what it leaves out"
        ),
        pytest.param(
            Target({JobId(name): Grant(2, 2, NEXT_IN_ORDER) for name in ("a", "b", "ghost")}),
            None,
            id="a plan for a job that is gone is refused whole",
        ),
    ],
)
def test_voda_11_what_a_policy_leaves_out_is_told_from_what_it_gets_wrong(plan, after):
    """Voda took an empty or partial answer of its allocator for a plan. Here a job that is left out is told to stop,
    through the same checks as every plan, and a plan that names a job which is not there changes nothing."""
    engine = Flaky()
    for name in ("a", "b"):
        engine.submit(name, at_least=2, at_most=4)
    assert cycle(engine, grants(a=3, b=3)).error is None
    engine.actions.clear()
    result = cycle(engine, lambda view: plan)
    if after is None:
        assert result.error is not None
        assert (result.decision, result.again_after_s, engine.actions) == (None, RETRY_S, [])
        assert engine.sizes() == {"a": 3, "b": 3}
    else:
        assert engine.sizes() == after
    assert cycle(engine, grants(a=3, b=3)).error is None
    assert engine.sizes() == {"a": 3, "b": 3}, "the next plan that makes sense holds"


def test_voda_11_a_plan_that_would_overfill_a_node_is_never_applied():
    engine = Flaky(gpus=2)
    engine.submit("a", at_least=1, at_most=4)

    def careless(view: Snapshot, target: Target):
        return packed(cluster(nodes=[node("n1", gpus=8)], jobs=view.jobs), target)

    result = run_at_once(try_cycle(engine, grants(a=4), careless, NoJournal(), Settings(), retry_after_s=RETRY_S))
    assert isinstance(result.error, InvariantBroken)
    assert engine.actions == []


@pytest.mark.parametrize(
    ("fails", "cycles"),
    [
        pytest.param([Grow], 2, id="a start fails once"),
        pytest.param([Grow, Grow], 3, id="a start fails twice"),
        pytest.param([], 1, id="nothing fails"),
    ],
)
def test_voda_12_what_an_engine_could_not_do_is_done_in_the_next_cycle(fails, cycles):
    engine = Flaky(fails=fails)
    engine.submit("a", at_least=2, at_most=4)
    for _ in range(cycles):
        assert engine.sizes() == {}
        cycle(engine, grants(a=3))
    assert engine.sizes() == {"a": 3}


@pytest.mark.parametrize(
    ("kind", "job_id"),
    [
        pytest.param(Grow, "new", id="a start"),
        pytest.param(Grow, "grows", id="a scale-out"),
        pytest.param(Shrink, "shrinks", id="a scale-in"),
        pytest.param(Shrink, "stops", id="a halt"),
    ],
)
def test_voda_12_every_kind_of_action_that_fails_once_is_repaired_by_the_next_cycle(kind, job_id):
    engine = Flaky(gpus=8)
    for name in ("shrinks", "grows", "stops"):
        engine.submit(name, at_least=1, at_most=4)
    cycle(engine, grants(shrinks=4, grows=2, stops=2))
    engine.submit("new", at_least=1, at_most=4)
    engine.fail_once(kind, job_id)
    wanted = grants(shrinks=2, grows=3, new=3)
    cycle(engine, wanted)
    assert engine.sizes() != {"shrinks": 2, "grows": 3, "new": 3}, "nothing failed"
    cycle(engine, wanted)
    assert engine.sizes() == {"shrinks": 2, "grows": 3, "new": 3}


def test_a_step_that_needs_room_waits_until_it_is_there():
    """Shrinking takes a while: what needs the room is not begun in the same cycle, what does not is."""
    released: list[JobId] = []
    engine = SimulatedEngine(
        Cluster.of([node("n1", gpus=4), node("n2", gpus=4)]),
        Costs(),
        on_finish_known=lambda *_: None,
        on_leaving=released.append,
    )
    for name, least in (("a", 4), ("b", 4), ("c", 4)):
        spec = JobSpec(
            id=JobId(name), submitted_s=0.0, request=Resources(gpu_milli=1000), workers_min=least, workers_max=least,
            workers_initial=least,
        )  # fmt: skip
        engine.arrive(SimulatedJob(spec, PacedTraining(1e6, SpeedupCurve.flat())))
    for wanted in (grants(a=4), grants(b=4, c=4)):
        run_at_once(run_cycle(engine, wanted, packed, NoJournal(), Settings()))
        engine.commit()
    holding = {job_id for job_id, held in engine.jobs.items() if held.size}
    assert holding == {"c"}, "b needs the node that a is still leaving"
    engine.released(JobId("a"))
    run_at_once(run_cycle(engine, grants(b=4, c=4), packed, NoJournal(), Settings()))
    engine.commit()
    assert {job_id for job_id, held in engine.jobs.items() if held.size} == {"b", "c"}
