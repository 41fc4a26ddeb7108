"""Voda's own rule for which jobs sink and rise in Tiresias' queues, with the defects that its published numbers have.

`promotion=voda` asks for it, to compare with what was measured under it; it has no other use. Every five
seconds Voda looks at every job, and changes its queue by what it counts since the job last started or stopped:

- a job that has used more than its queue's threshold sinks by one, be it running or not. The counter is reset by the
  next start only, so that a job that rose while it waited sinks again at the next look;
- otherwise, in a lower queue, it rises to the first once its last wait is a multiple of its last run, be it running or
  not. A start resets the run and not the wait, so that a job that waited long rises whatever it has used since.

Between two such looks a job may change to and fro, and every change asks for another decision. What we take as exact is
what Voda counts in steps of a look, which makes up to five seconds of difference.
"""

from collections.abc import Mapping
from math import ceil, floor, inf
from typing import NamedTuple

from sterna.model.jobs import Job
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.target import Grant

LOOK_S = 5.0


class Rule(NamedTuple):
    thresholds_gpu_s: tuple[float, ...]  # of each queue but the last
    knob: float  # how many times its last run a job must have waited; 0: it never rises


class Counts(NamedTuple):
    """What Voda knows of a job at one moment, and what grows from then on."""

    at_s: float
    gpu_s: float  # since its latest start
    gpus: float  # what it holds, so by how much the above grows in a second; 0: it waits
    ran_s: float  # its latest run
    waited_s: float  # its latest wait

    def sinks_s(self, threshold_gpu_s: float, look_s: float) -> float:
        """The first look, not before `look_s`, that finds more used than the threshold."""
        if self.gpu_s > threshold_gpu_s:
            return look_s
        if not self.gpus:
            return inf
        used_up_s = self.at_s + (threshold_gpu_s - self.gpu_s) / self.gpus
        return max(look_s, _look_after(used_up_s))

    def rises_s(self, knob: float, look_s: float) -> float:
        """The first look, not before `look_s`, that finds the wait long enough."""
        if not knob:
            return inf
        if self.gpus:  # the run grows and the wait does not: now or never
            return look_s if self.waited_s >= knob * (self.ran_s + look_s - self.at_s) else inf
        long_enough_s = self.at_s + knob * self.ran_s - self.waited_s
        return max(look_s, ceil(long_enough_s / LOOK_S) * LOOK_S)


def now_counted(job: Job, now_s: float, remembered: Mapping[str, float]) -> Counts:
    """The job as it is, at the moment from which its counters grow as they do now."""
    since_s = job.started_s if job.size else job.waiting_since_s
    at_s = now_s if since_s is None else since_s
    if job.size:
        gpus = job.service_rate
        used = job.attained_since_start(now_s) - gpus * (now_s - at_s)  # as if it had had this size since its start
        return Counts(at_s, used, gpus, 0.0, remembered.get("waited_s", 0.0))
    return Counts(at_s, job.gpu_s_since_start, 0.0, job.last_ran_s, 0.0)


def once_granted(job: Job, grant: Grant | None, now_s: float, counts: Counts) -> Counts:
    """The job once the target has come true."""
    elapsed_s = now_s - counts.at_s
    workers = 0 if grant is None else grant.workers
    milli = job.spec.request.gpu_milli
    gpus = workers * milli / WHOLE_GPU_MILLI if milli else float(workers)
    gpu_s = counts.gpu_s + counts.gpus * elapsed_s
    if job.size:
        ran_s = counts.ran_s + elapsed_s
        return Counts(now_s, gpu_s, gpus, ran_s, counts.waited_s if workers else 0.0)
    waited_s = counts.waited_s + elapsed_s
    return Counts(now_s, 0.0, gpus, 0.0, waited_s) if workers else Counts(now_s, gpu_s, 0.0, counts.ran_s, waited_s)


def change_after(counts: Counts, queue: int, after_s: float, rule: Rule) -> tuple[float, int]:
    """The first look after this moment that changes the job's queue, and the queue; never, if none does."""
    look_s = _look_after(max(after_s, counts.at_s))
    thresholds = rule.thresholds_gpu_s
    sinks_s = counts.sinks_s(thresholds[queue], look_s) if queue < len(thresholds) else inf
    rises_s = counts.rises_s(rule.knob, look_s) if queue else inf
    return (sinks_s, queue + 1) if sinks_s <= rises_s else (rises_s, 0)


def queue_at(counts: Counts, queue: int, after_s: float, now_s: float, rule: Rule) -> int:
    """The job's queue now, after all looks since `after_s`."""
    while True:
        look_s, following = change_after(counts, queue, after_s, rule)
        if look_s > now_s:
            return queue
        queue, after_s = following, look_s


def _look_after(moment_s: float) -> float:
    return (floor(moment_s / LOOK_S) + 1) * LOOK_S
