"""What is, compared with what should be: ordered steps, everything let go before anything is taken up.

Start, suspend, resize and migrate are not four cases. Each is a shrink to what the job keeps and a growth to what it
should hold, and either half may be nothing. So two jobs can even swap nodes.
"""

from typing import NamedTuple

from sterna.model.jobs import Job, Worker
from sterna.model.layout import Layout
from sterna.model.plan import Grow, Shrink, Step
from sterna.model.snapshot import Snapshot, arrival_order
from sterna.model.target import Target
from sterna.model.why import Because, Why
from sterna.placement.rule_check import relates
from sterna.placement.shrinking import is_elastic

WHY_IT_HAS = frozenset({Why.NEXT_IN_ORDER, Why.SPARE_ROOM, Why.BEST_GAIN, Why.KEPT})  # and not why it has less


class Changes(NamedTuple):
    shrinks: list[Shrink]
    grows: list[Grow]


def changes(view: Snapshot, target: Target, layout: Layout) -> Changes:
    """What every job must let go of and take up. Jobs that stay as they are cost one comparison."""
    shrinks: list[Shrink] = []
    grows: list[Grow] = []
    placed, by_id = layout.workers, view.by_id
    different = [job_id for job_id, wanted in placed.items() if by_id[job_id].workers is not wanted]
    for job_id in (*(view.holders - placed.keys()), *different):  # all others stay as they are
        job, wanted = by_id[job_id], placed.get(job_id, ())
        held = job.workers
        if wanted == held:
            continue  # nothing to do
        because = layout.becauses.get(job_id) or target.because_of(job_id)
        because = why_it_shrinks(job, wanted, because)
        kept = survivors(job, wanted)
        if kept != held:
            shrinks.append(Shrink(job_id, kept, because))
        if kept != wanted:
            grows.append(Grow(job_id, wanted, because))
    return Changes(shrinks, grows)


def why_it_shrinks(job: Job, wanted: tuple[Worker, ...], because: Because) -> Because:
    """Of a job that is to hold `wanted`: what made it fewer workers, where `because` only says why it has some.

    A size above its largest is never given, so a job has one only if its owner lowered that since.
    """
    size = sum(map(is_elastic, wanted))
    if not 0 < size < job.size or because.why not in (*WHY_IT_HAS, Why.REPACKED):
        return because
    numbers = (("workers_before", job.size), ("workers_now", size))
    if job.size > size == job.spec.size_largest:
        return Because(Why.SCALED_BY_OWNER, numbers)
    return because if because.why is Why.REPACKED else Because(Why.GAVE_WAY, numbers)


def survivors(job: Job, wanted: tuple[Worker, ...]) -> tuple[Worker, ...]:
    """Those that can train on through the change; none, if the job must restart from its checkpoint."""
    if not job.workers or not wanted or (job.spec.restarts_on_resize and wanted != job.workers):
        return ()
    staying = set(wanted)
    return tuple(worker for worker in job.workers if worker in staying)


def ordered_steps(view: Snapshot, change: Changes, *, counted: bool) -> tuple[Step, ...]:
    """Stops first, then shrinks; then starts and growth: first what fits beside everything that is still leaving,
    then what needs the room that is being let go of. So unrelated jobs do not wait for another job's grace period.
    """
    jobs = view.by_id
    shrinks, grows = change
    if len(shrinks) > 1:
        shrinks = sorted(shrinks, key=lambda action: (bool(action.to), *arrival_order(jobs[action.job_id])))
    if len(grows) > 1:
        grows = sorted(grows, key=lambda action: jobs[action.job_id].size > 0)  # else in the order of the grants
    steps = [Step(tuple(shrinks), after_release=False)] if shrinks else []
    if not grows:
        return tuple(steps)
    if not shrinks and not view.leaving:
        at_once, later = grows, []
    elif counted:
        at_once, later = [], grows
    else:
        at_once, later = _apart(view, shrinks, grows)
    if at_once:
        steps.append(Step(tuple(at_once), after_release=False))
    if later:
        steps.append(Step(tuple(later), after_release=True))
    return tuple(steps)


def _apart(view: Snapshot, shrinks: list[Shrink], grows: list[Grow]) -> tuple[list[Grow], list[Grow]]:
    """Growth whose new workers all land on nodes that no worker is leaving, and the rest.

    Jobs that rules relate to others wait wherever a worker is leaving: it may keep them out of more than its own node.
    """
    jobs = view.by_id
    kept = {shrink.job_id: shrink.to for shrink in shrinks}
    leaving = {worker.node for job in view.leaving for worker in job.leaving}
    for shrink in shrinks:
        leaving.update(worker.node for worker in jobs[shrink.job_id].workers if worker not in shrink.to)
    at_once: list[Grow] = []
    later: list[Grow] = []
    for grow in grows:
        before = kept.get(grow.job_id, jobs[grow.job_id].workers)
        new = [worker for worker in grow.to if worker not in before]
        waits = any(worker.node in leaving for worker in new) or (bool(leaving) and relates(view, jobs[grow.job_id]))
        (later if waits else at_once).append(grow)
    return at_once, later
