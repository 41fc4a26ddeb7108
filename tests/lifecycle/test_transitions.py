"""Turns in a job's life: decided, ended, tried again, suspended, resumed."""

from typing import Any

import pytest

from sterna.engines.kubernetes.status.standing import Change, Seat, Standing
from sterna.engines.local.store.rows import JobRow
from sterna.lifecycle.changes import ChangeKind
from sterna.lifecycle.outcome import Finish, TryAgain
from sterna.lifecycle.transitions import decided, finished, given_up, phase_decided, resumed, suspended, tried_again
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.why import Because, Why

SPEC = JobSpec(id=JobId("a"), submitted_s=0.0, request=Resources(gpu_milli=1000), workers_max=4)
HELD = (Worker(Role.WORKER, 0, NodeId("n1")),)
THERE = (Worker(Role.WORKER, 0, NodeId("n2")),)


@pytest.mark.parametrize(
    ("phase", "before", "now", "next_", "then"),
    [
        pytest.param(Phase.WAITING, (), HELD, HELD, Phase.RUNNING, id="a job that waits starts"),
        pytest.param(Phase.WAITING, (), (), THERE, Phase.WAITING, id="it waits on while its room is being made"),
        pytest.param(Phase.WAITING, (), (), (), Phase.WAITING, id="nothing for a job that waits is no preemption"),
        pytest.param(Phase.RUNNING, HELD, (), THERE, Phase.RESIZING, id="it lets go in order to be elsewhere"),
        pytest.param(Phase.RESIZING, (), THERE, THERE, Phase.RESIZING, id="it arrives, and trains before it runs"),
        pytest.param(Phase.RUNNING, HELD, (), (), Phase.WAITING, id="it is preempted"),
        pytest.param(Phase.RESIZING, (), (), (), Phase.WAITING, id="it is preempted on its way"),
    ],
)
def test_the_phase_after_a_decision(phase, before, now, next_, then):
    assert phase_decided(phase, before=before, now=now, next_=next_) is then


@pytest.mark.parametrize(
    ("next_", "phase", "seat_s"),
    [
        pytest.param(THERE, Phase.RESIZING, 10.0, id="it comes back, so its time in the seat goes on"),
        pytest.param((), Phase.WAITING, None, id="it does not, so it is over"),
    ],
)
def test_a_decision_that_takes_everything(next_, phase, seat_s):
    state = of_kubernetes(phase=Phase.RUNNING, started_s=10.0, as_of_s=10.0)
    values = decided(state, SPEC, (), next_, Because(Why.GAVE_WAY), 30.0)
    assert (values["phase"], values["seat_s"], values["reason"]) == (phase, seat_s, "GaveWay")
    assert (values["gpu_s"], values["waiting_since_s"]) == (20.0, 30.0)


@pytest.mark.parametrize(
    ("kind", "after", "because", "reason"),
    [
        pytest.param(ChangeKind.RESIZE, THERE, Why.SPARE_ROOM, "ScaledByOwner", id="it comes back as it was to be"),
        pytest.param(ChangeKind.RESIZE, (), Why.SPARE_ROOM, "SpareRoom", id="it comes back in another size"),
        pytest.param(ChangeKind.RESIZE, THERE, Why.NODE_LOST, "NodeLost", id="the decision knows a cause"),
        pytest.param(ChangeKind.RESTART, THERE, Why.SPARE_ROOM, "SpareRoom", id="what it let go for was no decision"),
    ],
)
def test_11_a_job_that_let_go_of_all_to_come_back_is_told_why_it_did(kind, after, because, reason):
    state = Standing(phase=Phase.RESIZING, reason="ScaledByOwner", as_of_s=10.0)
    change = Change(kind, "ScaledByOwner", "its owner lowered its largest size", HELD, after, 10.0)
    values = decided(state, SPEC, THERE, THERE, Because(because), 30.0, change=change)
    assert values["reason"] == reason
    assert (values["message"] == change.message) is (reason == "ScaledByOwner")


def of_kubernetes(**values: Any) -> Standing:
    return Standing(seats=tuple(Seat(worker, "abcde") for worker in HELD), **values)


def of_local(**values: Any) -> JobRow:
    return JobRow(uid="u", id=JobId("a"), manifest="", cwd="", submitted_s=0.0, assigned=HELD, **values)


@pytest.mark.parametrize("state_of", [of_kubernetes, of_local])
class TestTurns:
    def test_a_job_that_has_ended_holds_nothing_and_waits_for_nothing(self, state_of):
        state = state_of(as_of_s=10.0, ran_s=5.0, started_s=10.0, retry_s=99.0)
        values = finished(state, SPEC, Finish(Phase.FAILED, "WorkerFailed", "exit code 1"), 30.0)
        assert (values["phase"], values["reason"], values["message"]) == (Phase.FAILED, "WorkerFailed", "exit code 1")
        assert (values["ran_s"], values["gpu_s"], values["finished_s"]) == (25.0, 20.0, 30.0)
        assert all(values[key] is None for key in ("waiting_since_s", "started_s", "seat_s", "retry_s"))

    def test_a_failure_is_counted_and_waits_and_a_loss_is_not_and_does_not(self, state_of):
        state = state_of(phase=Phase.RUNNING, restarts=2, failures=1)
        counted = {"restarts": 3, "failures": 2, "failed_s": 30.0, "retry_s": 32.0}
        assert tried_again(state, TryAgain(2, 2.0), 30.0, whole=False) == counted
        assert tried_again(state, None, 30.0, whole=False) == {"restarts": 3}

    def test_a_gang_that_begins_anew_does_not_run_until_it_trains_again(self, state_of):
        assert tried_again(state_of(phase=Phase.RUNNING), None, 30.0, whole=True)["phase"] is Phase.RESIZING
        assert "phase" not in tried_again(state_of(phase=Phase.RESIZING), None, 30.0, whole=True)

    def test_a_suspended_job_asks_for_nothing_and_its_deadline_begins_anew(self, state_of):
        state = state_of(phase=Phase.RUNNING, as_of_s=10.0, started_s=10.0, active_s=10.0, retry_s=99.0)
        values = suspended(state, SPEC, 30.0)
        assert (values["phase"], values["reason"]) == (Phase.SUSPENDED, "Suspended")
        assert all(values[key] is None for key in ("waiting_since_s", "started_s", "seat_s", "active_s", "retry_s"))

    def test_a_job_that_is_resumed_waits_from_now_on(self, state_of):
        values = resumed(state_of(phase=Phase.SUSPENDED), 30.0)
        assert (values["phase"], values["waiting_since_s"], values["as_of_s"]) == (Phase.WAITING, 30.0, 30.0)

    def test_a_job_that_was_to_come_back_and_does_not_waits_and_its_time_in_the_seat_is_over(self, state_of):
        values = given_up(state_of(phase=Phase.RESIZING, seat_s=10.0), Because(Why.NO_ROOM))
        assert (values["phase"], values["seat_s"], values["reason"]) == (Phase.WAITING, None, "NoRoom")
