"""Imbalance: which nodes are overloaded, and where their workers go."""

from itertools import permutations

import pytest

from sterna.model.ids import JobId, NodeId
from sterna.model.layout import Layout
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import Why
from sterna.placement.rebalancers.loads import By, Loads, overloaded
from sterna.placement.rebalancers.scene import Scene
from tests.placement.rebalancers.worlds import after, limited, look, nodes_of, rows, small_node, task, world
from tests.worlds import GIB

DEFAULTS = {"threshold": 1.0, "gap": 0.05, "two_nodes_gap": 0.0}
THREE = [small_node("n1"), small_node("n2"), small_node("n3")]


def named(*scores: float) -> dict[NodeId, float]:
    return {NodeId(f"n{number}"): score for number, score in enumerate(scores, start=1)}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        pytest.param((0.9, 0.1, 0.1), {"n1"}, id="one far above the others"),
        pytest.param((0.3, 0.3, 0.3), set(), id="all alike"),
        pytest.param((0.1 + 0.2, 0.3, 0.3), set(), id="alike but for rounding"),
        pytest.param((0.31, 0.30, 0.30), set(), id="a difference too small to matter, whatever the deviation"),
        pytest.param((0.9, 0.9, 0.1), set(), id="two of three are the rule, not the exception"),
        pytest.param((0.9, 0.1), set(), id="of two nodes none can be a deviation above the mean"),
        pytest.param((4.5, 0.0, 0.0), {"n1"}, id="limits may be overbooked"),
        pytest.param((0.7,), set(), id="a node alone"),
        pytest.param((), set(), id="no node at all"),
    ],
)
def test_dragon_38_which_nodes_are_overloaded(scores, expected):
    for order in permutations(named(*scores).items()):
        assert overloaded(dict(order), **DEFAULTS) == expected


def test_dragon_38_two_nodes_have_an_option_of_their_own():
    settings = {**DEFAULTS, "two_nodes_gap": 0.2}
    assert overloaded(named(0.9, 0.1), **settings) == {"n1"}
    assert overloaded(named(0.25, 0.1), **settings) == set()


def test_dragon_38_the_score_is_half_cpu_and_half_memory_of_limits():
    view = world(THREE, [limited("a", "n1", cpus=4, memory_gib=8), task("b", "n2", cpus_each=1)])
    scene = Scene(view, Layout({each.id: each.workers for each in view.jobs}))
    assert Loads(scene, By.LIMITS).scores() == {"n1": 0.75, "n2": 0.0, "n3": 0.0}
    assert Loads(scene, By.REQUESTS).scores() == {"n1": 0.03125, "n2": 0.125, "n3": 0.0}


def test_dragon_38_what_is_measured_may_count_instead():
    usage = {NodeId("n1"): Resources(4000, 8 * GIB), NodeId("n2"): Resources(400), NodeId("n3"): Resources(400)}
    jobs = [task("a", "n1"), task("b", "n1"), task("c", "n2")]
    view = world(THREE, jobs)
    view = Snapshot.of(now_s=view.now_s, nodes=view.nodes, jobs=view.jobs, usage=usage)
    assert look(view, "imbalance").steps == ()
    decision = look(view, "imbalance", by="usage")
    assert rows(decision.considered)[0] == ("a", "n1", "n2")
    assert decision.considered[0].because.why is Why.NODE_OVERLOADED


def test_dragon_38_a_node_stays_overloaded_until_it_is_clearly_below():
    """Its score is 1.37 deviations above the mean: above 1.3, below 1.5, and not below 1.5 by as much as 0.5."""
    jobs = [limited("a", "n1", cpus=4, memory_gib=8), limited("b", "n1", cpus=2, memory_gib=4)]
    jobs += [limited("c", "n2", cpus=1.5, memory_gib=2)]
    view = world(THREE, jobs)
    assert any(move.to for move in look(view, "imbalance", threshold="1.3", hysteresis="0.5").considered)
    calm = look(view, "imbalance", threshold="1.5", hysteresis="0.5")
    assert calm.considered == ()
    assert calm.memory.values == {}
    alarmed = look(view, "imbalance", threshold="1.3", moves_per_pass="0")
    assert alarmed.memory.values == {"rebalancing/imbalance/over/n1": 1.0}
    later = after(view, alarmed, at_s=view.now_s + 10)
    assert look(later, "imbalance", threshold="1.5", hysteresis="0.5").considered != ()
    assert look(later, "imbalance", threshold="1.5", hysteresis="0.01").considered == ()


def test_dragon_40_workers_that_pile_up_are_spread():
    """Scenario a of container-migration: three jobs on one of three nodes."""
    view = world(THREE, [limited(name, "n1", cpus=4, memory_gib=8) for name in "abc"])
    decision = look(view, "imbalance")
    assert rows(decision.considered) == [("a", "n1", "n2"), ("b", "n1", "n3")]
    assert nodes_of(decision, "c") == ["n1"]
    assert look(after(view, decision, at_s=200.0), "imbalance").steps == ()


def test_dragon_40_where_the_source_is_among_the_best_nothing_changes():
    """One large worker makes the node overloaded, and no other node would be less so with it."""
    view = world(THREE, [limited("a", "n1", cpus=4, memory_gib=8)])
    decision = look(view, "imbalance")
    assert decision.steps == ()
    assert [(move.to, move.because.why) for move in decision.considered] == [(None, Why.EVEN_LOAD)]
    assert decision.memory.jobs == {}


def test_dragon_40_where_the_best_target_is_full_the_next_best_is_taken():
    jobs = [limited(name, "n1", cpus=4, memory_gib=8) for name in "abc"]
    full = task("full", "n2", cpus_each=4)  # it has no limits, so by its score the node looks empty
    assert rows(look(world(THREE, [*jobs, full]), "imbalance").considered)[0] == ("a", "n1", "n3")


def test_dragon_40_where_every_better_target_is_full_it_stays():
    jobs = [limited(name, "n1", cpus=4, memory_gib=8) for name in "abc"]
    full = [task(f"full-{name}", name, cpus_each=4) for name in ("n2", "n3")]
    decision = look(world(THREE, [*jobs, *full]), "imbalance")
    assert decision.steps == ()
    assert {move.because.why for move in decision.considered} == {Why.NO_TARGET}


def test_dragon_40_the_fourth_move_of_a_worker_is_refused_whatever_became_of_it_meanwhile():
    """Its lineage is its job, role and number: devices, restarts of the scheduler and new plans do not matter."""
    nodes = [small_node(f"n{number}") for number in range(1, 6)]
    view = world(nodes, [limited("a", "n1", cpus=3, memory_gib=4), limited("b", "n1", cpus=4, memory_gib=8)])
    moved = 0
    for _ in range(6):
        decision = look(view, "imbalance", imbalance__gap="0")
        moved += any(move.to and move.job_id == "a" for move in decision.considered)
        if any(move.job_id == "a" and move.because.why is Why.RESTING for move in decision.considered):
            break
        at_s = view.now_s + 700.0  # past every cool-down, and within the budget of an hour
        follow = nodes_of(decision, "a")[0]
        beside = tuple(worker._replace(node=NodeId(follow)) for worker in view.by_id[JobId("b")].workers)
        view = after(view, decision, at_s=at_s, jobs={"a": {"units_left": 1000.0}, "b": {"workers": beside}})
    assert moved == 3
    refused = next(move for move in decision.considered if move.job_id == "a")
    assert refused.because.numbers == (("moves_of_this_worker", 3), ("most", 3))


def test_dragon_40_a_worker_that_moved_rests_for_three_seconds():
    view = world(THREE, [limited(name, "n1", cpus=4, memory_gib=8) for name in "abcd"])
    decision = look(view, "imbalance", moves_per_pass="1")
    back = [each.but(workers=view.by_id[each.id].workers) for each in after(view, decision, at_s=102.0).jobs]
    again = Snapshot.of(now_s=102.0, nodes=THREE, jobs=back, memory=decision.memory)
    why = {move.job_id: move.because.why for move in look(again, "imbalance", moves_per_pass="1").considered}
    assert why[JobId("a")] is Why.RESTING


def test_dragon_43_balanced_starts_see_no_move():
    """Scenarios c and e: one job on each node, of one or three workers."""
    for size in (1, 3):
        jobs = [limited(f"j-{name}", *[name] * size, cpus=4, memory_gib=8) for name in ("n1", "n2", "n3")]
        assert look(world(THREE, jobs), "imbalance").considered == ()
