"""Seats: what a job is to hold, each with a slot that names its pod. Pure functions."""

import hashlib
import string
from collections.abc import Iterable

from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.model.jobs import Worker

_LETTERS = string.ascii_lowercase
_SLOT_LENGTH = 5


def seats_for(standing: Standing, workers: Iterable[Worker], *, uid: str, now_s: float) -> tuple[Seat, ...]:
    """Workers that stay keep their slots, new ones get slots that no earlier seat has. `uid` is the job's.

    Slots follow from what is known rather than from chance: a decision that is carried out twice gives the same ones.
    """
    known = {seat.worker: seat for seat in standing.seats}
    taken = {seat.slot for seat in standing.seats}
    seats = []
    for worker in workers:
        seat = known.get(worker)
        if seat is None:
            seat = Seat(worker, _slot(f"{uid}/{worker.role}/{worker.ordinal}/{worker.node}/{now_s!r}", taken))
            taken.add(seat.slot)
        seats.append(seat)
    return tuple(seats)


def _slot(seed: str, taken: set[str]) -> str:
    for attempt in range(1000):
        number = int.from_bytes(hashlib.sha256(f"{seed}/{attempt}".encode()).digest()[:8])
        slot = ""
        for _ in range(_SLOT_LENGTH):
            number, letter = divmod(number, len(_LETTERS))
            slot += _LETTERS[letter]
        if slot not in taken:
            break
    return slot
