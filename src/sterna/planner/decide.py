"""The decision: a snapshot goes in; target, layout, plan and reasons come out. Pure, and the same for every engine.

`decide` checks its own work before handing it out (`invariants.py`); what breaks a promise is never applied.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sterna.model.considering import ConsideredMove
from sterna.model.errors import InvariantBroken
from sterna.model.feasibility import never_fits, too_big_for_pool
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.layout import Layout
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import Because, Why
from sterna.placement.rebalancing import Rebalancing, with_rebalancing, without_rebalancing
from sterna.planner.invariants import require_sound
from sterna.planner.pools import joined_memory, pools_of, stamped
from sterna.planner.reservations import starving_head, with_reservation
from sterna.planner.steps import changes, ordered_steps

Sizing = Callable[[Snapshot], Target]
Placing = Callable[[Snapshot, Target], Layout]

_PASSES_MAX = 4  # each leaves out jobs that no node could take, so that their share is not idle


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a cluster's owner sets for all policies alike."""

    starving_after_s: float | None = None  # set nodes aside for a job that waited this long. None: never
    counted: bool = False  # nodes do not matter, only sums: for simulations with `count` placement
    rebalance: Rebalancing | None = None  # moves beyond what placement does. None: none


def decide(view: Snapshot, size: Sizing, place: Placing, settings: Settings | None = None) -> Decision:
    """Size, place, rebalance and plan every pool, and join what they answer."""
    settings = settings or Settings()
    pools = pools_of(view)
    if len(pools) == 1:
        return _decide_pool(pools[0][1], size, place, settings, name=None)
    decisions = [(name, _decide_pool(part, size, place, settings, name=name)) for name, part in pools]
    return _joined(view, decisions)


def _decide_pool(view: Snapshot, size: Sizing, place: Placing, settings: Settings, *, name: str | None) -> Decision:
    verdicts: dict[JobId, Because] = {}
    left_out = too_big_for_pool(view)
    for job in left_out:
        verdicts[job.id] = never_fits(view, job) or _bigger_than_pool(view, job)
    playing = without(view, left_out) if left_out else view
    if settings.starving_after_s is not None and (head := starving_head(playing, settings.starving_after_s)):
        playing = with_reservation(playing, head)
    rebalance, remembered = settings.rebalance, view.memory
    considered: tuple[ConsideredMove, ...] = ()
    if rebalance is None or settings.counted:
        target, layout = _placed_target(playing, size, place, verdicts)
        memory, wake_s = target.memory, target.wake_s
    else:
        playing = replace(playing, memory=without_rebalancing(remembered))  # no policy stumbles over others' keys
        target, layout = _placed_target(playing, size, place, verdicts)
        layout, kept, considered, round_s = rebalance(replace(playing, memory=remembered), layout)
        memory = with_rebalancing(target.memory, kept)
        wake_s = min((at_s for at_s in (target.wake_s, round_s) if at_s is not None), default=None)
    change = changes(view, target, layout)
    if not change.shrinks and not change.grows:
        return Decision(view.revision, target, layout, (), memory, wake_s, verdicts, considered)
    steps = ordered_steps(view, change, counted=settings.counted)
    require_sound(view, steps, counted=settings.counted)
    memory = memory if name is not None else stamped(memory, view.now_s)
    return Decision(view.revision, target, layout, steps, memory, wake_s, verdicts, considered)


def _placed_target(
    view: Snapshot, size: Sizing, place: Placing, verdicts: dict[JobId, Because]
) -> tuple[Target, Layout]:
    """Size and place; where a job finds no nodes, size again without it, so that others may have its share."""
    becauses: dict[JobId, Because] = {}
    playing = view
    for _ in range(_PASSES_MAX):
        target = size(playing)
        layout = place(playing, target)
        if len(layout.workers) >= len(target.grants):
            break
        stranded = {job_id for job_id, grant in target.grants.items() if grant.workers and job_id not in layout.workers}
        if not stranded:
            break
        for job_id in stranded:
            becauses[job_id] = layout.becauses.get(job_id) or target.because_of(job_id)
        playing = without(playing, [job for job in playing.jobs if job.spec.id in stranded])
    if becauses:
        layout = Layout(layout.workers, {**layout.becauses, **becauses})
        for job in view.jobs:
            if job.spec.id in becauses and (verdict := never_fits(view, job)):
                verdicts[job.spec.id] = verdict
    return target, layout


def without(view: Snapshot, jobs: list[Job]) -> Snapshot:
    """The snapshot as if these jobs did not ask for anything. Their room, if they hold any, counts as free."""
    gone = {job.spec.id for job in jobs}
    return replace(view, jobs=tuple(job for job in view.jobs if job.spec.id not in gone))


def _bigger_than_pool(view: Snapshot, job: Job) -> Because:
    what = view.currency.name.lower()
    numbers = ((f"needs_{what}_milli", job.spec.min_request[view.currency]), ("pool_has", view.cluster.capacity))
    return Because(Why.NEVER_FITS, numbers)


def _joined(view: Snapshot, decisions: list[tuple[str, Decision]]) -> Decision:
    """One decision from those of the pools. Pools share no node, so their steps run side by side."""
    parts = [decision for _, decision in decisions]
    wakes = [part.wake_s for part in parts if part.wake_s is not None]
    target = Target(
        {job_id: grant for part in parts for job_id, grant in part.target.grants.items()},
        left_out={job_id: why for part in parts for job_id, why in part.target.left_out.items()},
        otherwise=parts[0].target.otherwise if parts else Because(Why.NO_ROOM),
    )
    layout = Layout(
        {job_id: workers for part in parts for job_id, workers in part.layout.workers.items()},
        {job_id: why for part in parts for job_id, why in part.layout.becauses.items()},
    )
    verdicts = {job_id: why for part in parts for job_id, why in part.verdicts.items()}
    memory = joined_memory(view, [(name, part.memory, part.changes_something) for name, part in decisions])
    steps = tuple(sorted((step for part in parts for step in part.steps), key=lambda step: step.after_release))
    if len({action.job_id for step in steps for action in step.actions}) > len(view.jobs):
        raise InvariantBroken("two pools decided about one job")
    considered = tuple(move for part in parts for move in part.considered)
    return Decision(view.revision, target, layout, steps, memory, min(wakes, default=None), verdicts, considered)
