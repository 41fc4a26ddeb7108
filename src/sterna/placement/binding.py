"""Which real node plays which node of a packing, so that fewest workers move.

A packing is made on empty copies of the nodes (`repack.py`), so any copy may become any node that can hold what was put
on it and admits the jobs there. Copies and nodes are matched by the assignment problem, which finds the best matching
and not just a good one; a copy can always be itself, so there is a solution.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sterna.model.ids import DeviceId, JobId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.placement.cards import UNCHECKED_BYTES
from sterna.placement.room import Room, Vector

Placed = Mapping[JobId, tuple[Worker, ...]]
Counts = dict[tuple[JobId, Role], dict[int, int]]  # workers by job, role and node


def bound(room: Room, specs: Mapping[JobId, JobSpec], packing: Placed, now: Placed) -> dict[int, int]:
    """For each node of the packing that has workers the real node it becomes; most workers of `now` can stay.

    `room` is what the packing was put into, before it was. Where a copy with shares of GPUs becomes another node, its
    cards are matched with wholly free ones, which is stricter than need be where guests share a card of that node.
    """
    from scipy.optimize import linear_sum_assignment  # here, as it takes longer to import than all of Sterna

    copies = sorted({room.frame.index[worker.node] for workers in packing.values() for worker in workers})
    row_of = {at: row for row, at in enumerate(copies)}
    staying = _staying(room, row_of, packing, now)
    allowed = _fitting(room, specs, row_of, packing) & _admitting(room, specs, row_of, packing)
    allowed[range(len(copies)), copies] = True
    never = int(staying.sum()) + 1  # dearer than moving every worker there is
    rows, columns = linear_sum_assignment(np.where(allowed, -staying, never))
    return {copies[row]: int(column) for row, column in zip(rows.tolist(), columns.tolist(), strict=True)}


def counts_of(room: Room, placed: Placed) -> Counts:
    counts: Counts = {}
    for job_id, workers in placed.items():
        for worker in workers:
            there = counts.setdefault((job_id, worker.role), {})
            at = room.frame.index[worker.node]
            there[at] = there.get(at, 0) + 1
    return counts


def _staying(room: Room, row_of: Mapping[int, int], packing: Placed, now: Placed) -> Vector:
    """How many workers could stay where they are, by copy and node."""
    staying = np.zeros((len(row_of), len(room.frame.nodes)), np.int64)
    held = counts_of(room, now)
    for who, wanted in counts_of(room, packing).items():
        for node, here in held.get(who, {}).items():
            for copy, there in wanted.items():
                staying[row_of[copy], node] += min(here, there)
    return staying


def _fitting(
    room: Room, specs: Mapping[JobId, JobSpec], row_of: Mapping[int, int], packing: Placed
) -> NDArray[np.bool_]:
    """Does what was put on the copy fit on the node?"""
    used = np.zeros((len(row_of), 3), np.int64)  # CPU, memory, cards
    cards: dict[int, dict[DeviceId, int]] = {}  # memory asked of each card
    for job_id, workers in packing.items():
        for worker in workers:
            request, row = specs[job_id].request_of(worker.role), row_of[room.frame.index[worker.node]]
            used[row, 0] += request.cpu_milli
            used[row, 1] += request.memory_bytes
            asked = cards.setdefault(row, {})
            for card in worker.devices:
                asked[card] = asked.get(card, 0) + (request.gpu_bytes if request.shares_gpu else 0)
    for row, asked in cards.items():
        used[row, 2] = len(asked)
    fits: NDArray[np.bool_] = (
        (used[:, 0, None] <= np.array(room.cpu))
        & (used[:, 1, None] <= np.array(room.memory))
        & (used[:, 2, None] <= np.array(room.gpus))
    )
    most = np.array([max(cards.get(row, {}).values(), default=0) for row in range(len(row_of))], np.int64)
    least = [min((size or UNCHECKED_BYTES for size in sizes.values()), default=0) for sizes in room.frame.card_bytes]
    memory_fits: NDArray[np.bool_] = (most[:, None] <= np.array(least, np.int64)) | (most[:, None] == 0)
    return np.logical_and(fits, memory_fits)


def _admitting(
    room: Room, specs: Mapping[JobId, JobSpec], row_of: Mapping[int, int], packing: Placed
) -> NDArray[np.bool_]:
    """Do all jobs on the copy get into the node?"""
    admitted = np.ones((len(row_of), len(room.frame.nodes)), np.bool_)
    for job_id, workers in packing.items():
        mask = room.frame.admitting(specs[job_id])
        if mask is not None:
            for at in {room.frame.index[worker.node] for worker in workers}:
                admitted[row_of[at]] &= mask
    return admitted
