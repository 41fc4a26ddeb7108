"""A placement whose jobs start where they are told to: so that two runs begin alike and differ in what came after.

Only a job's very first workers are pinned. Where they do not fit or are not let in, or are not the ones that were
pinned, the job starts where the placement would have it; what happens to it later is not decided here.
"""

from collections.abc import Callable, Mapping

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.placement.frame import frame_of
from sterna.placement.room import Room

Placing = Callable[[Snapshot, Target], Layout]
Pins = Mapping[JobId, Mapping[tuple[Role, int], NodeId]]  # the node of each worker of each job, by role and ordinal


def pinned(place: Placing, pins: Pins) -> Placing:
    """The same placement with these starts."""

    def placed(view: Snapshot, target: Target) -> Layout:
        layout = place(view, target)
        starting = [
            job_id for job_id in layout.workers if job_id in pins and view.by_id[job_id].first_started_s is None
        ]
        return _moved_to_pins(view, layout, starting, pins) if starting else layout

    return placed


def _moved_to_pins(view: Snapshot, layout: Layout, starting: list[JobId], pins: Pins) -> Layout:
    workers = dict(layout.workers)
    room = Room.empty(frame_of(view.cluster))
    for job_id, held in workers.items():
        if job_id not in starting:
            room.hold(view.by_id[job_id].spec, held)
    for job_id in starting:
        job, wanted = view.by_id[job_id], workers[job_id]
        there = _at_pins(room, job, wanted, pins[job_id])
        if there is None:
            room.hold(job.spec, wanted)
        else:
            workers[job_id] = there
    return Layout(workers, layout.becauses)


def _at_pins(
    room: Room, job: Job, wanted: tuple[Worker, ...], nodes: Mapping[tuple[Role, int], NodeId]
) -> tuple[Worker, ...] | None:
    """These workers on the nodes they are pinned to; None, and nothing taken, if that cannot be."""
    spec, index = job.spec, room.frame.index
    there: list[Worker] = []
    for worker in wanted:
        at = index.get(nodes.get((worker.role, worker.ordinal), NodeId("")))
        request = spec.request_of(worker.role)
        if at is None or not room.frame.admits(at, spec) or not room.slots_at(at, request):
            room.release(spec, there)
            return None
        there.append(worker._replace(node=room.frame.nodes[at].id, devices=room.take(at, request)))
    return tuple(there)
