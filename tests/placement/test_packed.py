"""The default placement, by example."""

from dataclasses import replace

import pytest

from sterna.model.jobs import Role
from sterna.model.nodes import Effect, Guest, Taint, Toleration
from sterna.model.resources import Resources
from sterna.model.why import KEPT, NEXT_IN_ORDER, Because, Why
from sterna.placement.packed import packed
from sterna.placement.shrinking import shrunk
from tests.placement.asking import ask, ps, where, worker
from tests.worlds import cluster, job, node

TAINT = Taint("team", "vision")
EVICT = Taint("broken", effect=Effect.NO_EXECUTE)


@pytest.mark.parametrize(
    ("gpus", "jobs", "target", "expected"),
    [
        pytest.param(
            {"a": 2, "b": 2, "c": 4}, [job("j", needs=4)], ask(j=4), {"j": ["c"] * 4}, id="only one node holds it all"
        ),
        pytest.param(
            {"a": 8, "b": 4, "c": 4}, [job("j", needs=4)], ask(j=4), {"j": ["b"] * 4}, id="the tightest node that fits"
        ),
        pytest.param(
            {"a": 2, "b": 3, "c": 2},
            [job("j", needs=6, ps=1, ps_cpus=1)],
            ask(j=6),
            {"j": ["b", "b", "b", "b", "a", "a", "c"]},
            id="fits nowhere whole: parameter server on the node with most slots, workers there, then spill",
        ),
        pytest.param(
            {"a": 4, "b": 3, "c": 2},
            [job("j", needs=6)],
            ask(j=6),
            {"j": ["a"] * 4 + ["c"] * 2},
            id="after the largest node the rest goes where it fits most tightly",
        ),
        pytest.param(
            {"a": 2, "b": 2}, [job("j", needs=4), job("k", needs=1)], ask(k=1, j=4), {"k": ["a"]}, id="served in order"
        ),
        pytest.param(
            {"a": 1, "b": 3},
            [job("j", at_least=1, at_most=3, holds=[worker(0, "a")])],
            ask(j=3),
            {"j": ["a", "b", "b"]},
            id="one worker grows to exactly its maximum",
        ),
        pytest.param(
            {"a": 4, "b": 4, "c": 1},
            [job("j", at_least=1, at_most=6, holds=[worker(0, "a"), worker(1, "b"), worker(2, "b")])],
            ask(j=5),
            {"j": ["a", "b", "b", "b", "b"]},
            id="growth joins most of the job",
        ),
        pytest.param(
            {"a": 4, "b": 4},
            [job("j", at_least=1, at_most=6, ps=1, holds=[ps("a"), worker(0, "b"), worker(1, "b")])],
            ask(j=4),
            {"j": ["a", "b", "b", "a", "a"]},
            id="growth joins the parameter server first",
        ),
        pytest.param(
            {"a": 4},
            [job("j", at_least=1, at_most=4, holds=[worker(0, "a"), worker(3, "a")])],
            ask(j=4),
            {"j": ["a"] * 4},
            id="newcomers take the lowest free ordinals",
        ),
        pytest.param({}, [job("j", needs=1)], ask(j=1), {}, id="no nodes at all"),
        pytest.param({"a": 1}, [], ask(ghost=1), {}, id="a grant for a job that is gone"),
        pytest.param({"a": 2}, [job("j", needs=1, on=["a"])], ask(j=0), {}, id="a grant of nothing"),
    ],
)
def test_dragon_25_one_node_first_then_spill(gpus, jobs, target, expected):
    view = cluster(nodes=[node(name, gpus=count) for name, count in gpus.items()] or [node("x", cpus=0)], jobs=jobs)
    layout = packed(view, target)
    assert where(layout) == expected
    for workers in layout.workers.values():
        elastic = [worker.ordinal for worker in workers if worker.role is Role.WORKER]
        assert elastic == list(range(len(elastic)))


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        pytest.param("b", ["b", "b"], id="the preferred node although another is tighter"),
        pytest.param("full", ["a", "a"], id="preferred but full: as if nothing were said"),
        pytest.param("nowhere", ["a", "a"], id="preferred but unknown: no error"),
        pytest.param("cordoned", ["a", "a"], id="preferred but cordoned"),
    ],
)
def test_dragon_26_node_preference_is_tried_first(preference, expected):
    nodes = [node("a", gpus=2), node("b", gpus=4), node("cordoned", gpus=4, cordoned=True), node("full", gpus=1)]
    view = cluster(nodes=nodes, jobs=[job("j", needs=2, spec={"node_preference": preference})])
    assert where(packed(view, ask(j=2))) == {"j": expected}


def test_dragon_28_whole_gpus_by_count():
    jobs = [job(name, needs=1, cpus_each=1) for name in ("a", "b", "c")]
    layout = packed(cluster(nodes=[node("n", gpus=2, cpus=8)], jobs=jobs), ask(a=1, b=1, c=1))
    assert where(layout) == {"a": ["n"], "b": ["n"]}
    numbers = (("needs_gpus", 1), ("largest_free_gpus_on_a_node", 0))
    assert layout.because_of("c") == Because(Why.NO_NODE_FITS, numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("held", "size", "stays"),
    [
        pytest.param([("a", 0), ("b", 1), ("b", 2)], 2, [0, 1], id="worker 0 stays although it is the loneliest"),
        pytest.param([("a", 0), ("a", 1), ("b", 2)], 2, [0, 1], id="the lonely worker goes first"),
        pytest.param([("a", 0), ("a", 1), ("b", 2), ("b", 3)], 2, [0, 1], id="a node is left altogether"),
        pytest.param([("a", 0), ("a", 1), ("a", 2)], 1, [0], id="highest ordinals first on one node"),
        pytest.param([("b", 2), ("a", 5), ("a", 7)], 1, [2], id="the lowest ordinal stays where there is no worker 0"),
        pytest.param([("a", 0)], 4, [0], id="nothing to let go of"),
    ],
)
def test_shrinking_lets_lonely_workers_go(held, size, stays):
    workers = tuple(worker(ordinal, on) for on, ordinal in held)
    remaining = shrunk(job("j", at_most=4).spec, workers, size)
    assert [left.ordinal for left in remaining] == stays


def test_shrinking_leaves_nodes_without_the_parameter_server_first():
    held = (ps("b"), worker(0, "a"), worker(1, "a"), worker(2, "a"), worker(3, "b"))
    spec = job("j", at_most=4, ps=1).spec
    assert shrunk(spec, held, 2) == (ps("b"), worker(0, "a"), worker(3, "b"))
    assert shrunk(spec, held, 1) == (ps("b"), worker(0, "a"))


def test_a_shrink_frees_room_for_those_behind_it():
    jobs = [job("a", at_least=1, at_most=4, on=["n"] * 4), job("b", needs=2)]
    layout = packed(cluster(gpus=4, nodes=[node("n", gpus=4)], jobs=jobs), ask(a=2, b=2))
    assert where(layout) == {"a": ["n", "n"], "b": ["n", "n"]}


def test_a_job_that_is_not_granted_anything_gives_way():
    jobs = [job("a", needs=4, on=["n"] * 4), job("b", needs=4)]
    layout = packed(cluster(nodes=[node("n", gpus=4)], jobs=jobs), ask(b=4))
    assert where(layout) == {"b": ["n"] * 4}


def test_what_does_not_change_is_the_very_same_value():
    held = job("a", needs=2, on=["n", "n"])
    layout = packed(cluster(nodes=[node("n", gpus=4)], jobs=[held, job("b", needs=2)]), ask(a=2, b=2))
    assert layout.workers_of(held.id) is held.workers
    assert layout.because_of(held.id) == KEPT


def test_a_job_that_finds_no_room_to_grow_stays_as_it_is():
    held = job("a", at_least=1, at_most=4, on=["n", "n"])
    layout = packed(cluster(nodes=[node("n", gpus=2)], jobs=[held]), ask(a=(4, 1)))
    assert layout.workers_of(held.id) is held.workers
    assert held.id not in layout.becauses


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(ask(j=(6, 2)), 4, id="fragmented: the largest size it may have"),
        pytest.param(ask(j=(6, 6)), 0, id="fragmented, but its policy insists"),
        pytest.param(ask(j=(4, 4)), 4, id="what fits is given in full"),
    ],
)
def test_a_job_gets_sizes_it_may_have(target, expected):
    view = cluster(nodes=[node("a", gpus=3), node("b", gpus=2)], jobs=[job("j", at_least=2, at_most=6, step=2)])
    assert len(packed(view, target).workers_of("j")) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(None, Why.NODE_LOST, id="the node is gone"),
        pytest.param({"ready": False}, Why.NODE_LOST, id="the node is not ready"),
        pytest.param({"cordoned": True}, Why.NODE_DRAINED, id="the node is cordoned"),
        pytest.param({"taints": (EVICT,)}, Why.NODE_DRAINED, id="the node evicts"),
    ],
)
def test_workers_of_a_lost_node_are_placed_again(change, why):
    left = [replace(node("a", gpus=4), **change)] if change else []
    held = job("j", at_least=1, at_most=4, on=["a", "a", "b"])
    layout = packed(cluster(nodes=[*left, node("b", gpus=4)], jobs=[held]), ask(j=3))
    assert [(seat.ordinal, seat.node) for seat in layout.workers_of(held.id)] == [(0, "b"), (1, "b"), (2, "b")]
    assert layout.workers_of(held.id)[2] is held.workers[2]
    assert layout.because_of(held.id) == Because(why, (("node", "a"),))


def test_a_lost_gang_that_fits_nowhere_stops_and_frees_its_room():
    jobs = [job("gang", needs=4, on=["a", "a", "b", "b"]), job("small", needs=1)]
    layout = packed(cluster(nodes=[node("b", gpus=2)], jobs=jobs), ask(gang=4, small=1))
    assert where(layout) == {"small": ["b"]}
    assert layout.because_of("gang").why is Why.NO_NODE_FITS  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, ["plain"], id="taints keep others out"),
        pytest.param({"tolerations": (Toleration("team", "vision"),)}, ["odd"], id="unless tolerated"),
        pytest.param({"selector": (("disk", "ssd"),)}, ["ssd"], id="a selector picks the node"),
        pytest.param({"accelerator": "a100"}, ["ssd"], id="so does the accelerator"),
        pytest.param({"selector": (("disk", "tape"),)}, None, id="a selector that nothing matches"),
    ],
)
def test_new_workers_go_where_they_are_let_in(spec, expected):
    nodes = [
        node("odd", gpus=1, taints=(TAINT,)),
        node("plain", gpus=2),
        node("ssd", gpus=4, labels=(("disk", "ssd"),), accelerator="a100"),
    ]
    layout = packed(cluster(nodes=nodes, jobs=[job("j", needs=1, spec=spec)]), ask(j=1))
    assert where(layout).get("j") == expected


def test_a_taint_that_only_keeps_newcomers_out_lets_workers_stay():
    held = job("j", at_least=1, at_most=2, on=["a"])
    view = cluster(nodes=[node("a", gpus=4, taints=(TAINT,)), node("b", gpus=4)], jobs=[held])
    assert where(packed(view, ask(j=2))) == {"j": ["a", "b"]}


def test_a_serving_guest_crowds_out_the_worker_that_matters_least():
    guest = Guest("web", Resources(gpu_milli=1000))
    jobs = [job("a", at_least=1, at_most=2, on=["n1", "n1"]), job("b", at_least=1, at_most=2, on=["n1", "n1"])]
    nodes = [node("n1", gpus=4, guests=(guest,)), node("n2", gpus=1)]
    layout = packed(cluster(nodes=nodes, jobs=jobs), ask(a=2, b=2))
    assert where(layout) == {"a": ["n1", "n1"], "b": ["n1", "n2"]}
    assert layout.because_of("b") == Because(Why.CROWDED_OUT, (("node", "n1"),))  # type: ignore[arg-type]


def test_a_shrinking_job_leaves_the_crowded_node_first():
    guest = Guest("web", Resources(gpu_milli=1000))
    held = job("a", at_least=1, at_most=4, on=["n1", "n1", "n2"])
    view = cluster(nodes=[node("n1", gpus=2, guests=(guest,)), node("n2", gpus=1)], jobs=[held])
    layout = packed(view, ask(a=2))
    assert where(layout) == {"a": ["n1", "n2"]}
    assert layout.because_of(held.id) == NEXT_IN_ORDER


def test_missing_fixed_roles_are_replaced_beside_the_rest():
    held = job("j", needs=2, ps=1, ps_cpus=1, holds=[ps("gone"), worker(0, "b"), worker(1, "b")])
    layout = packed(cluster(nodes=[node("a", gpus=4), node("b", gpus=2)], jobs=[held]), ask(j=2))
    assert where(layout) == {"j": ["b", "b", "b"]}


def test_shares_of_one_card_are_placed_together():
    jobs = [job(name, needs=1, gpus_each=0.5) for name in ("a", "b", "c")]
    layout = packed(cluster(nodes=[node("n1", gpus=1), node("n2", gpus=2)], jobs=jobs), ask(a=1, b=1, c=1))
    assert where(layout) == {"a": ["n1"], "b": ["n1"], "c": ["n2"]}


def test_jobs_without_gpus_are_packed_by_cpu():
    jobs = [job("a", needs=3, gpus_each=0, cpus_each=4), job("b", needs=1, gpus_each=0, cpus_each=8)]
    nodes = [node("n1", cpus=16), node("n2", cpus=12)]
    layout = packed(cluster(nodes=nodes, jobs=jobs), ask(a=3, b=1))
    assert where(layout) == {"a": ["n2"] * 3, "b": ["n1"]}
    full = packed(cluster(nodes=nodes, jobs=[job("c", needs=8, gpus_each=0, cpus_each=4)]), ask(c=8))
    assert full.because_of("c").numbers == (("needs_cpus", 32), ("largest_free_cpus_on_a_node", 16))  # type: ignore[arg-type]
