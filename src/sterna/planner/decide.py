"""The decision: a snapshot goes in; target, layout, plan and reasons come out. Pure, and the same for every engine.

`decide` checks its own work before handing it out (`invariants.py`); what breaks a promise is never applied.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sterna.model.considering import ConsideredMove
from sterna.model.errors import InvalidRequest, InvariantBroken
from sterna.model.feasibility import Numbers, cannot_start, too_big_for_pool
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.layout import Layout
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import Because, Why
from sterna.placement.rebalancing import Rebalancing, with_rebalancing, without_rebalancing
from sterna.planner.invariants import require_sound
from sterna.planner.lanes import Part, beside_neighbours
from sterna.planner.obedience import beside_others, lawful, obeying, with_neighbourhood
from sterna.planner.pools import joined_memory, pools_of, stamped
from sterna.planner.repair import placed_target
from sterna.planner.reservations import Reservation, with_reservation
from sterna.planner.steps import changes, ordered_steps

Sizing = Callable[[Snapshot], Target]
Placing = Callable[[Snapshot, Target], Layout]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a cluster's owner sets for all policies alike."""

    starving_after_s: float | None = None  # set nodes aside for a job that waited this long. None: never
    counted: bool = False  # nodes do not matter, only sums: for simulations with `count` placement
    rebalance: Rebalancing | None = None  # moves beyond what placement does. None: none
    idle_cpu_share: float | None = None  # of a GPU node, for jobs without GPUs. None: `lanes.share_for_gpuless` says

    def __post_init__(self) -> None:
        if self.idle_cpu_share is not None and not 0.0 <= self.idle_cpu_share <= 1.0:
            raise InvalidRequest(field="idle CPU share", value=self.idle_cpu_share, expected="a number from 0 to 1")


def decide(view: Snapshot, size: Sizing, place: Placing, settings: Settings | None = None) -> Decision:
    """Size, place, rebalance and plan every pool, and join what they answer."""
    settings = settings or Settings()
    view = view if settings.counted else with_neighbourhood(view)
    parts = pools_of(view, idle_cpu_share=settings.idle_cpu_share)
    if len(parts.pools) == 1 and not parts.chosen:
        return _decide_pool(parts.pools[0].view, size, place, settings, name=None)
    decided: dict[str, tuple[Part, Decision]] = {}
    for part in parts.pools:  # a lane comes after the pool whose nodes it shares
        if part.lane_of is not None:
            neighbours, decision = decided[part.lane_of]
            part = beside_neighbours(part, view, neighbours, decision.layout)
        if view.neighbourhood is not None:
            part = beside_others(part, view, [(other, done.layout) for other, done in decided.values()])
        decided[part.name] = part, _decide_pool(part.view, size, place, settings, name=part.name)
    return _joined(view, [(name, decision) for name, (_, decision) in decided.items()], parts.chosen)


def _decide_pool(view: Snapshot, size: Sizing, place: Placing, settings: Settings, *, name: str | None) -> Decision:
    around, verdicts = view.neighbourhood, dict[JobId, Because]()
    place = place if around is None else obeying(place, around)
    left_out = too_big_for_pool(view)
    for job in left_out:
        verdicts[job.id] = cannot_start(view, job) or Because(Why.NO_ROOM, _bigger_than_what_is_left(view, job))
    playing = without(view, left_out) if left_out else view
    reservation: Reservation | None = None
    if settings.starving_after_s is not None:
        reservation = with_reservation(playing, size, settings.starving_after_s, counted=settings.counted)
        playing, size = reservation.view, reservation.size
    rebalance, remembered = settings.rebalance, playing.memory
    considered: tuple[ConsideredMove, ...] = ()
    if rebalance is None or settings.counted:
        target, layout = placed_target(playing, size, place, verdicts)
        memory, wake_s = target.memory, target.wake_s
    else:
        playing = replace(playing, memory=without_rebalancing(remembered))  # no policy stumbles over others' keys
        target, layout = placed_target(playing, size, place, verdicts)
        layout, kept, considered, round_s = rebalance(replace(playing, memory=remembered), layout)
        memory = with_rebalancing(target.memory, kept)
        wake_s = _sooner(target.wake_s, round_s)
    layout = lawful(view, target, layout)
    kept_for: tuple[JobId, ...] = ()
    if reservation is not None:
        memory, wake_s = reservation.remembered(memory, layout), _sooner(wake_s, reservation.wake_s)
        kept_for = (reservation.head,) if reservation.waits and reservation.head is not None else ()
    share = settings.idle_cpu_share
    change = changes(view, target, layout)
    if not change.shrinks and not change.grows:
        return Decision(view.revision, target, layout, (), memory, wake_s, verdicts, considered, {}, kept_for, share)
    steps = ordered_steps(view, change, counted=settings.counted)
    require_sound(view, steps, counted=settings.counted)
    memory = memory if name is not None else stamped(memory, view.now_s)
    return Decision(view.revision, target, layout, steps, memory, wake_s, verdicts, considered, {}, kept_for, share)


def _sooner(one_s: float | None, other_s: float | None) -> float | None:
    return min((at_s for at_s in (one_s, other_s) if at_s is not None), default=None)


def without(view: Snapshot, jobs: list[Job]) -> Snapshot:
    """The snapshot as if these jobs did not ask for anything. Their room, if they hold any, counts as free."""
    gone = {job.spec.id for job in jobs}
    return replace(view, jobs=tuple(job for job in view.jobs if job.spec.id not in gone))


def _bigger_than_what_is_left(view: Snapshot, job: Job) -> Numbers:
    """Guests that are there for now leave less than it needs."""
    what = view.currency.name.lower()
    return ((f"needs_{what}_milli", job.spec.min_request[view.currency]), ("the_pool_has", view.cluster.capacity))


def _joined(view: Snapshot, decisions: list[tuple[str, Decision]], chosen: Mapping[JobId, Because]) -> Decision:
    """One decision from those of the pools. Pools share no node, so their steps run side by side."""
    parts = [decision for _, decision in decisions]
    wakes = [part.wake_s for part in parts if part.wake_s is not None]
    target = Target(
        {job_id: grant for part in parts for job_id, grant in part.target.grants.items()},
        left_out={job_id: why for part in parts for job_id, why in part.target.left_out.items()},
        whole=parts[0].target.whole if parts else "",
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
    kept_for = tuple(job_id for part in parts for job_id in part.kept_for)
    wake_s, share = min(wakes, default=None), parts[0].idle_cpu_share if parts else None
    return Decision(view.revision, target, layout, steps, memory, wake_s, verdicts, considered, chosen, kept_for, share)
