"""What the end of a process means for its job: success rules, restart policies, back-off."""

from typing import Any

import pytest

from sterna.engines.local.reconcile.process_ends import Abandon, Restart, exit_kind, verdict
from sterna.engines.local.store.rows import ExitKind, WorkerState
from sterna.lifecycle.outcome import Finish
from sterna.lifecycle.retry import back_off_s
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.workload import Contract, RestartPolicy, RunPolicy, Success
from sterna.protocol import WorkerPhase as Said
from tests.engines.local.gangs import gang, place, process, status, workload

COMPLETED, FAILED, LOST = ExitKind.COMPLETED, ExitKind.FAILED, ExitKind.LOST
TWO = (place(0), place(1))
PS = workload(Contract.PARAMETER_SERVER, roles=(Role.PS,))
SERVER = place(0, role=Role.PS)
GOES: dict[str, Any] = {"state": WorkerState.LEAVING}
TERM: dict[str, Any] = {"term_s": 1.0}
CHIEF = workload(Contract.PARAMETER_SERVER, roles=(Role.PS, Role.CHIEF))


@pytest.mark.parametrize(
    ("look", "succeeds"),
    [
        pytest.param(gang(process(0, end=COMPLETED), process(1), holds=TWO), True, id="the first worker leads"),
        pytest.param(gang(process(0), process(1, end=COMPLETED), holds=TWO), False, id="another one does not"),
        pytest.param(
            gang(process(0, end=COMPLETED), process(1), holds=TWO, of=workload(success=Success.ALL_WORKERS)),
            False,
            id="all workers: one is not enough",
        ),
        pytest.param(
            gang(
                process(0, end=COMPLETED),
                process(1, end=COMPLETED),
                holds=TWO,
                of=workload(success=Success.ALL_WORKERS),
            ),
            True,
            id="all workers: all are",
        ),
        pytest.param(
            gang(process(0, role=Role.PS), process(0, end=COMPLETED), process(1), holds=(SERVER, *TWO), of=PS),
            True,
            id="TFJob: worker 0 decides where there is no chief",
        ),
        pytest.param(
            gang(process(0, role=Role.PS), process(1, end=COMPLETED), holds=(SERVER, place(1)), of=PS),
            True,
            id="TFJob: or all that there are",
        ),
        pytest.param(
            gang(
                process(0, role=Role.PS),
                process(0, role=Role.CHIEF),
                process(0, end=COMPLETED),
                process(1),
                holds=(SERVER, place(0, role=Role.CHIEF), *TWO),
                of=CHIEF,
            ),
            False,
            id="TFJob: with a chief the job follows the chief",
        ),
        pytest.param(
            gang(
                process(0, role=Role.PS),
                process(0, role=Role.CHIEF),
                process(0, end=COMPLETED),
                holds=(SERVER, place(0, role=Role.CHIEF), place(0)),
                of=CHIEF,
            ),
            False,
            id="TFJob: even when all workers are through",
        ),
        pytest.param(
            gang(
                process(0, role=Role.PS),
                process(0, role=Role.CHIEF, end=COMPLETED),
                process(0),
                holds=(SERVER, place(0, role=Role.CHIEF), place(0)),
                of=CHIEF,
            ),
            True,
            id="TFJob: and succeeds with it",
        ),
        pytest.param(
            gang(process(0, end=COMPLETED), process(1, end=FAILED, code=1), holds=TWO),
            True,
            id="success is looked for before failure",
        ),
        pytest.param(
            gang(process(0, end=COMPLETED), of=workload(success=Success.ALL_WORKERS)),
            True,
            id="it was through when it was told to let go of everything",
        ),
        pytest.param(
            gang(process(0, end=COMPLETED), holds=TWO, of=workload(success=Success.ALL_WORKERS)),
            True,
            id="it was through before it could grow",
        ),
        pytest.param(
            gang(
                process(0, end=COMPLETED),
                process(1, end=ExitKind.STOPPED),
                holds=(place(0),),
                of=workload(success=Success.ALL_WORKERS),
            ),
            False,
            id="one was through and another was stopped: not all",
        ),
        pytest.param(
            gang(process(0, inc=1, end=COMPLETED), process(0, inc=2), holds=(place(0),), incarnation=2),
            False,
            id="the success of an older incarnation does not count",
        ),
    ],
)
def test_whose_success_is_the_jobs(look, succeeds):
    found = verdict(look)
    assert (isinstance(found, Finish) and found.phase is Phase.SUCCEEDED) is succeeds


@pytest.mark.parametrize(
    ("policy", "end", "code", "outcome"),
    [
        (RestartPolicy.NEVER, FAILED, 1, "WorkerFailed"),
        (RestartPolicy.NEVER, FAILED, None, "WorkerFailed"),
        (RestartPolicy.ON_FAILURE, FAILED, 1, "restart"),
        (RestartPolicy.ALWAYS, FAILED, 1, "restart"),
        (RestartPolicy.EXIT_CODE, FAILED, 1, "WorkerFailed"),
        (RestartPolicy.EXIT_CODE, FAILED, 127, "WorkerFailed"),
        (RestartPolicy.EXIT_CODE, FAILED, 128, "WorkerFailed"),
        (RestartPolicy.EXIT_CODE, FAILED, 130, "restart"),
        (RestartPolicy.EXIT_CODE, FAILED, 138, "restart"),
        (RestartPolicy.EXIT_CODE, FAILED, 139, "WorkerFailed"),
        (RestartPolicy.EXIT_CODE, FAILED, 143, "restart"),
        (RestartPolicy.EXIT_CODE, FAILED, 200, "WorkerFailed"),
        (RestartPolicy.EXIT_CODE, FAILED, 137, "restart"),
        (RestartPolicy.EXIT_CODE, FAILED, None, "restart"),
        (RestartPolicy.NEVER, LOST, None, "restart"),
        (RestartPolicy.ALWAYS, ExitKind.COULD_NOT_START, None, "CannotStart"),
    ],
)
def test_what_a_failure_leads_to(policy, end, code, outcome):
    look = gang(process(0, end=end, code=code), holds=(place(0),), of=workload(restarts=policy))
    found = verdict(look)
    assert isinstance(found, Restart | Finish)
    assert ("restart" if isinstance(found, Restart) else found.reason) == outcome


def test_a_command_that_does_not_exist_is_said_to_be_missing():
    end = process(0, end=ExitKind.COULD_NOT_START, message="command not found: 'trian'")
    found = verdict(gang(end, holds=(place(0),), of=workload(restarts=RestartPolicy.ALWAYS)))
    assert isinstance(found, Finish)
    assert (found.phase, found.reason) == (Phase.FAILED, "CommandNotFound")
    assert "trian" in found.message


@pytest.mark.parametrize(
    ("contract", "role", "rank", "whole"),
    [
        (Contract.RESTART, Role.WORKER, 1, True),
        (Contract.PARAMETER_SERVER, Role.WORKER, 0, False),
        (Contract.PARAMETER_SERVER, Role.PS, 0, True),
        (Contract.TORCHRUN, Role.WORKER, 0, True),
        (Contract.TORCHRUN, Role.WORKER, 1, False),
        (Contract.DISCOVERY, Role.WORKER, 1, False),
        (Contract.DISCOVERY, Role.LAUNCHER, 0, False),
    ],
)
def test_who_takes_the_others_along(contract, role, rank, whole):
    roles = (role,) if role is not Role.WORKER else ()
    ended = process(5, role=role, rank=rank, end=FAILED, code=1)
    found = verdict(gang(ended, process(9), holds=(place(5, role=role), place(9)), of=workload(contract, roles=roles)))
    assert isinstance(found, Restart)
    assert found.whole is whole


@pytest.mark.parametrize(
    ("failures", "limit", "since_s", "outcome"),
    [
        pytest.param(0, None, None, 1.0, id="the first is tried again after a second"),
        pytest.param(3, None, 10.0, 8.0, id="each wait is twice the one before"),
        pytest.param(40, None, 10.0, 300.0, id="no wait is longer than five minutes"),
        pytest.param(2, 2, 10.0, "BackoffLimitExceeded", id="backoffLimit is the number of restarts"),
        pytest.param(1, 2, 10.0, 2.0, id="below it the job goes on"),
        pytest.param(0, 0, None, "BackoffLimitExceeded", id="a limit of 0 allows none"),
        pytest.param(9, 2, 601.0, 1.0, id="ten minutes without a failure are forgiven"),
    ],
)
def test_back_off(failures, limit, since_s, outcome):
    of = workload(policy=RunPolicy(backoff_limit=limit))
    failed_s = None if since_s is None else 1000.0 - since_s
    look = gang(
        process(0, end=FAILED, code=1), holds=(place(0),), of=of, failures=failures, failed_s=failed_s, now_s=1000.0
    )
    found = verdict(look)
    assert isinstance(found, Restart | Finish)
    if isinstance(found, Restart):
        assert found.counted is not None
        assert found.counted.after_s == outcome
    else:
        assert found.reason == outcome


def test_back_off_grows_to_its_bound():
    assert [back_off_s(count) for count in (1, 2, 3, 9, 10, 1000)] == [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]


def test_two_that_fail_at_once_are_one_failure():
    found = verdict(gang(process(0, end=FAILED, code=1), process(1, end=FAILED, code=1), holds=TWO))
    assert isinstance(found, Restart)
    assert len(found.uids) == 2


def test_a_standby_that_fails_does_not_touch_the_gang_that_trains():
    look = gang(
        process(0), process(0, "n2", inc=2, standby=True, end=FAILED, code=1), holds=(place(0, "n2"),), warm=True
    )
    assert isinstance(verdict(look), Abandon)


@pytest.mark.parametrize(
    "since",
    [
        pytest.param({"first_started_s": 1.0, "active_s": 10.0}, id="since it was resumed"),
        pytest.param({"first_started_s": 10.0}, id="in a row of an older version, since its first start"),
    ],
)
def test_a_job_that_was_active_for_too_long_fails(since):
    of = workload(policy=RunPolicy(active_deadline_s=60))
    look: dict[str, Any] = {"holds": (place(0),), "of": of, **since}
    assert verdict(gang(process(0), now_s=69.0, **look)) is None
    found = verdict(gang(process(0), now_s=70.0, **look))
    assert isinstance(found, Finish)
    assert found.reason == "DeadlineExceeded"


def test_a_suspended_job_is_not_active_however_long_ago_it_started():
    of = workload(policy=RunPolicy(active_deadline_s=60))
    assert verdict(gang(of=of, suspended=True, first_started_s=10.0, now_s=1000.0)) is None


@pytest.mark.parametrize(
    ("code", "row", "stopped", "said", "kind"),
    [
        pytest.param(0, {}, False, None, ExitKind.COMPLETED, id="it ended by itself"),
        pytest.param(1, {}, False, None, ExitKind.FAILED, id="it failed by itself"),
        pytest.param(None, {}, False, Said.TRAINING, ExitKind.FAILED, id="somebody killed it"),
        pytest.param(1, GOES, False, None, ExitKind.STOPPED, id="who is told to go cannot fail"),
        pytest.param(0, GOES | TERM, True, None, ExitKind.STOPPED, id="it took SIGTERM for the end"),
        pytest.param(0, GOES, False, Said.COMMITTED, ExitKind.STOPPED, id="it obeyed and left"),
        pytest.param(0, GOES, False, Said.FINISHED, ExitKind.COMPLETED, id="it was through before it obeyed"),
        pytest.param(0, GOES, False, None, ExitKind.COMPLETED, id="it was through before SIGTERM was meant"),
        pytest.param(0, GOES | TERM, False, None, ExitKind.COMPLETED, id="it was through before SIGTERM came"),
    ],
)
def test_how_a_process_ended(code, row, stopped, said, kind):
    found = process(0, **row).row
    ack = found.order_seq if said is Said.COMMITTED else 0
    last = None if said is None else status(said, ack=ack)
    assert exit_kind(found, code=code, stopped=stopped, status=last) is kind
