"""What should change about one job's processes: a table for each contract, a row for each situation."""

from typing import Any

import pytest

from sterna.engines.local.reconcile.gang import Gang
from sterna.engines.local.reconcile.process_ends import Abandon
from sterna.engines.local.reconcile.row_moves import (
    Ended,
    Hold,
    Notice,
    Plan,
    Promote,
    Release,
    Started,
    Terminate,
    next_moment,
    next_moves,
)
from sterna.engines.local.store.rows import ExitKind, WorkerState
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.workload import Contract, RunPolicy
from sterna.protocol import WorkerPhase as Said
from tests.engines.local.gangs import gang, place, process, workload

LEAVING, PLANNED, RUNNING = WorkerState.LEAVING, WorkerState.PLANNED, WorkerState.RUNNING
N1, N2 = (place(0, "n1"),), (place(0, "n2"),)


def shown(look: Gang) -> list[str]:
    """Moves as short words."""
    words = []
    for move in next_moves(look):
        match move:
            case Plan(places, incarnation, standby):
                where = " ".join(f"{worker.role[0]}{worker.ordinal}@{worker.node}" for worker in places)
                words.append(f"plan {where} as {incarnation}{' standby' if standby else ''}")
            case Notice(uid, _, urgent, _):
                words.append(f"{'urgent ' if urgent else ''}notice {uid}")
            case Terminate(uid):
                words.append(f"terminate {uid}")
            case Promote(incarnation):
                words.append(f"promote {incarnation}")
            case Started(uid):
                words.append(f"started {uid}")
            case Ended(uid):
                words.append(f"ended {uid}")
            case Hold() | Release():
                words.append(type(move).__name__.lower())
            case Abandon():
                words.append("abandon")
            case other:
                words.append(type(other).__name__.lower())
    return words


@pytest.mark.parametrize(
    ("look", "moves"),
    [
        pytest.param(gang(holds=N1, incarnation=0), ["plan w0@n1 as 1"], id="a job that got a place is planned there"),
        pytest.param(
            gang(process(0, state=PLANNED), holds=N1, incarnation=0), ["promote 1"], id="a first gang trains at once"
        ),
        pytest.param(gang(process(0), holds=N1), [], id="a gang in its place is left alone"),
        pytest.param(
            gang(process(0, state=PLANNED, runs=True), holds=N1), ["started a-worker-0-1"], id="the warden says it runs"
        ),
        pytest.param(gang(process(0, ended=True), holds=N1), ["ended a-worker-0-1"], id="the warden says it ended"),
        pytest.param(gang(process(0)), ["notice a-worker-0-1"], id="a job that lost its place is told to go"),
        pytest.param(
            gang(process(0), holds=N2),
            ["notice a-worker-0-1", "plan w0@n2 as 2"],
            id="cold: the old gang goes, the new one is planned",
        ),
        pytest.param(
            gang(process(0, state=LEAVING, said=Said.TRAINING), process(0, "n2", inc=2, state=PLANNED), holds=N2),
            [],
            id="cold: the new gang waits for the old one",
        ),
        pytest.param(
            gang(process(0, end=ExitKind.STOPPED), process(0, "n2", inc=2, state=PLANNED), holds=N2),
            ["promote 2"],
            id="cold: the old gang is gone, the new one trains",
        ),
        pytest.param(
            gang(process(0, said=Said.TRAINING), holds=N2, warm=True),
            ["plan w0@n2 as 2 standby"],
            id="warm: the new gang is planned beside the old one",
        ),
        pytest.param(
            gang(
                process(0, said=Said.TRAINING),
                process(0, "n2", inc=2, standby=True, said=Said.ATTACHED),
                holds=N2,
                warm=True,
            ),
            [],
            id="warm: the old gang trains on while the new one imports",
        ),
        pytest.param(
            gang(
                process(0, said=Said.TRAINING),
                process(0, "n2", inc=2, standby=True, said=Said.READY),
                holds=N2,
                warm=True,
            ),
            ["notice a-worker-0-1"],
            id="warm: the new gang is ready, the old one is told to stop",
        ),
        pytest.param(
            gang(
                process(0, said=Said.TRAINING),
                process(0, "n2", inc=2, standby=True, said=Said.ATTACHED),
                holds=N2,
                warm=True,
                now_s=60.0,
            ),
            ["notice a-worker-0-1"],
            id="warm: the old one does not wait for ever",
        ),
        pytest.param(
            gang(
                process(0, state=LEAVING, said=Said.TRAINING),
                process(0, "n2", inc=2, standby=True, said=Said.READY),
                holds=N2,
                warm=True,
            ),
            [],
            id="warm: nobody trains before the old state is safe",
        ),
        pytest.param(
            gang(
                process(0, state=LEAVING, said=Said.COMMITTED, ack=1, committed_s=0.5),
                process(0, "n2", inc=2, standby=True, said=Said.READY),
                holds=N2,
                warm=True,
                now_s=0.6,
            ),
            ["promote 2"],
            id="warm: the old state is safe, the new gang trains although the old process is still there",
        ),
        pytest.param(
            gang(
                process(0, state=LEAVING, said=Said.COMMITTED, committed_s=0.5),
                process(1, state=LEAVING, said=Said.TRAINING),
                process(0, "n2", inc=2, standby=True, said=Said.READY),
                holds=N2,
                warm=True,
                now_s=0.6,
            ),
            [],
            id="warm: every old rank must be safe",
        ),
        pytest.param(
            gang(
                process(0, said=Said.TRAINING),
                process(0, "n2", inc=2, standby=True, said=Said.ATTACHED),
                holds=N1,
                warm=True,
            ),
            ["urgent notice a-worker-0-2"],
            id="warm: the change is taken back before it began",
        ),
        pytest.param(
            gang(
                process(0, said=Said.TRAINING),
                process(0, "n2", inc=2, standby=True, end=ExitKind.FAILED, code=1),
                holds=N2,
                warm=True,
            ),
            ["abandon"],
            id="warm: a gang that does not come up is given up",
        ),
        pytest.param(
            gang(
                process(0, said=Said.TRAINING),
                process(0, "n2", inc=2, standby=True, end=ExitKind.FAILED, code=1, answered=True),
                holds=N2,
            ),
            ["notice a-worker-0-1", "plan w0@n2 as 3"],
            id="... and tried again after the old one has stopped",
        ),
        pytest.param(
            gang(process(0), process(1), holds=N1),
            ["notice a-worker-0-1", "notice a-worker-1-1", "plan w0@n1 as 2"],
            id="nobody of a gang survives a shrink",
        ),
        pytest.param(
            gang(process(0, said=Said.TRAINING), process(0, "n2", inc=2, standby=True), warm=True),
            ["urgent notice a-worker-0-2", "notice a-worker-0-1"],
            id="preempted while it was being moved: both go",
        ),
        pytest.param(gang(process(0), holds=N1, suspended=True), ["notice a-worker-0-1"], id="suspended: all go"),
        pytest.param(gang(process(0), holds=N1, closing=True), ["notice a-worker-0-1"], id="closing: all go"),
        pytest.param(
            gang(process(0, end=ExitKind.FAILED, answered=True), holds=N1, retry_s=5.0, now_s=4.0),
            [],
            id="a failed gang waits for its back-off",
        ),
        pytest.param(
            gang(process(0, end=ExitKind.FAILED, answered=True), holds=N1, retry_s=5.0, now_s=5.0),
            ["plan w0@n1 as 2"],
            id="... and begins anew after it",
        ),
        pytest.param(
            gang(process(0), process(1, end=ExitKind.COMPLETED, code=0), holds=(place(0), place(1))),
            [],
            id="a rank that is through is not started again",
        ),
    ],
)
def test_a_gang_that_nobody_survives_a_change_of(look, moves):
    assert shown(look) == moves


PS = workload(Contract.PARAMETER_SERVER, roles=(Role.PS,))
TORCHRUN = workload(Contract.TORCHRUN)
SERVER = place(0, "n1", Role.PS)


@pytest.mark.parametrize(
    ("look", "moves"),
    [
        pytest.param(
            gang(of=PS, holds=(SERVER, place(0)), incarnation=0),
            ["plan p0@n1 w0@n1 as 1"],
            id="a job starts as a whole",
        ),
        pytest.param(
            gang(process(0, role=Role.PS), process(0), of=PS, holds=(SERVER, place(0), place(1))),
            ["plan w1@n1 as 1"],
            id="test_dragon: growth starts newcomers and touches nobody else",
        ),
        pytest.param(
            gang(process(0, role=Role.PS), process(0), process(1), of=PS, holds=(SERVER, place(0))),
            ["notice a-worker-1-1"],
            id="test_dragon: a shrink touches those that go and nobody else",
        ),
        pytest.param(
            gang(process(0, role=Role.PS), process(0), process(1), of=PS, holds=(SERVER, place(0), place(1, "n2"))),
            ["notice a-worker-1-1"],
            id="a worker that moves goes first",
        ),
        pytest.param(
            gang(
                process(0, role=Role.PS),
                process(0),
                process(1, state=LEAVING, term_s=0.0),
                of=PS,
                holds=(SERVER, place(0), place(1, "n2")),
            ),
            ["plan w1@n2 as 1"],
            id="... and is planned anew",
        ),
        pytest.param(
            gang(process(0, role=Role.PS), process(0), of=PS, holds=(place(0, "n2", Role.PS), place(0))),
            ["notice a-ps-0-1", "notice a-worker-0-1"],
            id="where the parameter server moves, all begin anew",
        ),
        pytest.param(
            gang(
                process(0, role=Role.PS, end=ExitKind.STOPPED),
                process(0, end=ExitKind.STOPPED),
                of=PS,
                holds=(place(0, "n2", Role.PS), place(0)),
            ),
            ["plan p0@n2 w0@n1 as 2"],
            id="... as another incarnation",
        ),
        pytest.param(
            gang(process(0, rank=0), process(1), of=TORCHRUN, holds=(place(1),)),
            ["notice a-worker-0-1", "notice a-worker-1-1"],
            id="where the agent goes that all meet at, all begin anew",
        ),
        pytest.param(
            gang(process(0, rank=0), process(1), of=TORCHRUN, holds=(place(0),)),
            ["notice a-worker-1-1"],
            id="any other agent goes alone",
        ),
    ],
)
def test_members_that_come_and_go(look, moves):
    assert shown(look) == moves


HELD: dict[str, Any] = {"order": "hold", "order_seq": 1}
TWO, THREE = (place(0), place(1)), (place(0), place(1), place(2))


@pytest.mark.parametrize(
    ("look", "moves"),
    [
        pytest.param(
            gang(
                process(0, said=Said.TRAINING),
                process(1, said=Said.TRAINING),
                of=TORCHRUN,
                holds=(place(0),),
            ),
            ["hold"],
            id="before one leaves, all save and stand still",
        ),
        pytest.param(
            gang(process(0, said=Said.TRAINING), of=TORCHRUN, holds=TWO),
            ["hold"],
            id="before one joins, likewise",
        ),
        pytest.param(
            gang(
                process(0, said=Said.COMMITTED, ack=1, **HELD),
                process(1, said=Said.TRAINING, **HELD),
                of=TORCHRUN,
                holds=(place(0),),
                held_s=0.0,
            ),
            [],
            id="nobody leaves before all stand",
        ),
        pytest.param(
            gang(
                process(0, said=Said.TRAINING, **HELD),
                process(1, said=Said.TRAINING, **HELD),
                of=TORCHRUN,
                holds=(place(0),),
                held_s=0.0,
                now_s=30.0,
            ),
            ["urgent notice a-worker-1-1"],
            id="... or their grace is over",
        ),
        pytest.param(
            gang(
                process(0, said=Said.COMMITTED, ack=1, **HELD),
                process(1, said=Said.COMMITTED, ack=1, **HELD),
                of=TORCHRUN,
                holds=(place(0),),
                held_s=0.0,
            ),
            ["urgent notice a-worker-1-1"],
            id="all stand: who is to leave leaves",
        ),
        pytest.param(
            gang(
                process(0, said=Said.COMMITTED, ack=1, **HELD),
                process(1, state=LEAVING, notice_s=0.0, term_s=0.0),
                of=TORCHRUN,
                holds=(place(0),),
                held_s=0.0,
            ),
            [],
            id="the others wait for it to be gone",
        ),
        pytest.param(
            gang(
                process(0, said=Said.READY, **HELD),
                process(1, end=ExitKind.STOPPED),
                of=TORCHRUN,
                holds=(place(0),),
                held_s=0.0,
            ),
            ["release"],
            id="they have met again without it: train on",
        ),
        pytest.param(
            gang(process(0, said=Said.COMMITTED, ack=1, **HELD), of=TORCHRUN, holds=TWO, held_s=0.0),
            ["plan w1@n1 as 1"],
            id="all stand: who is to join may come",
        ),
        pytest.param(
            gang(
                process(0, said=Said.COMMITTED, ack=1, **HELD),
                process(1, said=None, **HELD),
                of=TORCHRUN,
                holds=TWO,
                held_s=0.0,
            ),
            [],
            id="nobody trains before all have met",
        ),
        pytest.param(
            gang(
                process(0, said=Said.READY, **HELD),
                process(1, said=Said.READY, **HELD),
                of=TORCHRUN,
                holds=TWO,
                held_s=0.0,
            ),
            ["release"],
            id="all have met: train on",
        ),
        pytest.param(
            gang(
                process(0, said=Said.READY, **HELD),
                process(1, said=None, **HELD),
                of=TORCHRUN,
                holds=TWO,
                held_s=0.0,
                now_s=90.0,
            ),
            ["release"],
            id="one that never attaches holds nobody up for ever",
        ),
        pytest.param(
            gang(process(0), process(1), of=TORCHRUN, holds=(place(0),)),
            ["notice a-worker-1-1"],
            id="programs without the SDK come and go as they are",
        ),
        pytest.param(
            gang(process(0, said=Said.COMMITTED, ack=1, **HELD), of=TORCHRUN, held_s=0.0),
            ["notice a-worker-0-1"],
            id="preempted while it stood still: all go",
        ),
    ],
)
def test_agents_that_meet_again(look, moves):
    assert shown(look) == moves


@pytest.mark.parametrize(
    ("leaver", "now_s", "moves"),
    [
        pytest.param({"said": None}, 0.0, ["terminate"], id="a program that never attached gets SIGTERM at once"),
        pytest.param({"said": Said.TRAINING}, 20.0, [], id="an attached one may take its time to save"),
        pytest.param({"said": Said.TRAINING}, 24.0, ["terminate"], id="... but not all of its grace"),
        pytest.param({"said": Said.COMMITTED, "committed_s": 2.0}, 2.5, [], id="one that saved may end by itself"),
        pytest.param({"said": Said.COMMITTED, "committed_s": 2.0}, 3.0, ["terminate"], id="... for a moment"),
        pytest.param({"said": None, "hook_done": False}, 5.0, [], id="a preStop hook comes before SIGTERM"),
        pytest.param({"said": None, "hook_done": False}, 24.0, ["terminate"], id="... within the grace period"),
        pytest.param({"said": Said.TRAINING, "urgent": True}, 0.0, ["terminate"], id="nothing to wait for"),
        pytest.param({"said": None, "term_s": 0.0}, 9.0, [], id="once is enough"),
        pytest.param({"said": None, "known": False, "runs": False}, 0.0, ["ended"], id="it never began"),
    ],
)
def test_those_that_are_told_to_go(leaver, now_s, moves):
    look = gang(process(0, state=LEAVING, **leaver), now_s=now_s)
    assert [move.split()[0] for move in shown(look)] == moves


@pytest.mark.parametrize(
    ("other", "now_s", "moves"),
    [
        pytest.param({"said": Said.TRAINING}, 0.0, [], id="a rank that trains needs it to agree on a step to save"),
        pytest.param({"said": Said.RESTORING}, 0.0, [], id="a rank that restores may be training by now"),
        pytest.param({"said": Said.TRAINING}, 24.0, ["terminate", "terminate"], id="... within the grace period"),
        pytest.param({"said": Said.COMMITTED, "committed_s": 2.0}, 2.5, ["terminate"], id="which it has done now"),
        pytest.param({"said": None}, 0.0, ["terminate", "terminate"], id="none has attached: nothing was trained"),
        pytest.param({"said": Said.TRAINING, "inc": 2}, 0.0, ["terminate"], id="another gang does not need it"),
    ],
)
def test_a_rank_that_has_not_attached_goes_once_no_other_waits_for_it(other, now_s, moves):
    look = gang(process(0, state=LEAVING, **other), process(1, state=LEAVING, said=None), now_s=now_s)
    assert [move.split()[0] for move in shown(look)] == moves


def test_members_that_train_each_for_itself_do_not_wait_for_one_that_has_not_attached():
    look = gang(process(0, state=LEAVING, said=Said.TRAINING), process(1, state=LEAVING, said=None), of=PS, now_s=0.0)
    assert shown(look) == ["terminate a-worker-1-1"]


def test_after_a_success_the_others_may_end_by_themselves_but_parameter_servers_never_would():
    server, worker = process(0, role=Role.PS), process(1)
    over: dict[str, Any] = {"phase": Phase.SUCCEEDED, "finished_s": 10.0}
    assert shown(gang(server, worker, of=PS, now_s=11.0, **over)) == ["urgent notice a-ps-0-1"]
    assert shown(gang(server, worker, of=PS, now_s=12.0, **over)) == [
        "urgent notice a-ps-0-1",
        "urgent notice a-worker-1-1",
    ]


@pytest.mark.parametrize(
    ("look", "moment"),
    [
        pytest.param(gang(process(0), holds=N1), None, id="nothing is waited for"),
        pytest.param(gang(holds=N1, retry_s=7.0), 7.0, id="a back-off"),
        pytest.param(gang(process(0, state=LEAVING, said=Said.TRAINING)), 24.0, id="a checkpoint that may not come"),
        pytest.param(
            gang(process(0), process(0, "n2", inc=2, standby=True), holds=N2, warm=True),
            60.0,
            id="a gang that warms up",
        ),
        pytest.param(
            gang(process(0), holds=N1, of=workload(policy=RunPolicy(active_deadline_s=100)), first_started_s=5.0),
            105.0,
            id="the job's deadline",
        ),
    ],
)
def test_when_to_look_again_although_nothing_happens(look, moment):
    assert next_moment(look) == moment
