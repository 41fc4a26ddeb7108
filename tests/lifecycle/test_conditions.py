"""Which condition of a job is true when."""

from typing import Any

import pytest

from sterna.engines.kubernetes.status.standing import Change
from sterna.lifecycle.condition_rules import Facts, conditions_now, trains
from sterna.model.conditions import OURS, Conditions, ConditionType, Status, is_true
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.workload import Contract
from tests.engines.contracts.jobs import job

HELD = (Worker(Role.WORKER, 0, NodeId("n1")), Worker(Role.WORKER, 1, NodeId("n1")))
THERE = tuple(worker._replace(node=NodeId("n2")) for worker in HELD)


def change(kind: str, after: tuple[Worker, ...] = THERE) -> Change:
    return Change(kind, "Rebalanced", "another node suits it better", HELD, after, began_s=0.0)


def facts(phase: Phase, **values: Any) -> Facts:
    nothing: dict[str, Any] = {"reason": "", "message": "", "held": (), "change": None, "latest": ""}
    nothing |= {"trains": False, "all_ready": False}
    return Facts(kind="TFJob", job_id=JobId("default/a"), generation=1, phase=phase, **{**nothing, **values})


RUNS = facts(Phase.RUNNING, held=HELD, trains=True, all_ready=True)


def true_in(conditions: Conditions) -> set[str]:
    return {condition.type.value for condition in conditions if condition.status is Status.TRUE}


@pytest.mark.parametrize(
    ("now", "true"),
    [
        pytest.param(facts(Phase.WAITING), {"Created"}, id="a job that waits is only created"),
        pytest.param(facts(Phase.RUNNING, held=HELD), {"Created", "Admitted"}, id="one that has places is admitted"),
        pytest.param(
            facts(Phase.RUNNING, held=HELD, trains=True),
            {"Created", "Admitted", "Running"},
            id="it runs when its first worker does",
        ),
        pytest.param(RUNS, {"Created", "Admitted", "Running", "GangReady"}, id="and is ready when all are"),
        pytest.param(
            facts(Phase.RESIZING, held=THERE, trains=True, change=change("migration")),
            {"Created", "Admitted", "Running", "Migrating"},
            id="a job that moves and trains on runs as well",
        ),
        pytest.param(
            facts(Phase.RESIZING, held=HELD[:1], trains=True, all_ready=True, change=change("resize", HELD[:1])),
            {"Created", "Admitted", "Running", "GangReady", "Resizing"},
            id="a job that is resized",
        ),
        pytest.param(
            facts(Phase.RESIZING, held=HELD, trains=True, change=change("restart")),
            {"Created", "Admitted", "Restarting"},
            id="a job that restarts does not run, whatever others of it do",
        ),
        pytest.param(
            facts(Phase.WAITING, reason="NoRoom", latest="preemption"),
            {"Created", "Preempted"},
            id="a job that had to let go of everything is preempted until it is placed again",
        ),
        pytest.param(facts(Phase.SUSPENDED), {"Created", "Suspended"}, id="a suspended job is not preempted"),
        pytest.param(facts(Phase.SUCCEEDED, message="done"), {"Created", "Succeeded"}, id="a job that succeeded"),
        pytest.param(facts(Phase.FAILED, message="exit code 1"), {"Created", "Failed"}, id="a job that failed"),
    ],
)
def test_what_is_true_of_a_job(now, true):
    """Also after it ran: nothing that was true before stays so by itself."""
    assert true_in(conditions_now((), now, 1.0)) == true
    before = conditions_now((), RUNS, 1.0)
    after = true_in(conditions_now(before, now, 2.0))
    kept = {"Running"} if now.phase in (Phase.RUNNING, Phase.RESIZING) and "Restarting" not in true else set()
    assert after == true | kept


def test_ours_are_always_there_until_the_job_ends():
    for now in (facts(Phase.WAITING), RUNS, facts(Phase.FAILED)):
        assert {condition.type for condition in conditions_now((), now, 1.0)} >= set(OURS)


def test_what_is_known_already_moves_nothing_and_touches_no_time():
    before = conditions_now((), RUNS, 1.0)
    assert conditions_now(before, RUNS, 99.0) == before


def test_reasons_that_users_know_begin_with_the_kind():
    known = {c.type: c.reason for c in conditions_now((), RUNS, 1.0) if c.type not in OURS}
    assert known == {ConditionType.CREATED: "TFJobCreated", ConditionType.RUNNING: "TFJobRunning"}


def test_a_job_that_is_resumed_says_so_once():
    suspended = conditions_now((), facts(Phase.SUSPENDED), 1.0)
    resumed = conditions_now(suspended, facts(Phase.WAITING), 2.0)
    (found,) = [c for c in resumed if c.type is ConditionType.SUSPENDED]
    assert (found.status, found.reason) == (Status.FALSE, "TFJobResumed")


def test_the_first_ending_wins():
    ended = conditions_now((), facts(Phase.SUCCEEDED, message="done"), 1.0)
    assert conditions_now(ended, facts(Phase.FAILED, message="late"), 2.0) == ended
    assert is_true(ended, ConditionType.SUCCEEDED)


@pytest.mark.parametrize(
    ("fixed", "running", "runs"),
    [
        pytest.param((), [(Role.WORKER, 1)], True, id="any worker, where none leads by its role"),
        pytest.param((), [], False, id="but not none"),
        pytest.param(((Role.CHIEF, 1),), [(Role.WORKER, 0)], False, id="not without the chief"),
        pytest.param(((Role.CHIEF, 1),), [(Role.CHIEF, 0)], True, id="with the chief"),
        pytest.param(((Role.PS, 1),), [(Role.PS, 0)], False, id="a parameter server alone trains nothing"),
    ],
)
def test_when_a_job_runs(fixed, running, runs):
    held = (*HELD, *(Worker(role, 0, NodeId("n1")) for role, _ in fixed))
    assert trains(job("TFJob", Contract.PARAMETER_SERVER, *fixed), held, running) is runs
