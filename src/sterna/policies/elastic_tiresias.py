"""Elastic-Tiresias: Tiresias' queues, whose jobs then grow into the room that is left, best gain first.

Sources: Wu et al., "Elastic Deep Learning in Multi-Tenant GPU Clusters" (TPDS'21), in the form Voda gives it. Jobs
first get their initial size or nothing, as in `tiresias.py`. If then more than `compact-above` jobs wait, every job
below the first queue is cut to its minimum. Free room goes out one step at a time to the job that gains most: for one
that waits, its speed-up at the minimum per worker; for one that holds workers, what the next step adds, per worker.
Equal gains go to the higher queue, then to the job that is ahead in it. It ends when no job gains.

Departures:
- A job leaves the contest when it cannot take its next step. Voda dropped all jobs whose minimum exceeds the free
  room, those that already hold it included, and so left GPUs idle that a large job could have used.
- Sizes honour `workers_step`, and gains are per worker so that steps of different length compare.
- Gains are compared to nine digits. Speed-ups are quotients of measured times, and two linear curves would otherwise
  differ in the last bit.
- The departures of `tiresias.py` about priorities, promotion and jobs that never ran.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from sterna.model.jobs import Job
from sterna.model.resources import Currency
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import NEXT_IN_ORDER, Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import (
    cost_question,
    initial_size,
    price,
    seatable_size,
    served,
    size_that_gains,
    smallest_size,
)
from sterna.policies.tiresias import Queues, TiresiasOptions, answer, feedback_queues

BEST_GAIN = Because(Why.BEST_GAIN)
COMPACTED = Because(Why.COMPACTED)

_Bid = tuple[float, int, int, int]  # minus the gain, queue, position in the order, place: the smallest is served


@dataclass(frozen=True, slots=True)
class ElasticTiresiasOptions(TiresiasOptions):
    compact_above: int = option(
        10, "with more jobs than this left waiting, jobs below the first queue are cut to their minimum", at_least=0
    )


def elastic_tiresias(view: Snapshot, options: ElasticTiresiasOptions) -> Target:
    queues = feedback_queues(view, options)
    places, room = served(view, initial_size, queues.order)
    sizes = {place: view.wanting[place].spec.size_asked for place in places}
    reasons = dict.fromkeys(places, NEXT_IN_ORDER)
    if len(view.wanting) - len(places) > options.compact_above:
        room += _compact(view, queues, sizes, reasons)
    if room > 0:
        _grow(view, queues, sizes, reasons, room)
        places = [place for place in queues.order.tolist() if place in sizes]
    grants = {
        (spec := view.wanting[place].spec).id: Grant(sizes[place], spec.workers_min, reasons[place]) for place in places
    }
    return answer(view, options, queues, grants, places)


def _compact(view: Snapshot, queues: Queues, sizes: dict[int, int], reasons: dict[int, Because]) -> int:
    """Cut jobs below the first queue to their minimum; returns the room that frees, changes sizes and reasons."""
    freed, scarce = 0, int(view.currency)
    for place in queues.below_first():
        spec = view.wanting[place].spec
        spare = sizes.get(place, 0) - spec.workers_min
        if spare > 0:
            freed += spare * spec.request[scarce]
            sizes[place] = spec.workers_min
            reasons[place] = COMPACTED
    return freed


def _grow(view: Snapshot, queues: Queues, sizes: dict[int, int], reasons: dict[int, Because], room: int) -> None:
    """Hand out `room` one step at a time to the best gain; changes sizes and reasons."""
    jobs, currency = view.wanting, view.currency
    bids: list[_Bid] = [
        (-_gain(view, jobs[place], sizes.get(place, 0)), int(queues.number[place]), position, place)
        for position, place in _who_could_take_a_step(view, queues, sizes, room)
    ]
    heapify(bids)
    while bids and bids[0][0] < 0:
        _, queue, position, place = bids[0]
        job, size = jobs[place], sizes.get(place, 0)
        cost = _step_price(job, size, currency)
        if not 0 <= cost <= room:
            heappop(bids)  # at its maximum, or too dear: room never comes back
            continue
        room -= cost
        sizes[place] = size = _next_size(view, job, size)
        reasons[place] = BEST_GAIN
        heapreplace(bids, (-_gain(view, job, size), queue, position, place))


def _who_could_take_a_step(
    view: Snapshot, queues: Queues, sizes: dict[int, int], room: int
) -> Iterator[tuple[int, int]]:
    """Jobs whose next step there is room for, by position in the order and place."""
    smallest = view.columns.of(cost_question(smallest_size, view.currency))
    worth_asking = smallest <= room  # of waiting jobs; a job that holds workers is asked for its step
    worth_asking[list(sizes)] = True
    for position in worth_asking[queues.order].nonzero()[0].tolist():
        place = int(queues.order[position])
        if 0 <= _step_price(view.wanting[place], sizes.get(place, 0), view.currency) <= room:
            yield position, place


def _next_size(view: Snapshot, job: Job, size: int) -> int:
    """One step more; as many as help, at once, for a job that takes nothing scarce."""
    spec = job.spec
    if not size:
        return spec.workers_min
    if spec.request[view.currency]:
        return size + spec.workers_step
    return size_that_gains(job.curve, size, spec.workers_step, max(size, seatable_size(view, spec)))


def _step_price(job: Job, size: int, currency: Currency) -> int:
    """What the next step costs; -1 if there is none."""
    spec = job.spec
    if not size:
        return price(job, spec.workers_min, currency)
    return spec.request[currency] * spec.workers_step if size + spec.workers_step <= spec.workers_max else -1


def _gain(view: Snapshot, job: Job, size: int) -> float:
    """Speed-up that the next step adds, per worker; 0 if there is none."""
    larger, curve = _next_size(view, job, size), job.curve
    return round((curve.speedup(larger) - curve.speedup(size)) / (larger - size), 9) if larger > size else 0.0
