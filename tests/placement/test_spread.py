"""Spreading by pod count: the emptiest node next, ties by node order; and starts that are pinned."""

import pytest

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role
from sterna.model.layout import Layout
from sterna.model.nodes import Guest, Taint
from sterna.model.resources import NOTHING
from sterna.model.target import Grant, Target
from sterna.model.why import NEXT_IN_ORDER
from sterna.placement.pinning import pinned
from sterna.placement.spread import spread_by_count
from tests.worlds import cluster, job, node


def placed(jobs, nodes, *, place=spread_by_count):
    grants = {each.id: Grant(each.spec.size_asked, each.spec.workers_min, NEXT_IN_ORDER) for each in jobs}
    view = cluster(jobs=jobs, nodes=nodes)
    return place(view, Target(grants))


def where(layout: Layout) -> dict[str, list[str]]:
    return {job_id: [worker.node for worker in workers] for job_id, workers in layout.workers.items()}


def idle(name, **more):
    return job(name, needs=more.pop("needs", 1), gpus_each=0, **more)


def three(**more):
    return [node(name, cpus=4, **more) for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("jobs", "nodes", "expected"),
    [
        pytest.param(
            [idle(f"j{n}", submitted_s=n) for n in range(4)],
            three(),
            {"j0": ["a"], "j1": ["b"], "j2": ["c"], "j3": ["a"]},
            id="jobs that request nothing go round the nodes in their order",
        ),
        pytest.param(
            [idle("old", on=["a"]), idle("older", on=["a"]), idle("new", submitted_s=1)],
            three()[:2],
            {"old": ["a"], "older": ["a"], "new": ["b"]},
            id="what runs stays, and the newcomer goes where fewest are",
        ),
        pytest.param(
            [idle("new")],
            [node("a", guests=(Guest("daemon", NOTHING),)), node("b")],
            {"new": ["b"]},
            id="other people's pods count",
        ),
        pytest.param(
            [idle("gang", needs=5)],
            three(),
            {"gang": ["a", "b", "c", "a", "b"]},
            id="the workers of one job are spread as well",
        ),
        pytest.param(
            [idle("wish", spec={"node_preference": NodeId("c")})],
            three(),
            {"wish": ["c"]},
            id="a node that the owner prefers comes first",
        ),
        pytest.param(
            [job("big", needs=1, gpus_each=0, cpus_each=3, on=["b"]), job("new", needs=1, gpus_each=0, cpus_each=3)],
            [node("a", cpus=2), node("b", cpus=4), node("c", cpus=4)],
            {"big": ["b"], "new": ["c"]},
            id="a request must fit, however empty the node is",
        ),
        pytest.param(
            [idle("new")],
            [node("a", taints=(Taint("keep-out"),)), node("b")],
            {"new": ["b"]},
            id="a tainted node is no place for a newcomer",
        ),
    ],
)
def test_newcomers_go_to_the_node_with_fewest_pods(jobs, nodes, expected):
    assert where(placed(jobs, nodes)) == expected


def test_a_job_that_fits_nowhere_is_told_what_it_needs():
    layout = placed([job("big", needs=2, gpus_each=0, cpus_each=3)], [node("a", cpus=4)])
    assert where(layout) == {}
    assert layout.becauses[JobId("big")].why == "NoNodeFits"


def test_an_elastic_job_takes_what_there_is_above_its_minimum():
    stretchy = job("stretchy", at_least=2, at_most=6, initial=6, gpus_each=0, cpus_each=2)
    assert where(placed([stretchy], [node("a", cpus=4), node("b", cpus=5)])) == {"stretchy": ["a", "b", "a", "b"]}


def test_fixed_roles_are_spread_before_workers():
    layout = placed([idle("tf", ps=1, needs=2)], three())
    assert [(worker.role, worker.node) for worker in layout.workers[JobId("tf")]] == [
        (Role.PS, "a"),
        (Role.WORKER, "b"),
        (Role.WORKER, "c"),
    ]


def test_voda_39_a_job_starts_where_it_is_pinned():
    pins = {JobId("j0"): {(Role.WORKER, 0): NodeId("c")}}
    layout = placed([idle("j0"), idle("j1", submitted_s=1)], three(), place=pinned(spread_by_count, pins))
    assert where(layout)["j0"] == ["c"]


@pytest.mark.parametrize(
    ("pin", "nodes"),
    [
        pytest.param({(Role.WORKER, 0): NodeId("gone")}, three(), id="the node is not there"),
        pytest.param({(Role.WORKER, 7): NodeId("c")}, three(), id="another worker was pinned"),
        pytest.param({(Role.WORKER, 0): NodeId("c")}, [*three()[:2], node("c", cpus=1)], id="it does not fit there"),
        pytest.param(
            {(Role.WORKER, 0): NodeId("c")}, [*three()[:2], node("c", cordoned=True)], id="the node lets nobody in"
        ),
    ],
)
def test_voda_39_a_pin_that_cannot_be_is_no_error(pin, nodes):
    new = job("j0", needs=1, gpus_each=0, cpus_each=2)
    assert where(placed([new], nodes, place=pinned(spread_by_count, {JobId("j0"): pin}))) == {"j0": ["a"]}


def test_voda_39_a_pin_holds_only_for_the_first_start():
    started = idle("j0", first_started_s=1.0)
    pins = {JobId("j0"): {(Role.WORKER, 0): NodeId("c")}}
    assert where(placed([started], three(), place=pinned(spread_by_count, pins))) == {"j0": ["a"]}


def test_two_jobs_pinned_to_one_place_do_not_both_get_it():
    pins = {JobId(name): {(Role.WORKER, 0): NodeId("c")} for name in ("j0", "j1")}
    jobs = [job(name, needs=1, gpus_each=0, cpus_each=3, submitted_s=n) for n, name in enumerate(("j0", "j1"))]
    layout = placed(jobs, three(), place=pinned(spread_by_count, pins))
    assert where(layout) == {"j0": ["c"], "j1": ["b"]}
