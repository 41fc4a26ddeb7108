"""Elastic-Tiresias: Tiresias' queues, whose jobs then grow into the room that is left, best gain first.

Sources: Wu et al., "Elastic Deep Learning in Multi-Tenant GPU Clusters" (TPDS'21), in the form Voda gives it. Jobs
first get their initial size or nothing, as in `tiresias.py`. If then more than `compact-above` jobs wait, every job
below the first queue is cut to its minimum. Free room goes out one step at a time to whoever gains most: for a job that
waits, its speed-up at the minimum per worker; for one that holds workers, what the next step adds, per worker. Equal
gains go to the higher queue, then to whoever is ahead in it. It ends when nobody gains.

Departures:
- A job leaves the contest when it cannot take its next step. Voda dropped all jobs whose minimum exceeds the free
  room, those that already hold it included, and so left GPUs idle that a large job could have used.
- Sizes honour `workers_step`, and gains are per worker so that steps of different length compare.
- Gains are compared to nine digits. Speed-ups are quotients of measured times, and two linear curves would otherwise
  differ in the last bit.
- The departures of `tiresias.py` about priorities, promotion and jobs that never ran.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from sterna.model.jobs import Job
from sterna.model.resources import Currency
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import NEXT_IN_ORDER, Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import initial_size, price, whole_or_nothing
from sterna.policies.tiresias import TiresiasOptions, answer, feedback_queues

BEST_GAIN = Because(Why.BEST_GAIN)
COMPACTED = Because(Why.COMPACTED)

_Bid = tuple[float, int, int]  # minus the gain, queue, position in the order: the smallest is served


@dataclass(frozen=True, slots=True)
class ElasticTiresiasOptions(TiresiasOptions):
    compact_above: int = option(
        10, "with more jobs than this left waiting, jobs below the first queue are cut to their minimum", at_least=0
    )


def elastic_tiresias(view: Snapshot, options: ElasticTiresiasOptions) -> Target:
    queues = feedback_queues(view, options)
    order = [job for queue in queues for job in queue]
    rank = [number for number, queue in enumerate(queues) for _ in queue]
    whole, room = whole_or_nothing(order, view.capacity, view.currency, initial_size)
    sizes = [whole[job.spec.id].workers if job.spec.id in whole else 0 for job in order]
    reasons = [NEXT_IN_ORDER] * len(order)
    if len(order) - len(whole) > options.compact_above:
        room += _compact(order, rank, sizes, reasons, view.currency)
    if room > 0:
        _grow(order, rank, sizes, reasons, room, view.currency)
    grants = {
        job.spec.id: Grant(workers, job.spec.workers_min, because)
        for job, workers, because in zip(order, sizes, reasons, strict=True)
        if workers
    }
    return answer(view, options, queues, grants)


def _compact(order: list[Job], rank: list[int], sizes: list[int], reasons: list[Because], currency: Currency) -> int:
    """Cut jobs below the first queue to their minimum; returns the room that frees, changes sizes and reasons."""
    freed = 0
    for position, job in enumerate(order):
        spare = sizes[position] - job.spec.workers_min
        if rank[position] and spare > 0:
            freed += spare * job.spec.request[currency]
            sizes[position] = job.spec.workers_min
            reasons[position] = COMPACTED
    return freed


def _grow(
    order: list[Job], rank: list[int], sizes: list[int], reasons: list[Because], room: int, currency: Currency
) -> None:
    """Hand out `room` one step at a time to the best gain; changes sizes and reasons."""
    bids: list[_Bid] = [
        (-_gain(job, sizes[position]), rank[position], position)
        for position, job in enumerate(order)
        if 0 <= _step_price(job, sizes[position], currency) <= room
    ]
    heapify(bids)
    while bids and bids[0][0] < 0:
        _, queue, position = bids[0]
        job, size = order[position], sizes[position]
        cost = _step_price(job, size, currency)
        if not 0 <= cost <= room:
            heappop(bids)  # at its maximum, or too dear: room never comes back
            continue
        room -= cost
        sizes[position] = size = _next_size(job, size)
        reasons[position] = BEST_GAIN
        heapreplace(bids, (-_gain(job, size), queue, position))


def _next_size(job: Job, size: int) -> int:
    return size + job.spec.workers_step if size else job.spec.workers_min


def _step_price(job: Job, size: int, currency: Currency) -> int:
    """What the next step costs; -1 if there is none."""
    spec = job.spec
    if not size:
        return price(job, spec.workers_min, currency)
    return spec.request[currency] * spec.workers_step if size + spec.workers_step <= spec.workers_max else -1


def _gain(job: Job, size: int) -> float:
    """Speed-up that the next step adds, per worker."""
    larger = _next_size(job, size)
    curve = job.curve
    return round((curve.speedup(larger) - curve.speedup(size)) / (larger - size), 9)
