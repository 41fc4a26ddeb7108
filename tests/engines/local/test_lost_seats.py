"""A node is lost with all that was on it: what the jobs there keep, and what is written down about them."""

from pathlib import Path

import pytest

from sterna.engines.local.process.clock import Anchor, Timeline
from sterna.engines.local.reconcile.lost_seats import leave_all_but, lose_node
from sterna.engines.local.store.database import Store
from sterna.engines.local.store.job_book import Book, LocalJob, LocalProcess
from sterna.engines.local.store.rows import JobRow
from sterna.engines.local.world.job_value import spec_of
from sterna.lifecycle.changes import ChangeKind
from sterna.lifecycle.gang_roles import size_of
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.workload import Contract, Workload
from tests.engines.local.gangs import place, process, workload

N1, N2 = NodeId("n1"), NodeId("n2")
PS = workload(Contract.PARAMETER_SERVER, roles=(Role.PS,))
SERVER = place(0, role=Role.PS)
GANG = workload(Contract.RESTART)
AGENTS = workload(Contract.TORCHRUN)


class Clock:
    def mono(self) -> float:
        return 100.0

    def wall(self) -> float:
        return 100.0


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(Store(tmp_path / "sterna.db"), Timeline(Clock(), Anchor("", 100.0, 100.0)))


def runs(book: Book, of: Workload, *held: Worker) -> LocalJob:
    row = JobRow(
        uid="u",
        id=JobId("default/a"),
        manifest="",
        cwd="",
        submitted_s=0.0,
        phase=Phase.RUNNING,
        assigned=held,
        incarnation=1,
        started_s=40.0,
        as_of_s=40.0,
    )
    job = LocalJob(row, of, spec_of(of, row))
    for rank, worker in enumerate(held):
        seen = process(worker.ordinal, worker.node, role=worker.role, rank=rank)
        job.processes[seen.uid] = LocalProcess(seen.row)
    book.add(job)
    return job


@pytest.mark.parametrize(
    ("of", "held", "left"),
    [
        pytest.param(PS, (SERVER, place(0), place(1, "n2")), (SERVER, place(0)), id="others train on"),
        pytest.param(PS, (place(0, "n2", Role.PS), place(0)), (), id="none does without the parameter server"),
        pytest.param(GANG, (place(0), place(1, "n2")), (), id="nor does a gang without a member"),
        pytest.param(AGENTS, (place(0), place(1, "n2")), (place(0),), id="agents meet again"),
        pytest.param(AGENTS, (place(0, "n2"), place(1)), (), id="but not without the one that holds the store"),
    ],
)
def test_r5_what_a_job_keeps_when_a_node_is_lost(book, of, held, left):
    job = runs(book, of, *held)
    assert lose_node(book, job, N2)
    row = job.row
    assert (row.assigned, row.reason, row.message) == (left, "NodeLost", "node n2 is lost")
    assert row.phase is (Phase.RUNNING if left else Phase.RESIZING)
    assert row.restarts == (0 if left else 1)
    assert row.failures == 0
    assert row.seat_s == (None if left else 40.0)  # it comes back: its time in the seat goes on
    assert [change.kind for change in book.changes.values()] == ([] if left else [ChangeKind.RESTART])
    (told,) = book.unwritten_events(row.id, after=0)
    assert (told.reason, told.message) == (
        "WorkersLost",
        f"node n2 is lost; {size_of(left)} of {size_of(held)} workers are left",
    )


def test_all_processes_there_are_killed_and_the_rest_of_a_gang_with_them_since_it_cannot_commit(book):
    job = runs(book, GANG, place(0), place(1, "n2"))
    lose_node(book, job, N2)
    assert all(found.row.urgent and found.row.kill_s == 100.0 for found in job.processes.values())


def test_those_that_train_on_are_not_told_to_go(book):
    job = runs(book, PS, SERVER, place(0), place(1, "n2"))
    lose_node(book, job, N2)
    assert {found.row.node for found in job.processes.values() if found.row.notice_s is not None} == {N2}


def test_a_job_that_has_nothing_there_does_not_notice(book):
    job = runs(book, PS, SERVER, place(0))
    before = job.row
    assert not lose_node(book, job, N2)
    leave_all_but(book, job, {N1})
    assert job.row is before


def test_a_node_that_is_not_offered_any_more_is_left_and_what_runs_there_may_save(book):
    job = runs(book, GANG, place(0), place(1, "n2"))
    leave_all_but(book, job, {N1})
    assert (job.row.assigned, job.row.message) == ((), "node n2 is not there any more")
    assert all(found.row.notice_s is None for found in job.processes.values())
