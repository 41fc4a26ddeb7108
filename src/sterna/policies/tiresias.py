"""Tiresias-L as Voda runs it: feedback queues that a job sinks through as it is served, and rises from while it waits.

Sources: Gu et al., "Tiresias" (NSDI'19), discretised two-dimensional LAS; Voda's `Tiresias`, whose rule this is:
service is counted since the job last started, a queue is walked by first start, a job gets its initial size or nothing.
The Tiresias of published simulators, with service that is never reset, is `las.py`.

Departures:
- A job that never ran comes last in its queue. Voda meant that too, but its "never" overflowed and came first.
- Only a running job sinks and only a waiting one rises. Voda tested both on every tick, with counters that a start did
  not reset, so that a job could flip between two queues every five seconds. Here a job has used up a threshold
  between a rise and the next fall, and has waited a multiple of its last run between a fall and the next rise.
- A job falls at its threshold, not at the first tick past it: the target says when that is.
- The user's priority lasts. A job enters by the queue its priority names (0 and above: the first, -1: the second, and
  so on, clamped to the last), rises no higher, and goes ahead of lower priorities in its queue.

All but the first have a way back, for comparing with what was measured without them: `promotion=voda` takes Voda's own
rule (`voda_ticks.py`), under which no priority lasts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from sterna.model.columns import Question
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import Positions, Size, attained, first_start, holds, initial_size, served, whole
from sterna.policies.voda_ticks import LOOK_S, Rule, change_after, now_counted, once_granted, queue_at

SLACK = 1e-3  # seconds or GPU-seconds: more than a clock that counts from 1970 loses to rounding

LOWER_QUEUE = Because(Why.LOWER_QUEUE)


class Promotion(StrEnum):
    WAITING = "waiting"
    VODA = "voda"


@dataclass(frozen=True, slots=True)
class TiresiasOptions:
    thresholds_gpu_s: tuple[float, ...] = option(
        (3600.0,), "GPU-seconds since its start after which a job leaves each queue but the last", at_least=1
    )
    promote_knob: float = option(
        8.0, "a waiting job rises once it has waited this many times its last run; 0: never", at_least=0
    )
    promotion: Promotion = option(
        Promotion.WAITING, "voda: its own rule with its defects, for comparing: running jobs rise too, looks every 5 s"
    )

    @property
    def rule(self) -> Rule:
        return Rule(self.thresholds_gpu_s, self.promote_knob)


class Queues(NamedTuple):
    """The queue of each job, and the order in which jobs are walked: the first queue first, each in its own order."""

    number: Positions  # of each job's queue, by its place
    order: Positions

    def below_first(self) -> list[int]:
        """Positions of jobs in lower queues, as they are walked."""
        walked = self.number[self.order]
        below: list[int] = self.order[walked > 0].tolist()
        return below


class Helpings(NamedTuple):
    """How many workers jobs get, by place; jobs that are not listed get none."""

    places: Positions
    workers: Positions


def tiresias(view: Snapshot, options: TiresiasOptions) -> Target:
    queues = feedback_queues(view, options)
    jobs = view.wanting
    places, _ = served(view, initial_size, queues.order)
    grants = {(job := jobs[place]).spec.id: whole(job.spec.size_asked) for place in places}
    return replace(answer(view, options, queues, grants, places), whole=Size.INITIAL)


def feedback_queues(view: Snapshot, options: TiresiasOptions) -> Queues:
    """All jobs by queue, after the falls and rises that are due, each queue in its order."""
    number = _by_voda(view, options) if options.promotion is Promotion.VODA else _by_queue(view, options)
    columns = view.columns
    order = np.lexsort((columns.of(first_start), columns.of(_priority), number))  # stable: then (submission, id)
    return Queues(number, order)


def _by_queue(view: Snapshot, options: TiresiasOptions) -> Positions:
    """Looks only at jobs whose queue is remembered or named by a priority, or that have used up a threshold: a job that
    has only ever waited is in the first queue, and that is most of a long queue.
    """
    columns, jobs, remembered = view.columns, view.wanting, view.memory.jobs
    number = np.zeros(len(jobs), np.intp)
    first = options.thresholds_gpu_s[0] if options.thresholds_gpu_s else inf
    used_up = (attained(view, since_start=True) >= first - SLACK) & (columns.of(holds) > 0)
    special = used_up | (columns.of(_priority) != 0)
    if remembered:
        special |= np.array([job.spec.id in remembered for job in jobs], np.bool_)
    for place in special.nonzero()[0].tolist():
        number[place] = _queue_of(jobs[place], remembered.get(jobs[place].spec.id), view.now_s, options)
    return number


def _queue_of(job: Job, entry: Mapping[str, float] | None, now_s: float, options: TiresiasOptions) -> int:
    thresholds = options.thresholds_gpu_s
    last = len(thresholds)
    home = home_queue(job, last)
    queue = home if entry is None else min(last, max(home, int(entry.get("queue", home))))
    if job.size:
        while queue < last and job.attained_since_start(now_s) >= thresholds[queue] - SLACK:
            queue += 1
    elif queue > home and now_s >= _rise_s(job, now_s, options.promote_knob) - SLACK:
        queue = home
    return queue


def _by_voda(view: Snapshot, options: TiresiasOptions) -> Positions:
    now_s, remembered, rule = view.now_s, view.memory.jobs, options.rule
    last = len(options.thresholds_gpu_s)
    numbers: list[int] = []
    for job in view.wanting:
        entry = remembered.get(job.spec.id, {})
        queue = min(last, int(entry.get("queue", home_queue(job, last))))
        looked_s = entry.get("looked_s", now_s - LOOK_S)
        numbers.append(queue_at(now_counted(job, now_s, entry), queue, looked_s, now_s, rule))
    return np.array(numbers, np.intp)


def answer(
    view: Snapshot, options: TiresiasOptions, queues: Queues, grants: Mapping[JobId, Grant], places: list[int]
) -> Target:
    """The target that goes with these grants: what to remember of the queues, and when they change by themselves.

    `places` are those of the jobs that hold the grants, in the same order.
    """
    memory, jobs = view.memory, view.wanting
    below = queues.below_first()
    if options.promotion is Promotion.VODA:
        kept, wake_s = _looks(view, options, queues, grants)
    else:
        workers = [grant.workers for grant in grants.values()]
        helpings = Helpings(np.array(places, np.intp), np.array(workers, np.intp))
        kept = _sunk(view, options, queues, below)
        falls_s = _next_fall_s(view, options, queues, helpings)
        wake_s = min(falls_s, _next_rise_s(view, options, queues, below, grants))
    if len(jobs) < len(view.jobs):  # a suspended job keeps its queue
        resting = (job.id for job in view.jobs if not job.wants_workers)
        kept.update({job_id: memory.jobs[job_id] for job_id in resting if job_id in memory.jobs})
    return Target(
        grants,
        memory=PolicyMemory(kept, memory.values, memory.last_action_s),
        wake_s=wake_s if wake_s < inf else None,
        left_out={job_id: LOWER_QUEUE for place in below if (job_id := jobs[place].spec.id) not in grants},
    )


def _sunk(
    view: Snapshot, options: TiresiasOptions, queues: Queues, below: list[int]
) -> dict[JobId, Mapping[str, float]]:
    """What to remember: the queue of every job that is not where it entered."""
    jobs, last = view.wanting, len(options.thresholds_gpu_s)
    return {
        job.spec.id: {"queue": float(number)}
        for place, number in zip(below, queues.number[below].tolist(), strict=True)
        if number > home_queue(job := jobs[place], last)
    }


def _looks(
    view: Snapshot, options: TiresiasOptions, queues: Queues, grants: Mapping[JobId, Grant]
) -> tuple[dict[JobId, Mapping[str, float]], float]:
    """What to remember under Voda's rule, and the first look that changes any job's queue."""
    now_s, soonest_s, jobs = view.now_s, inf, view.wanting
    seen: dict[JobId, Mapping[str, float]] = {}
    for place, number in zip(queues.order.tolist(), queues.number[queues.order].tolist(), strict=True):
        job = jobs[place]
        entry = view.memory.jobs.get(job.spec.id, {})
        counts = once_granted(job, grants.get(job.spec.id), now_s, now_counted(job, now_s, entry))
        seen[job.spec.id] = {"queue": float(number), "looked_s": now_s, "waited_s": counts.waited_s}
        soonest_s = min(soonest_s, change_after(counts, number, now_s, options.rule)[0])
    return seen, soonest_s


_gpu_milli: Question = attrgetter("spec.request.gpu_milli")


def home_queue(job: Job, last: int) -> int:
    """Where a job enters, and the highest it rises to."""
    priority = job.spec.priority
    return 0 if priority >= 0 else min(-priority, last)


def service_rate(job: Job, workers: int) -> float:
    """GPUs that so many workers hold; workers where the job asks for no GPU."""
    milli = job.spec.request.gpu_milli
    return workers * milli / WHOLE_GPU_MILLI if milli else float(workers)


def _priority(job: Job) -> float:
    return -job.spec.priority


def _rise_s(job: Job, now_s: float, knob: float) -> float:
    """When a job that holds nothing from now on rises. Never, if it has not run: then it was not pushed out either."""
    if job.size:
        ran_s = 0.0 if job.started_s is None else now_s - job.started_s
        return now_s + knob * ran_s if knob and ran_s > 0 else inf
    since_s = job.waiting_since_s
    return inf if since_s is None or not knob or job.last_ran_s <= 0 else since_s + knob * job.last_ran_s


def _next_fall_s(view: Snapshot, options: TiresiasOptions, queues: Queues, helpings: Helpings) -> float:
    """When the first of the jobs that will hold workers uses up its threshold; infinite if none ever does."""
    number = queues.number[helpings.places]
    falling = number < len(options.thresholds_gpu_s)
    places, workers, number = helpings.places[falling], helpings.workers[falling], number[falling]
    milli = view.columns.of(_gpu_milli)[places]
    rate = np.where(milli > 0, workers * milli / WHOLE_GPU_MILLI, workers)
    used = np.where(view.columns.of(holds)[places] > 0, attained(view, since_start=True)[places], 0.0)
    unused = np.array(options.thresholds_gpu_s)[number] - used
    return float((view.now_s + unused / rate).min(initial=inf))


def _next_rise_s(
    view: Snapshot, options: TiresiasOptions, queues: Queues, below: list[int], grants: Mapping[JobId, Grant]
) -> float:
    """When the first job in a lower queue that will hold nothing has waited enough; infinite if none ever has."""
    jobs, last = view.wanting, len(options.thresholds_gpu_s)
    rises_s = [
        _rise_s(job, view.now_s, options.promote_knob)
        for place, number in zip(below, queues.number[below].tolist(), strict=True)
        if (job := jobs[place]).spec.id not in grants and number > home_queue(job, last)
    ]
    return min(rises_s, default=inf)
