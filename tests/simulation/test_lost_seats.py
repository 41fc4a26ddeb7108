"""When the time in the seat of a simulated job goes on, and when it ends: as in every engine."""

import pytest
from tests.worlds import job, node

from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.curves import SpeedupCurve
from sterna.model.happenings import NodeChange, NodeEvent
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.placement.strategies import placement
from sterna.policies.registry import policy

LOST_S, BACK_S = 100.0, 300.0


def gang_after(nodes: int, *, at_s: float) -> Job:
    """A gang of two that loses a node of one GPU, which comes back later; as the snapshot of this moment shows it."""
    chosen = policy("fifo")
    seen: list[Snapshot] = []
    spec = job("a", at_least=2, at_most=2).spec
    simulate(
        Simulation(
            nodes=[node(f"n{number}", gpus=1) for number in range(nodes)],
            jobs=[SimulatedJob(spec, PacedTraining(10_000.0, SpeedupCurve.linear(2)))],
            size=chosen,
            place=placement(chosen.placement),
            node_events=[
                NodeEvent(LOST_S, NodeChange.LOST, NodeId("n0")),
                NodeEvent(BACK_S, NodeChange.RETURNED, NodeId("n0")),
            ],
        ),
        observer=seen.append,
    )
    return next(view for view in seen if view.now_s == at_s).by_id[JobId("a")]


def test_a_node_loss_that_empties_a_job_does_not_end_its_time_in_the_seat_since_a_broken_node_is_no_decision():
    back = gang_after(3, at_s=LOST_S)
    assert (back.size, back.started_s, back.first_started_s) == (2, 0.0, 0.0)
    assert back.gpu_s_since_start == pytest.approx(2 * LOST_S)


def test_a_job_for_which_the_next_decision_has_no_place_begins_anew():
    waits = gang_after(2, at_s=LOST_S)
    assert (waits.size, waits.started_s, waits.waiting_since_s, waits.last_ran_s) == (0, None, LOST_S, LOST_S)
    anew = gang_after(2, at_s=BACK_S)
    assert (anew.size, anew.started_s, anew.first_started_s, anew.gpu_s_since_start) == (2, BACK_S, 0.0, 0.0)
    assert anew.gpu_s == pytest.approx(2 * LOST_S)
