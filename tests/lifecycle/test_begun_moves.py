"""Whoever let go of its workers in order to be elsewhere goes there, as far as there is room."""

import pytest

from sterna.engines.kubernetes.status.standing import Change
from sterna.lifecycle.begun_moves import placing
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Node
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import Because, Why

JOB = JobId("default/done")


def worker(node: str, ordinal: int = 0) -> Worker:
    return Worker(Role.WORKER, ordinal, NodeId(node))


def view(*, cpus_of_n2: int = 4, cordoned: bool = False) -> Snapshot:
    spec = JobSpec(id=JOB, submitted_s=0.0, request=Resources(cpu_milli=1000), restarts_on_resize=True)
    nodes = [
        Node(id=NodeId("n1"), allocatable=Resources(cpu_milli=4000)),
        Node(id=NodeId("n2"), allocatable=Resources(cpu_milli=1000 * cpus_of_n2), cordoned=cordoned),
    ]
    return Snapshot.of(now_s=10.0, nodes=nodes, jobs=[Job(spec=spec, phase=Phase.RESIZING)])


def moving(*after: Worker) -> dict[JobId, Change]:
    return {JOB: Change("migration", "Converged", "hardly improves", (worker("n1"),), after, began_s=1.0)}


def back_home(_: Snapshot, __: Target) -> Layout:
    """A placement that knows nothing of the move."""
    return Layout({JOB: (worker("n1"),)}, {JOB: Because(Why.NEXT_IN_ORDER)})


def test_it_goes_where_it_was_to_go_and_the_reason_stays():
    layout = placing(back_home, moving(worker("n2")))(view(), Target({}))
    assert layout.workers_of(JOB) == (worker("n2"),)
    assert layout.becauses[JOB].why is Why.CONVERGED


@pytest.mark.parametrize(
    ("world", "moves"),
    [
        pytest.param(view(cpus_of_n2=0), moving(worker("n2")), id="there is no room any more"),
        pytest.param(view(cordoned=True), moving(worker("n2")), id="the node is being emptied"),
        pytest.param(view(), moving(worker("n9")), id="the node is gone"),
        pytest.param(view(), moving(worker("n2"), worker("n2", 1)), id="it has another size by now"),
        pytest.param(view(), {}, id="nothing was begun"),
    ],
)
def test_placement_decides_where_that_cannot_be(world, moves):
    assert placing(back_home, moves)(world, Target({})).workers_of(JOB) == (worker("n1"),)


def test_a_reason_of_another_release_is_no_obstacle():
    strange = {JOB: moving(worker("n2"))[JOB]._replace(why="SomethingNewer")}
    assert placing(back_home, strange)(view(), Target({})).becauses[JOB].why is Why.REBALANCED
