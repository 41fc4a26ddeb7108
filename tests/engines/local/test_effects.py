"""What the world lacks of what is intended."""

from dataclasses import replace
from typing import Any

import pytest

from sterna.engines.local.reconcile.effects_due import (
    POST_START,
    PRE_STOP,
    Effect,
    ForgetEnd,
    LaunchProcess,
    RaiseFence,
    ReplaceTraining,
    RunHook,
    StopProcess,
    WriteOrder,
    due,
)
from sterna.engines.local.reconcile.gang import Process
from sterna.engines.local.store.rows import ExitKind, WorkerState
from sterna.model.workload import Contract
from sterna.protocol import WorkerPhase
from tests.engines.local.gangs import gang, place, process, workload

PLANNED, LEAVING = WorkerState.PLANNED, WorkerState.LEAVING
N1, N2 = (place(0),), (place(0, "n2"),)
HOOKED = workload(pre_stop=("stop",), post_start=("begin",))
MEMBERS = workload(Contract.DISCOVERY)


@pytest.mark.parametrize(
    ("look", "fence", "effects"),
    [
        pytest.param(gang(process(0), holds=N1), 1, [], id="nothing is lacking"),
        pytest.param(
            gang(process(0, state=PLANNED), holds=N1),
            0,
            [RaiseFence(1), LaunchProcess("a-worker-0-1")],
            id="the fence goes up before anybody starts",
        ),
        pytest.param(
            gang(process(0, state=PLANNED, inc=2), process(0, state=LEAVING), holds=N1),
            1,
            [],
            id="a next gang does not start beside an old one",
        ),
        pytest.param(
            gang(process(0, "n2", state=PLANNED, inc=2, standby=True), process(0), holds=N2, warm=True),
            1,
            [LaunchProcess("a-worker-0-2")],
            id="unless it is to wait there, and then the fence stays",
        ),
        pytest.param(
            gang(
                process(0, state=PLANNED),
                process(0, "n2", uid="old", state=LEAVING, term_s=0.0),
                holds=N1,
                of=MEMBERS,
            ),
            1,
            [StopProcess("old")],
            id="a seat is free when whoever had it is gone",
        ),
        pytest.param(
            gang(process(0, inc=2, order_seq=3, order="run", order_written=2), holds=N1, incarnation=2),
            1,
            [RaiseFence(2), WriteOrder("a-worker-0-2")],
            id="nobody is told to train before the fence is up",
        ),
        pytest.param(
            gang(process(0, state=LEAVING, order_written=0)),
            1,
            [WriteOrder("a-worker-0-1")],
            id="an order not written yet",
        ),
        pytest.param(
            gang(process(0, state=LEAVING, term_s=0.0, stop_told_s=None)),
            1,
            [StopProcess("a-worker-0-1")],
            id="a deadline that the warden does not know",
        ),
        pytest.param(gang(process(0, state=LEAVING, term_s=0.0, stop_told_s=30.0)), 1, [], id="one that it knows"),
        pytest.param(
            gang(process(0, end=ExitKind.STOPPED, known=True)),
            1,
            [ForgetEnd(("a-worker-0-1",))],
            id="an end that is kept",
        ),
        pytest.param(
            gang(process(0), holds=N1, of=HOOKED), 1, [RunHook("a-worker-0-1", POST_START)], id="a hook after the start"
        ),
        pytest.param(
            gang(process(0, state=LEAVING), of=HOOKED),
            1,
            [RunHook("a-worker-0-1", PRE_STOP)],
            id="a hook before the end",
        ),
        pytest.param(gang(process(0, state=LEAVING, urgent=True), of=HOOKED), 1, [], id="there is no time for it"),
    ],
)
def test_what_is_due(look, fence, effects):
    assert due(look, fence=fence, hooks_begun=frozenset()) == effects


def test_agents_that_stay_start_their_processes_anew_once_who_left_is_gone():
    held: dict[str, Any] = {"order": "hold", "order_seq": 1, "said": WorkerPhase.COMMITTED, "ack": 1}
    torchrun = workload(Contract.TORCHRUN)
    stays, gone = process(0, **held), process(1, end=ExitKind.STOPPED, notice_s=5.0)
    leaves = process(1, state=LEAVING, notice_s=5.0, term_s=5.0, stop_told_s=35.0)

    def effects(*processes: Process) -> list[Effect]:
        look = gang(*processes, holds=N1, of=torchrun, held_s=4.0)
        return due(look, fence=1, hooks_begun=frozenset())

    assert effects(stays, leaves) == []
    assert effects(stays, gone) == [ReplaceTraining("a-worker-0-1")]
    assert effects(replace(stays, replaced_pid=1), gone) == []  # once for each process
    assert effects(stays) == []  # nobody left: those that join make the agents meet again


def test_a_hook_is_begun_once():
    begun = frozenset({("a-worker-0-1", POST_START)})
    assert due(gang(process(0), holds=N1, of=HOOKED), fence=1, hooks_begun=begun) == []
