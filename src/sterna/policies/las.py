"""Least attained service: Tiresias on GPU time, with the rules of the published simulators.

Sources: Gu et al., "Tiresias" (NSDI'19) and its simulator's `dlas-gpu` (the defaults here); the Tiresias of Pollux'
simulator (`thresholds-gpu-s=57600 order=insertion`); the Tiresias-L of AFS' simulator (`thresholds-gpu-s=180000
order=first-start service=since-start`, by its description: its published averages are not reproduced). Voda's rule,
with promotion by default, is `tiresias.py`.

A job moves down one queue each time its attained GPU-seconds reach that queue's threshold, to the tail of the next.
Queues are walked from the first, each job gets its initial size or nothing, and one that does not fit is passed over.
The order inside a queue is history, so it is remembered: a place per job, where smaller is nearer to the head.

Departures: `demote=exact` moves a job at the instant it reaches its threshold. The simulator looks again after
floor((threshold - executed seconds) / GPUs), seconds against GPU-seconds, which is too early or too late for most jobs;
`demote=jump` does the same, for parity only.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import floor, inf, nextafter
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory, Target
from sterna.policies.options import option, shown
from sterna.policies.sharing import Positions, Size, attained, first_start, holds, initial_size, offer_of, served
from sterna.policies.tiresias import LOWER_QUEUE, SLACK, service_rate


class Demote(StrEnum):
    EXACT = "exact"
    JUMP = "jump"


class Order(StrEnum):
    SEAT = "seat"  # jobs that were passed over go behind those that run
    INSERTION = "insertion"
    FIRST_START = "first-start"  # never started: last


class Service(StrEnum):
    TOTAL = "total"
    SINCE_START = "since-start"


@dataclass(frozen=True, slots=True)
class LasOptions:
    thresholds_gpu_s: tuple[float, ...] = option(
        (3250.0, 7200.0), "GPU-seconds at which a job leaves each queue but the last, ascending", at_least=1
    )
    demote: Demote = option(Demote.EXACT, "exact: at the instant; jump: when Tiresias' simulator would look")
    order: Order = option(Order.SEAT, "seat: running jobs first (Tiresias); insertion (Pollux); first-start (AFS)")
    service: Service = option(Service.TOTAL, "what the thresholds count: total, or since-start (AFS)")
    promote_knob: float = option(
        0.0, "a waiting job returns to the first queue after so many times its executed time; 0: never", at_least=0
    )

    def __post_init__(self) -> None:
        limits = self.thresholds_gpu_s
        if any(left >= right for left, right in pairwise(limits)):
            raise InvalidRequest(field="las: thresholds-gpu-s", value=shown(limits), expected="ascending numbers")


_Entry = Mapping[str, float] | None  # what is remembered of a job. None: it is new


class _Queues(NamedTuple):
    """The queue and seat of each job. Lists go by the jobs' places in the snapshot; `order` holds those places."""

    entries: list[_Entry]
    used: list[float]  # GPU-seconds that count against the thresholds, what was forgiven included
    number: list[int]  # of the queue, after the moves that are due
    seat: list[float]  # place in the queue; infinite: new there, so behind all others
    order: Positions  # as jobs are walked: the first queue first, each by seat


def least_attained_service(view: Snapshot, options: LasOptions) -> Target:
    jobs = view.wanting
    queues = _queues(view, options)
    places, _ = served(view, initial_size, queues.order)
    offers = view.columns.each(offer_of(initial_size))
    grants = dict([offers[place] for place in places])
    walked, holders = queues.order.tolist(), set(places)
    lower = [place for place in walked if place not in holders and queues.number[place]]
    kept = _remembered(view, options, queues, walked, holders)
    falls_s = _next_fall_s(view, options, queues, places, kept)
    wake_s = max(min(falls_s, _next_rise_s(view, options, lower, kept)), nextafter(view.now_s, inf))
    return Target(
        grants,
        memory=PolicyMemory(kept, view.memory.values, view.memory.last_action_s),
        wake_s=wake_s if wake_s < inf else None,
        whole=Size.INITIAL,
        left_out={jobs[place].spec.id: LOWER_QUEUE for place in lower},
    )


def _queues(view: Snapshot, options: LasOptions) -> _Queues:
    """All jobs by queue, after the moves that are due, each queue in its order. A job that is new in one is last."""
    jobs, last = view.wanting, len(options.thresholds_gpu_s)
    entries: list[_Entry] = list(map(view.memory.jobs.get, view.columns.each(_id)))
    number = [0 if entry is None else min(last, max(0, int(entry.get("queue", 0)))) for entry in entries]
    seat = [inf if entry is None else entry.get("place", inf) for entry in entries]
    used = attained(view, since_start=options.service is Service.SINCE_START).tolist()
    for place in _who_might_move(view, options, number, used):
        before = number[place]
        number[place] = _moved(jobs[place], before, entries[place], view.now_s, options)
        if number[place] != before:
            seat[place] = inf
    if options.order is Order.FIRST_START:
        seat = view.columns.of(first_start).tolist()
    order = np.lexsort((seat, number))  # stable: then (submission, id)
    return _Queues(entries, used, number, seat, order)


def _who_might_move(view: Snapshot, options: LasOptions, number: list[int], used: list[float]) -> list[int]:
    """Positions of jobs that have used up their threshold, what was forgiven aside, or may have waited enough."""
    limits = [*(limit - SLACK for limit in options.thresholds_gpu_s), inf]
    if not options.promote_knob:
        return [place for place, queue in enumerate(number) if used[place] >= limits[queue]]
    sizes = view.columns.of(holds).tolist()
    return [place for place, queue in enumerate(number) if used[place] >= limits[queue] or (queue and not sizes[place])]


_id: Callable[[Job], JobId] = attrgetter("spec.id")


def _moved(job: Job, queue: int, entry: _Entry, now_s: float, options: LasOptions) -> int:
    """The queue a job belongs in now. A waiting one falls too if its service is known and its queue was forgotten, as
    after a change of policies; it rises if it has waited enough, be it from there."""
    limits, exact = options.thresholds_gpu_s, options.demote is Demote.EXACT
    if job.size or _falls_while_waiting(options):
        served = _served(job, entry, now_s, options)
        while queue < len(limits) and served >= limits[queue] - SLACK:
            queue += 1
            if not exact:
                break  # the jump moves one queue per look, however late it is
    if not job.size and queue and now_s >= _rise_s(job, entry, now_s, options) - SLACK:
        return 0
    return queue


def _falls_while_waiting(options: LasOptions) -> bool:
    return options.demote is Demote.EXACT and options.service is Service.TOTAL


def _served(job: Job, entry: _Entry, now_s: float, options: LasOptions) -> float:
    """GPU-seconds that count against the thresholds. A promotion forgives what came before it."""
    if options.service is Service.SINCE_START:
        return job.attained_since_start(now_s)
    served = job.attained_gpu_s(now_s)
    return served if entry is None else served - entry.get("forgiven", 0.0)


def _rise_s(job: Job, entry: _Entry, now_s: float, options: LasOptions) -> float:
    """When a job that holds nothing from now on returns to the first queue."""
    served = _served(job, entry, now_s, options) if options.promote_knob else 0.0
    if served <= 0:
        return inf
    since_s = job.waiting_since_s if job.waiting_since_s is not None and not job.size else now_s
    return since_s + options.promote_knob * served / service_rate(job, initial_size(job))


def _remembered(
    view: Snapshot, options: LasOptions, queues: _Queues, walked: list[int], holders: set[int]
) -> dict[JobId, Mapping[str, float]]:
    """What to remember of every job: its queue, and a seat above that of the job ahead. Most stay as they were."""
    jobs, kept = view.wanting, dict(view.memory.jobs)
    by_queue: list[list[int]] = [[] for _ in range(len(options.thresholds_gpu_s) + 1)]
    for place in walked:
        by_queue[queues.number[place]].append(place)
    for number, places in enumerate(by_queue):
        if options.order is Order.SEAT:  # jobs that were passed over go behind those that run
            places.sort(key=lambda place: place not in holders)
        for place, seat in _new_seats(options, queues, number, places):
            job = jobs[place]
            more = _forgiven(job, queues.entries[place], number, view.now_s, options)
            kept[job.spec.id] = {"queue": float(number), "place": seat, **more}
    if len(kept) > len(jobs):  # some are finished, or suspended: those come back to where they were
        for job_id in kept.keys() - view.by_id.keys():
            del kept[job_id]
    return kept


def _new_seats(options: LasOptions, queues: _Queues, number: int, places: list[int]) -> Iterator[tuple[int, float]]:
    """Place and seat of the jobs in this queue that cannot keep what is remembered of them."""
    by_first_start = options.order is Order.FIRST_START
    ahead, seats = -1.0, queues.seat
    for place in places:
        seat = seats[place]
        if by_first_start:
            entry = queues.entries[place]
            if entry is not None and entry.get("queue") == number:
                continue
        elif ahead < seat < inf:
            ahead = seat
            continue
        ahead += 1.0
        yield place, ahead


def _forgiven(job: Job, entry: _Entry, queue: int, now_s: float, options: LasOptions) -> dict[str, float]:
    """Service that no longer counts: all there was when the job last rose."""
    rose = entry is not None and queue == 0 < entry.get("queue", 0)
    if not rose and queue == 0 and not job.size and options.promote_knob and _falls_while_waiting(options):
        limit = min(options.thresholds_gpu_s, default=inf)
        rose = _served(job, entry, now_s, options) >= limit - SLACK  # else it would have fallen
    if rose:
        return {"forgiven": job.attained_gpu_s(now_s)}
    return {"forgiven": entry["forgiven"]} if entry is not None and "forgiven" in entry else {}


def _next_fall_s(
    view: Snapshot,
    options: LasOptions,
    queues: _Queues,
    places: list[int],
    kept: Mapping[JobId, Mapping[str, float]],
) -> float:
    """When the first of the jobs that will hold workers reaches its threshold; infinite if none ever does."""
    jobs, now_s, limits = view.wanting, view.now_s, options.thresholds_gpu_s
    exact, since_start = options.demote is Demote.EXACT, options.service is Service.SINCE_START
    sizes, rates = view.columns.of(holds).tolist(), view.columns.of(_rate_asked).tolist()
    due_s = [inf]
    for place in places:
        if (number := queues.number[place]) == len(limits):
            continue  # there is nothing below the last queue
        limit, rate, used = limits[number], rates[place], queues.used[place]
        if since_start:
            used = used if sizes[place] else 0.0  # a start counts anew
        else:
            used -= kept[jobs[place].spec.id].get("forgiven", 0.0)
        if exact:
            due_s.append(now_s + (limit - used) / rate)
        else:  # seconds where GPU-seconds are meant: that is the rule
            due_s.append(now_s + max(1, floor((limit - used / rate) / rate)))
    return min(due_s)


def _next_rise_s(
    view: Snapshot, options: LasOptions, lower: list[int], kept: Mapping[JobId, Mapping[str, float]]
) -> float:
    """When the first of the jobs passed over in a lower queue has waited enough; infinite if none ever has."""
    if options.demote is not Demote.EXACT or not options.promote_knob:
        return inf
    jobs = [view.wanting[place] for place in lower]
    return min((_rise_s(job, kept[job.spec.id], view.now_s, options) for job in jobs), default=inf)


def _rate_asked(job: Job) -> float:
    return service_rate(job, initial_size(job))
