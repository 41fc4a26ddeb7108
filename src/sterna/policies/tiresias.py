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
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import contenders, initial_size, whole_or_nothing

SLACK = 1e-3  # seconds or GPU-seconds: more than a clock that counts from 1970 loses to rounding

LOWER_QUEUE = Because(Why.LOWER_QUEUE)


@dataclass(frozen=True, slots=True)
class TiresiasOptions:
    thresholds_gpu_s: tuple[float, ...] = option(
        (3600.0,), "GPU-seconds since its start after which a job leaves each queue but the last", at_least=1
    )
    promote_knob: float = option(
        8.0, "a waiting job rises once it has waited this many times its last run; 0: never", at_least=0
    )


def tiresias(view: Snapshot, options: TiresiasOptions) -> Target:
    queues = feedback_queues(view, options)
    order = [job for queue in queues for job in queue]
    grants, _ = whole_or_nothing(order, view.capacity, view.currency, initial_size)
    return answer(view, options, queues, grants)


def feedback_queues(view: Snapshot, options: TiresiasOptions) -> list[list[Job]]:
    """All jobs by queue, after the falls and rises that are due, each queue in its order."""
    thresholds, now_s, remembered = options.thresholds_gpu_s, view.now_s, view.memory.jobs
    last = len(thresholds)
    queues: list[list[Job]] = [[] for _ in range(last + 1)]
    for job in contenders(view):
        spec = job.spec
        entry = remembered.get(spec.id)
        if entry is None and not job.size and not spec.priority:
            queues[0].append(job)  # most of a long queue: nothing has ever happened to it
            continue
        home = home_queue(job, last)
        queue = home if entry is None else min(last, max(home, int(entry.get("queue", home))))
        if job.size:
            while queue < last and job.attained_since_start(now_s) >= thresholds[queue] - SLACK:
                queue += 1
        elif queue > home and now_s >= _rise_s(job, now_s, options.promote_knob) - SLACK:
            queue = home
        queues[queue].append(job)
    for jobs in queues:
        jobs.sort(key=_first_start)  # both sorts are stable: equal jobs stay by (submission, id)
        if any(job.spec.priority for job in jobs):
            jobs.sort(key=_priority)
    return queues


def answer(view: Snapshot, options: TiresiasOptions, queues: list[list[Job]], grants: Mapping[JobId, Grant]) -> Target:
    """The target that goes with these grants: what to remember of the queues, and when they change by themselves."""
    memory, last = view.memory, len(options.thresholds_gpu_s)
    sunk: dict[JobId, Mapping[str, float]] = {}
    for number, queue in enumerate(queues[1:], start=1):
        sunk.update({job.spec.id: {"queue": float(number)} for job in queue if number > home_queue(job, last)})
    if sum(map(len, queues)) < len(view.jobs):  # a suspended job keeps its queue
        resting = (job.id for job in view.jobs if not job.wants_workers)
        sunk.update({job_id: memory.jobs[job_id] for job_id in resting if job_id in memory.jobs})
    return Target(
        grants,
        memory=PolicyMemory(sunk, memory.values, memory.last_action_s),
        wake_s=_next_change_s(view.now_s, options, queues, grants),
        left_out={job.spec.id: LOWER_QUEUE for queue in queues[1:] for job in queue if job.spec.id not in grants},
    )


def home_queue(job: Job, last: int) -> int:
    """Where a job enters, and the highest it rises to."""
    priority = job.spec.priority
    return 0 if priority >= 0 else min(-priority, last)


def service_rate(job: Job, workers: int) -> float:
    """GPUs that so many workers hold; workers where the job asks for no GPU."""
    milli = job.spec.request.gpu_milli
    return workers * milli / WHOLE_GPU_MILLI if milli else float(workers)


def _first_start(job: Job) -> float:
    return inf if job.first_started_s is None else job.first_started_s


def _priority(job: Job) -> int:
    return -job.spec.priority


def _rise_s(job: Job, now_s: float, knob: float) -> float:
    """When a job that holds nothing from now on rises. Never, if it has not run: then it was not pushed out either."""
    if job.size:
        ran_s = 0.0 if job.started_s is None else now_s - job.started_s
        return now_s + knob * ran_s if knob and ran_s > 0 else inf
    since_s = job.waiting_since_s
    return inf if since_s is None or not knob or job.last_ran_s <= 0 else since_s + knob * job.last_ran_s


def _next_change_s(
    now_s: float, options: TiresiasOptions, queues: list[list[Job]], grants: Mapping[JobId, Grant]
) -> float | None:
    last = len(options.thresholds_gpu_s)
    due_s = [inf]
    for number, queue in enumerate(queues):
        for job in queue:
            grant = grants.get(job.spec.id)
            if grant is None:
                if number > home_queue(job, last):
                    due_s.append(_rise_s(job, now_s, options.promote_knob))
            elif number < last:
                served = job.attained_since_start(now_s) if job.size else 0.0
                due_s.append(now_s + (options.thresholds_gpu_s[number] - served) / service_rate(job, grant.workers))
    soonest_s = min(due_s)
    return soonest_s if soonest_s < inf else None
