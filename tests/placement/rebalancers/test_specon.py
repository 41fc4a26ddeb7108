"""SpeCon: who is looked at in a round, who moves, where to, and when the next round is."""

from dataclasses import replace

import pytest

from sterna.model.growth import Category, Growth
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import FixedRole, Role, Worker
from sterna.model.layout import Layout
from sterna.model.resources import Resources
from sterna.model.why import Why
from sterna.placement.rebalancers.cost import CostOptions
from sterna.placement.rebalancers.demand import Demands
from sterna.placement.rebalancers.forecast import Forecast
from sterna.placement.rebalancers.scene import Scene
from tests.placement.rebalancers.worlds import (
    CONVERGED,
    PROGRESSING,
    WATCHING,
    after,
    look,
    nodes_of,
    rows,
    small_node,
    task,
    world,
)

NODES = [small_node(name) for name in ("n1", "n2", "n3", "n4")]


def test_voda_36_a_replayed_log_of_rounds():
    """Converged jobs leave the most contended node one by one, 30 s apart; others of a round have an empty target."""
    jobs = [
        *(task(f"c{number}", "n1", growth=CONVERGED, submitted_s=number) for number in range(3)),
        *(task(f"p{number}", "n1", growth=PROGRESSING, submitted_s=10 + number) for number in range(3)),
        *(task(f"q{number}", "n2", growth=WATCHING, submitted_s=20 + number) for number in range(2)),
        task("r0", "n3", growth=PROGRESSING, submitted_s=30),
        task("s0", "n4", growth=PROGRESSING, submitted_s=40),
    ]
    view = world(NODES, jobs, now_s=1000.0)
    log: dict[float, list[tuple[str, str, str]]] = {}
    for _ in range(12):  # the core is asked every 10 s, as often as growth is judged
        decision = look(view, "specon", cost__mode="off")
        if decision.considered:
            log[view.now_s] = rows(decision.considered)
        view = after(view, decision, at_s=view.now_s + 10.0)
    assert log == {
        1000.0: [("c0", "n1", "n3"), ("c1", "n1", ""), ("c2", "n1", "")],
        1030.0: [("c1", "n1", "n4"), ("c2", "n1", "")],
        1060.0: [("c2", "n1", "n3")],
        1090.0: [("c0", "n3", ""), ("c2", "n3", "")],  # equal loads: looked at, and left
    }


def test_voda_36_equal_load_gives_an_empty_target_and_says_why():
    jobs = [task(f"c{name}", name, growth=CONVERGED) for name in ("n1", "n2", "n3", "n4")]
    decision = look(world(NODES, jobs), "specon")
    assert rows(decision.considered) == [("cn1", "n1", "")]
    assert decision.considered[0].because.why is Why.EVEN_LOAD
    assert decision.steps == ()


def test_voda_36_at_most_one_move_in_a_round_and_rounds_are_30_s_apart():
    jobs = [task(f"c{number}", "n1", growth=CONVERGED, submitted_s=number) for number in range(4)]
    first = look(world(NODES, [*jobs, task("p", "n1", growth=PROGRESSING)]), "specon")
    assert [move.to for move in first.considered if move.to] == ["n2"]
    assert first.wake_s == 130.0
    view = after(world(NODES, [*jobs, task("p", "n1", growth=PROGRESSING)]), first, at_s=129.9)
    assert look(view, "specon").considered == ()
    view = after(view, look(view, "specon"), at_s=130.0)
    assert len([move for move in look(view, "specon").considered if move.to]) == 1


@pytest.mark.parametrize("growth", [PROGRESSING, WATCHING, None], ids=["progressing", "watching", "never judged"])
def test_voda_36_only_converged_work_is_a_candidate(growth):
    jobs = [task(f"j{number}", "n1", growth=growth) for number in range(4)]
    decision = look(world(NODES, jobs), "specon", cost__mode="off")
    assert decision.considered == ()
    assert decision.steps == ()


@pytest.mark.parametrize("role", [Role.PS, Role.CHIEF, Role.MASTER, Role.LAUNCHER])
def test_what_holds_the_state_of_a_job_never_moves(role):
    held = (Worker(role, 0, NodeId("n1")), Worker(Role.WORKER, 0, NodeId("n1")))
    busy = [task(f"p{number}", "n1", growth=PROGRESSING) for number in range(3)]
    bound = task("c", "n1", growth=CONVERGED).but(workers=held)
    bound = bound.but(spec=replace(bound.spec, fixed=(FixedRole(role, 1, Resources()),)))
    decision = look(world(NODES, [*busy, bound]), "specon", cost__mode="off")
    assert [(worker.role, worker.node) for worker in decision.layout.workers_of(bound.id)] == [
        (role, "n1"),
        (Role.WORKER, "n2"),
    ]


def test_a_job_that_restarts_moves_as_a_whole_to_a_node_that_has_none_of_it():
    busy = [task(f"p{number}", "n1", growth=PROGRESSING) for number in range(4)]
    whole = task("c", "n1", "n2", growth=CONVERGED, spec={"restarts_on_resize": True})
    decision = look(world(NODES, [*busy, whole]), "specon", cost__mode="off")
    assert nodes_of(decision, "c") == ["n3", "n3"]
    assert [(type(action).__name__, len(action.to)) for step in decision.steps for action in step.actions] == [
        ("Shrink", 0),
        ("Grow", 2),
    ]
    assert not any(step.after_release for step in decision.steps)  # nobody else decides where it goes


def test_the_cost_model_has_the_last_word():
    """Packing converged work together is what SpeCon is for, and what its losers pay for: all seconds counted alike,
    a converged job does not go where it would be slower by more than the others gain."""
    jobs = [
        *(task(f"p{number}", "n1", growth=PROGRESSING) for number in range(2)),
        task("c", "n1", growth=CONVERGED),
        *(task(f"d{number}", "n2", growth=CONVERGED) for number in range(6)),
    ]
    view = world([small_node("n1"), small_node("n2")], jobs)
    assert rows(look(view, "specon", cost__mode="off").considered)[0] == ("c", "n1", "n2")
    assert rows(look(view, "specon", cost__mode="growth", harm_max=0).considered)[0] == ("c", "n1", "n2")
    stays = look(view, "specon").considered[0]
    assert (stays.to, stays.because.why) == (None, Why.NOT_WORTH_IT)
    assert stays.cost_s > stays.benefit_s > 0


def test_no_single_job_pays_for_the_others():
    """Six share a node and one has another to itself: sums say that a move pays, and it would cost that one a lot."""
    jobs = [
        *(task(f"c{number}", "n1", growth=CONVERGED, left=600.0, submitted_s=100.0) for number in range(6)),
        task("alone", "n2", growth=PROGRESSING, left=600.0, submitted_s=100.0),
    ]
    view = world([small_node("n1"), small_node("n2")], jobs)
    spared = look(view, "specon", converged_weight=1)
    assert next((move.to, move.because.why) for move in spared.considered) == (None, Why.NOT_WORTH_IT)
    paying = look(view, "specon", converged_weight=1, harm_max=0)
    assert [move.to for move in paying.considered if move.to] == ["n2"]
    assert paying.memory.jobs[JobId("alone")]["rebalancing/delayed_s"] == 600.0


def test_a_job_that_is_partly_on_nodes_of_another_pool_is_weighed_by_what_is_here():
    """Nothing is known here of how crowded those are, and nothing here changes it."""
    busy = [task(f"p{number}", "n1", growth=PROGRESSING) for number in range(2)]
    spans = task("c", "n1", "elsewhere", growth=CONVERGED)
    view = world(NODES, [*busy, spans])
    scene = Scene(view, Layout({each.id: each.workers for each in view.jobs}))
    forecast = Forecast(scene, Demands(scene), CostOptions())
    here = next(unit for unit in scene.units if unit.workers[0].node == "n1")
    effects = forecast.effects_s(here, NodeId("n2"))
    assert effects == {"p0": -500.0, "p1": -500.0, "c": -1000.0}  # it has 500 s left, and shares with two
    assert forecast.whole_s(spans) == pytest.approx(100.0 - spans.spec.submitted_s + 1500.0)


def test_a_job_that_ends_before_the_pause_is_paid_back_stays():
    jobs = [task(f"p{number}", "n1", growth=PROGRESSING) for number in range(2)]
    leaving_soon = task("c", "n1", growth=CONVERGED, left=1.0, checkpoint_s=4.0, restart_s=4.0)
    decision = look(world(NODES, [*jobs, leaving_soon]), "specon")
    assert decision.considered[0].because.why is Why.NOT_WORTH_IT
    assert decision.considered[0].cost_s >= 8.0
    staying_long = leaving_soon.but(units_left=100.0)
    assert look(world(NODES, [*jobs, staying_long]), "specon").considered[0].to == "n2"


def test_a_target_must_have_room_and_admit_it():
    jobs = [
        *(task(f"p{number}", "n1", growth=PROGRESSING) for number in range(3)),
        task("c", "n1", growth=CONVERGED, cpus_each=0.9),
        task("full", "n2", cpus_each=3.5),
    ]
    nodes = [small_node("n1"), small_node("n2"), small_node("n3", cordoned=True)]
    stays = look(world(nodes, jobs), "specon", cost__mode="off").considered
    assert rows(stays) == [("c", "n1", "")]
    assert stays[0].because.why is Why.NO_TARGET


def test_contention_by_cpu_demand():
    """Two workers that may use a CPU each are less contention than one that may use four."""
    small = {"limit": Resources(1000)}
    jobs = [
        task("big", "n1", growth=PROGRESSING),
        task("c", "n1", growth=CONVERGED, spec=small),
        *(task(f"s{number}", "n2", growth=PROGRESSING, spec=small) for number in range(2)),
    ]
    view = world([small_node("n1"), small_node("n2")], jobs)
    settings = {"cost__mode": "off"}
    assert rows(look(view, "specon", **settings).considered) == [("c", "n1", "")]
    assert rows(look(view, "specon", specon__contention="cpu", **settings).considered) == [("c", "n1", "n2")]


def test_a_round_that_sees_nothing_new_leaves_no_trace():
    """Converged jobs may run for days on a calm cluster: they are told of once, and nothing is written down again."""
    view = world(NODES, [task(f"c{name}", name, growth=CONVERGED, left=1e6) for name in ("n1", "n2", "n3", "n4")])
    first = look(view, "specon")
    assert len(first.considered) == 1
    later = after(view, first, at_s=view.now_s + 30)
    second = look(later, "specon")
    assert (second.considered, second.memory) == ((), first.memory)
    assert second.wake_s == view.now_s + 60
    newcomer = task("new", "n1", growth=CONVERGED, left=1e6, as_of_s=160.0)
    third = world(NODES, [*later.jobs, newcomer], now_s=160.0, memory=second.memory)
    assert [move.job_id for move in look(third, "specon", cost__mode="off").considered] == ["cn1", "new"]


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        pytest.param((1.0, 1.0), 1000.0, id="on a node that is not busy it wants what it uses"),
        pytest.param((1.0, 3.0), 1000.0, id="on a busy node the modest want what they use"),
        pytest.param((3.0, 1.0), 4000.0, id="on a busy node the greedy want all there is"),
        pytest.param((None, 1.0), 4000.0, id="nobody measured it"),
    ],
)
def test_what_a_worker_without_a_limit_would_use(used, expected):
    def growth(cpus):
        return Growth(Category.CONVERGED, 0.01, None if cpus is None else 0.01 / cpus)

    view = world(NODES, [task(f"j{number}", "n1", growth=growth(cpus)) for number, cpus in enumerate(used)])
    scene = Scene(view, Layout({each.id: each.workers for each in view.jobs}))
    assert Demands(scene).milli(view.nodes[0], scene.residents[NodeId("n1")][0]) == pytest.approx(expected)


def test_a_round_without_candidates_leaves_no_trace():
    """An idle scheduler writes nothing down."""
    decision = look(world(NODES, [task("p", "n1", growth=PROGRESSING)]), "specon")
    assert decision.memory.values == {}
    assert decision.wake_s == 130.0
    assert look(world(NODES, []), "specon").wake_s is None
