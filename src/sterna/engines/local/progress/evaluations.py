"""Evaluations of a job, from wherever they come: which number is judged, whether it is a new one, how the job grows.

What a judge makes of them is `model/judging/`. Its state is part of the job's row, so a restart finds it; values that a
program keeps telling without having evaluated again are passed over, since a job that evaluates seldom would otherwise
seem to stand still.
"""

import math
from collections.abc import Mapping

from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.store.rows import Evaluation
from sterna.lifecycle.growth_news import growth_in_words, is_news, judge_of
from sterna.model.growth import Growth
from sterna.model.judging import Judge, Judged
from sterna.model.workload import Workload
from sterna.protocol import Status

METRICS = ("eval_loss", "eval_accuracy", "loss", "accuracy")  # the first of these that a program reports is judged

METRIC = "sterna.dev/metric"
MONITOR, EPOCH_CSV, LOG_PATTERN = "sterna.dev/monitor", "sterna.dev/epoch-csv", "sterna.dev/log-pattern"
_TOLD_ELSEWHERE = frozenset({MONITOR, EPOCH_CSV, LOG_PATTERN})  # then what its status says is not judged as well
_SAME_AGAIN = 2  # a value that stays for so many times the usual steps was evaluated again, and is the same


def metric_of(workload: Workload, offered: Mapping[str, float]) -> str | None:
    """Which of these numbers is judged. None: none of them."""
    chosen = dict(workload.annotations).get(METRIC)
    if chosen is not None:
        return chosen if chosen in offered else None
    return next((name for name in METRICS if name in offered), None)


def heard(book: Book, job: LocalJob, status: Status) -> None:
    """What the job's speaker said of itself."""
    if any(name in _TOLD_ELSEWHERE for name, _ in job.workload.annotations):
        return
    metric = metric_of(job.workload, status.metrics)
    if metric is None:
        return
    value, seen = status.metrics[metric], job.row.evaluation
    same = seen is not None and seen.metric == metric and seen.value == value
    if seen is not None and same:
        since = status.step - seen.step
        if seen.gap <= 0 or since < _SAME_AGAIN * seen.gap:
            return
    evaluated(book, job, metric=metric, value=value, step=status.step, at_s=book.timeline.now())


def evaluated(book: Book, job: LocalJob, *, metric: str, value: float, step: int, at_s: float) -> None:
    """Judge the job anew by one more evaluation, and tell people if that changes its category."""
    if job.row.finished or not math.isfinite(value):
        return
    seen = job.row.evaluation
    judge = judge_of(job.workload, book.judge_settings)
    judged = Judged.fresh(judge)
    gap = 0
    if seen is not None and seen.metric == metric:
        if at_s <= seen.at_s:
            return  # told again, after a restart of either side
        judged = Judged.from_record(judge, seen.judged)
        gap = step - seen.step if value != seen.value and step > seen.step else seen.gap
        if seen.incarnation != job.row.incarnation:
            judged = judged.restarted(at_s)
    before = judged.growth
    judged = judged.seen(at_s, value, cpu_milli=_cpu_milli(book, job))
    fresh = Evaluation(
        metric=metric,
        value=value,
        at_s=at_s,
        step=step,
        gap=gap,
        incarnation=job.row.incarnation,
        made=1 if seen is None or seen.metric != metric else seen.made + 1,
        growth=judged.growth,
        judged=judged.to_record(),
    )
    if not is_news(before, judged.growth):
        book.touch_softly(job, evaluation=fresh)
        return
    book.set_job(job, evaluation=fresh)
    book.on_growth()
    _tell(book, job, fresh, before, judged.growth, judge)


def _tell(book: Book, job: LocalJob, seen: Evaluation, before: Growth, now: Growth, judge: Judge) -> None:
    """The category is the event's reason, and the numbers are those that it was decided by."""
    message = growth_in_words(
        now, before=before, metric=seen.metric, value=seen.value, evaluations=seen.made, threshold=judge.threshold
    )
    data = {
        "metric": seen.metric,
        "value": seen.value,
        "score": now.score,
        "efficiency": now.efficiency,
        "threshold": judge.threshold,
        "evaluations": seen.made,
        "step": seen.step,
        "before": before.category.value,
    }
    book.event(now.category.value, message, job=job.row.id, data=data)


def _cpu_milli(book: Book, job: LocalJob) -> float | None:
    """What its workers use together. None: not all of them have been measured."""
    used = [book.used.get(process.row.uid) for process in job.live if process.row.incarnation == job.row.incarnation]
    if not used or any(one is None for one in used):
        return None
    return float(sum(one.cpu_milli for one in used if one is not None))
