"""The room that is kept from one layout to the next is the room that would be made anew."""

import random

import pytest

from sterna.model.ids import JobId
from sterna.model.jobs import Worker
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import KEPT
from sterna.placement.frame import frame_of
from sterna.placement.packed import packed
from sterna.placement.room import Room, holding
from tests.random_worlds import random_world


def contents(room: Room) -> tuple[object, ...]:
    shared = {at: dict(shares) for at, shares in room.cards.shared.items() if shares}
    return (room.cpu, room.memory, room.gpus, room.cards.named, shared)


def made_anew(view: Snapshot, workers: dict[JobId, tuple[Worker, ...]]) -> Room:
    room = Room.empty(frame_of(view.cluster))
    for job_id, held in workers.items():
        room.hold(view.by_id[job_id].spec, held)
    return room


@pytest.mark.parametrize("seed", range(120))
def test_a_room_brought_up_to_date_is_the_room_made_anew(seed):
    """Sizes change by lot again and again on one cluster; shares of GPUs, fixed roles and lost nodes among them."""
    chance = random.Random(seed)
    view = random_world(seed)
    frame = frame_of(view.cluster)
    for _ in range(6):
        grants = {}
        for job in view.jobs:
            if job.wants_workers and chance.random() < 0.7:
                size = job.spec.allowed_size(chance.randint(job.spec.workers_min, job.spec.workers_max))
                grants[job.id] = Grant(size, job.spec.workers_min, KEPT)
        layout = packed(view, Target(grants))
        workers = dict(layout.workers)
        if frame.found_sound:
            assert contents(holding(frame, view.by_id, workers)) == contents(made_anew(view, workers))
        jobs = [job.but(workers=layout.workers_of(job.id), leaving=()) for job in view.jobs]
        view = Snapshot(revision=1, now_s=view.now_s, cluster=view.cluster, jobs=tuple(jobs))
