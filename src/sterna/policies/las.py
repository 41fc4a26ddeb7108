"""Least attained service: Tiresias on GPU time, with the rules of the published simulators.

Sources: Gu et al., "Tiresias" (NSDI'19) and its simulator's `dlas-gpu` (the defaults here); the Tiresias of Pollux'
simulator (`thresholds-gpu-s=57600 order=insertion`); the Tiresias-L of AFS' simulator (`thresholds-gpu-s=180000
order=first-start service=since-start`, by its description: its published averages are not reproduced). Voda's rule,
with promotion by default, is `tiresias.py`.

A job moves down one queue each time its attained GPU-seconds reach that queue's threshold, to the tail of the next.
Queues are walked from the first, each job gets its initial size or nothing, and who does not fit is passed over. The
order inside a queue is history, so it is remembered: a place per job, where smaller is nearer to the head.

Departures: `demote=exact` moves a job at the instant it reaches its threshold. The simulator looks again after
floor((threshold - executed seconds) / GPUs), seconds against GPU-seconds, which is too early or too late for most jobs;
`demote=jump` does the same, for parity only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import floor, inf

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.resources import Currency
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.policies.options import option, shown
from sterna.policies.sharing import contenders, initial_size, whole
from sterna.policies.tiresias import LOWER_QUEUE, SLACK, service_rate


class Demote(StrEnum):
    EXACT = "exact"
    JUMP = "jump"


class Order(StrEnum):
    SEAT = "seat"  # whoever was passed over goes behind those that run
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
_Seat = tuple[float, int, Job, _Entry]  # place in the queue, then position in the snapshot: never compares jobs


def least_attained_service(view: Snapshot, options: LasOptions) -> Target:
    queues = _queues(view, options)
    room = view.capacity
    grants: dict[JobId, Grant] = {}
    held: list[list[_Seat]] = []
    passed_over: list[list[_Seat]] = []
    for seats in queues:
        runs, waits, room = _walk(seats, room, view.currency, grants)
        held.append(runs)
        passed_over.append(waits)
    if options.order is Order.SEAT:
        queues = [runs + waits for runs, waits in zip(held, passed_over, strict=True)]
    kept = _places(view, options, queues)
    return Target(
        grants,
        memory=PolicyMemory(kept, view.memory.values, view.memory.last_action_s),
        wake_s=_next_change_s(view.now_s, options, held, passed_over, kept),
        left_out={job.spec.id: LOWER_QUEUE for waits in passed_over[1:] for _, _, job, _ in waits},
    )


def _queues(view: Snapshot, options: LasOptions) -> list[list[_Seat]]:
    """All jobs by queue, after the moves that are due, each queue in its order. Whoever is new in one is last."""
    now_s, remembered, last = view.now_s, view.memory.jobs, len(options.thresholds_gpu_s)
    by_first_start = options.order is Order.FIRST_START
    queues: list[list[_Seat]] = [[] for _ in range(last + 1)]
    for position, job in enumerate(contenders(view)):
        entry = remembered.get(job.spec.id)
        queue, place = 0, inf
        if entry is not None:
            queue, place = min(last, max(0, int(entry.get("queue", 0)))), entry.get("place", inf)
        if queue or job.size or job.gpu_s:
            before, queue = queue, _moved(job, queue, entry, now_s, options)
            place = place if queue == before else inf
        if by_first_start:
            place = inf if job.first_started_s is None else job.first_started_s
        queues[queue].append((place, position, job, entry))
    for seats in queues:
        seats.sort()
    return queues


def _walk(
    seats: list[_Seat], room: int, currency: Currency, grants: dict[JobId, Grant]
) -> tuple[list[_Seat], list[_Seat], int]:
    """Initial size or nothing, in order: who holds workers, who is passed over, and what is left; adds to `grants`."""
    scarce = int(currency)
    held: list[_Seat] = []
    passed_over: list[_Seat] = []
    for seat in seats:
        job = seat[2]
        spec = job.spec
        cost = spec.asked_request[scarce]
        if cost <= room:
            grants[spec.id] = whole(spec.size_asked)
            room -= cost
            held.append(seat)
        else:
            passed_over.append(seat)
    return held, passed_over, room


def _moved(job: Job, queue: int, entry: _Entry, now_s: float, options: LasOptions) -> int:
    """The queue a job belongs in now. A waiting one falls too if its service is known and its queue was forgotten."""
    limits, exact = options.thresholds_gpu_s, options.demote is Demote.EXACT
    if not job.size:
        if queue and now_s >= _rise_s(job, entry, now_s, options) - SLACK:
            return 0
        if not exact or options.service is Service.SINCE_START:
            return queue
    served = _served(job, entry, now_s, options)
    while queue < len(limits) and served >= limits[queue] - SLACK:
        queue += 1
        if not exact:
            break  # the jump moves one queue per look, however late it is
    return queue


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


def _places(view: Snapshot, options: LasOptions, queues: list[list[_Seat]]) -> dict[JobId, Mapping[str, float]]:
    """What to remember of every job: its queue, and a place above that of whoever is ahead. Most stay as they were."""
    by_first_start = options.order is Order.FIRST_START
    kept = dict(view.memory.jobs)
    for number, seats in enumerate(queues):
        place = -1.0
        for old, _, job, entry in seats:
            if by_first_start:
                if entry is not None and entry.get("queue") == number:
                    continue
            elif place < old < inf:
                place = old
                continue
            place += 1.0
            kept[job.spec.id] = {"queue": float(number), "place": place, **_forgiven(job, entry, number, view.now_s)}
    if len(kept) > sum(map(len, queues)):  # some are finished, or suspended: those come back to where they were
        alive = {job.spec.id for job in view.jobs}
        kept = {job_id: entry for job_id, entry in kept.items() if job_id in alive}
    return kept


def _forgiven(job: Job, entry: _Entry, queue: int, now_s: float) -> dict[str, float]:
    """Service that no longer counts: all there was when the job last rose."""
    if entry is None:
        return {}
    if queue == 0 < entry.get("queue", 0):
        return {"forgiven": job.attained_gpu_s(now_s)}
    return {"forgiven": entry["forgiven"]} if "forgiven" in entry else {}


def _next_change_s(
    now_s: float,
    options: LasOptions,
    held: list[list[_Seat]],
    passed_over: list[list[_Seat]],
    kept: Mapping[JobId, Mapping[str, float]],
) -> float | None:
    exact = options.demote is Demote.EXACT
    due_s = [inf]
    for limit, seats in zip(options.thresholds_gpu_s, held, strict=False):  # the last queue has no threshold
        for _, _, job, _ in seats:
            rate = service_rate(job, initial_size(job))
            starts_anew = options.service is Service.SINCE_START and not job.size
            served = 0.0 if starts_anew else _served(job, kept[job.spec.id], now_s, options)
            if exact:
                due_s.append(now_s + (limit - served) / rate)
            else:  # seconds where GPU-seconds are meant: that is the rule
                due_s.append(now_s + max(1, floor((limit - served / rate) / rate)))
    if exact and options.promote_knob:
        for seats in passed_over[1:]:
            due_s.extend(_rise_s(job, kept[job.spec.id], now_s, options) for _, _, job, _ in seats)
    soonest_s = min(due_s)
    return soonest_s if soonest_s < inf else None
