"""What a node that is lost, silent or comes and goes costs a simulated job: as in every engine."""

from dataclasses import replace

import pytest
from tests.worlds import job, node

from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.results import JobRecord
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


def changes(node_id: str, *moments: tuple[float, NodeChange]) -> list[NodeEvent]:
    return [NodeEvent(at_s, change, NodeId(node_id)) for at_s, change in moments]


def simulated(events: list[NodeEvent], *, submitted_s: float = 0.0, nodes: int = 2) -> JobRecord:
    """A job of one worker, with a checkpoint every hour, and 1000 seconds of work."""
    chosen = policy("fifo")
    spec = replace(job("a", at_least=1, at_most=1).spec, submitted_s=submitted_s)
    result = simulate(
        Simulation(
            nodes=[node(f"n{number}", gpus=1) for number in range(nodes)],
            jobs=[SimulatedJob(spec, PacedTraining(1000.0, SpeedupCurve.linear(1)))],
            size=chosen,
            place=placement(chosen.placement),
            node_events=events,
            checkpoint_every_s=3600.0,
        )
    )
    (record,) = result.records
    return record


@pytest.mark.parametrize("started_s", [0.0, 5.0], ids=["from the very beginning", "a little later"])
def test_a_node_loss_costs_the_work_since_the_last_checkpoint(started_s):
    record = simulated(changes("n0", (started_s + 100.0, NodeChange.LOST)), submitted_s=started_s)
    assert (record.lost_s, record.finished_s) == (100.0, started_s + 1100.0)


def test_a_silence_that_ends_in_time_costs_nothing():
    events = changes("n0", (100.0, NodeChange.SILENT), (129.0, NodeChange.RETURNED))
    record = simulated(events)
    assert (record.lost_s, record.finished_s, record.preemptions) == (0.0, 1000.0, 0)


def test_a_silence_that_lasts_is_a_loss_once_it_is_believed():
    record = simulated(changes("n0", (100.0, NodeChange.SILENT)))
    assert (record.lost_s, record.finished_s, record.preemptions) == (130.0, 1130.0, 1)


def test_a_node_that_flapped_is_used_again_as_soon_as_it_has_been_steady():
    """The moment comes by itself: nothing else happens in this cluster."""
    flaps = [(at_s, change) for at_s in (1.0, 3.0, 5.0) for change in (NodeChange.SILENT, NodeChange.RETURNED)]
    moments = [(at_s + (change is NodeChange.RETURNED), change) for at_s, change in flaps]
    record = simulated(changes("n0", *moments), submitted_s=10.0, nodes=1)
    assert (record.first_started_s, record.finished_s) == (306.0, 1306.0)
