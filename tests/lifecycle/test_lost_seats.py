"""Seats that a job loses: who trains on, and how the job stands afterwards."""

from dataclasses import replace
from typing import Any

import pytest

from sterna.engines.kubernetes.status.standing import Progress as ClusterProgress
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.engines.local.store.rows import JobRow
from sterna.engines.local.store.rows import Progress as LocalProgress
from sterna.lifecycle.counters import holding
from sterna.lifecycle.gang_roles import carriers
from sterna.lifecycle.lost_seats import Loss, after_loss, who_goes_on
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import FixedRole, JobSpec, Role, Worker
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.workload import Contract
from tests.engines.contracts.jobs import job

GPU = Resources(gpu_milli=1000)
ELASTIC = JobSpec(id=JobId("a"), submitted_s=0.0, request=GPU, workers_min=1, workers_max=8)
WITH_PS = replace(ELASTIC, fixed=(FixedRole(Role.PS, 1, Resources(cpu_milli=1000)),))
PAIRS = replace(ELASTIC, workers_min=2, workers_initial=2, workers_step=2)
GANG = replace(ELASTIC, restarts_on_resize=True)
FOUR = replace(ELASTIC, workers_min=4, workers_initial=4)


def at(node: str, *ordinals: int, role: Role = Role.WORKER) -> tuple[Worker, ...]:
    return tuple(Worker(role, ordinal, NodeId(node)) for ordinal in ordinals)


@pytest.mark.parametrize(
    ("spec", "held", "left"),
    [
        pytest.param(ELASTIC, at("n1", 0, 1), at("n1", 0, 1), id="a job that has nothing there does not notice"),
        pytest.param(ELASTIC, (*at("n1", 0), *at("n2", 1, 2)), at("n1", 0), id="those elsewhere train on"),
        pytest.param(ELASTIC, (*at("n2", 0), *at("n1", 1)), at("n1", 1), id="also without the lowest ordinal"),
        pytest.param(ELASTIC, at("n2", 0, 1), (), id="a job that was only there begins anew"),
        pytest.param(FOUR, (*at("n1", 0, 1, 2), *at("n2", 3)), (), id="below its minimum none trains on"),
        pytest.param(GANG, (*at("n1", 0, 1, 2), *at("n2", 3)), (), id="of a gang that restarts none survives a loss"),
        pytest.param(
            WITH_PS,
            (*at("n2", 0, role=Role.PS), *at("n1", 0, 1)),
            (),
            id="without a parameter server none trains on",
        ),
        pytest.param(
            WITH_PS,
            (*at("n1", 0, role=Role.PS), *at("n1", 0), *at("n2", 1)),
            (*at("n1", 0, role=Role.PS), *at("n1", 0)),
            id="without a worker the parameter server and the others go on",
        ),
        pytest.param(
            PAIRS,
            (*at("n1", 0, 1, 2), *at("n2", 3)),
            at("n1", 0, 1),
            id="what is left is cut down to a size on the job's grid, half a group trains nothing",
        ),
        pytest.param(
            PAIRS,
            (*at("n1", 0, 1, 2, 3), *at("n2", 4, 5)),
            at("n1", 0, 1, 2, 3),
            id="a size on the grid stays whole",
        ),
        pytest.param(PAIRS, (*at("n1", 0), *at("n2", 1)), (), id="half of the smallest group begins anew"),
        pytest.param(
            replace(ELASTIC, workers_max=1),
            (*at("n1", 0, 1), *at("n2", 2)),
            at("n1", 0, 1),
            id="a maximum that was lowered meanwhile is for the next decision",
        ),
    ],
)
def test_who_goes_on_when_node_n2_is_lost(spec, held, left):
    lost = [worker for worker in held if worker.node == "n2"]
    assert who_goes_on(spec, held, lost) == left


@pytest.mark.parametrize(
    ("held", "left"),
    [
        pytest.param((*at("n2", 0), *at("n1", 1, 2)), (), id="without the agent that holds the store none goes on"),
        pytest.param((*at("n1", 0, 1), *at("n2", 2)), at("n1", 0, 1), id="without another one the agents meet again"),
    ],
)
def test_agents_meet_at_the_store_of_rank_0(held, left):
    lost = [worker for worker in held if worker.node == "n2"]
    needed = carriers(job("PyTorchJob", Contract.TORCHRUN), held)
    assert who_goes_on(ELASTIC, held, lost, needed=needed) == left


def of_kubernetes(held: tuple[Worker, ...], **values: Any) -> Standing:
    seats = tuple(Seat(worker, "abcde") for worker in held)
    return Standing(seats=seats, progress=ClusterProgress(restart_s=5.0), **values)


def of_local(held: tuple[Worker, ...], **values: Any) -> JobRow:
    progress = LocalProgress(at_s=0.0, restart_s=5.0)
    return JobRow(
        uid="u", id=JobId("a"), manifest="", cwd="", submitted_s=0.0, assigned=held, progress=progress, **values
    )


@pytest.mark.parametrize("state_of", [of_kubernetes, of_local])
class TestAfterALoss:
    HELD = (*at("n1", 0), *at("n2", 1))

    def lost(self, state_of: Any, kept: tuple[Worker, ...]) -> dict[str, Any]:
        losses = [Loss(self.HELD[1], "NodeLost", "node n2 is lost")]
        state = state_of(self.HELD, phase=Phase.RUNNING, started_s=10.0, as_of_s=10.0, restarts=3, failures=1)
        return after_loss(state, ELASTIC, kept, losses, 30.0)

    def test_a_job_that_trains_on_is_not_restarted_and_its_time_in_the_seat_goes_on(self, state_of):
        values = self.lost(state_of, self.HELD[:1])
        assert {"phase", "restarts", "failures", "started_s", "seat_s"}.isdisjoint(values)
        assert (values["gpu_s"], values["ran_s"], values["resumes_s"]) == (40.0, 20.0, 35.0)
        assert (values["reason"], values["message"]) == ("NodeLost", "node n2 is lost")

    def test_a_job_that_keeps_nothing_is_restarted_without_a_failure(self, state_of):
        values = self.lost(state_of, ())
        assert (values["phase"], values["restarts"]) == (Phase.RESIZING, 4)
        assert "failures" not in values
        assert (values["waiting_since_s"], values["started_s"], values["last_ran_s"]) == (30.0, None, 20.0)

    def test_its_time_in_the_seat_goes_on_since_a_broken_node_is_no_decision_against_the_job(self, state_of):
        values = self.lost(state_of, ())
        assert values["seat_s"] == 10.0
        empty = state_of((), **{key: values[key] for key in ("phase", "seat_s", "gpu_s_since_start", "as_of_s")})
        back = holding(empty, ELASTIC, self.HELD, 33.0, restart_s=5.0, comes_back=True)
        assert (back["started_s"], back.get("gpu_s_since_start", empty.gpu_s_since_start)) == (10.0, 40.0)
