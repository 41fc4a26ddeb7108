"""A small world that is left to itself: decisions are carried out until nothing changes any more.

Nobody comes or goes and no job makes progress, so whatever changes is the scheduler's own doing. Time goes on: to the
moment a decision asked for, or by `IDLE_S` if it asked for none. The world is at rest once `QUIET` decisions in a row
changed nothing.
"""

from dataclasses import dataclass, field

from sterna.model.jobs import Job
from sterna.model.phases import Phase
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.planner.decide import Placing, Settings, Sizing, decide

IDLE_S = 300.0
QUIET = 3  # longer than any policy's patience in a row: DRAGON grows after a minute, and looks at the overdue after two
CYCLES_MAX = 40  # by then a world of six jobs is at rest: each may start, grow, shrink and be moved, and some to spare


@dataclass
class Settled:
    """How a world came to rest, if it did."""

    view: Snapshot  # as the last decision saw it
    decision: Decision
    cycles: int
    at_rest: bool
    history: list[str] = field(default_factory=list)  # one line for each decision that changed something


def settled(view: Snapshot, size: Sizing, place: Placing, settings: Settings | None = None) -> Settled:
    history: list[str] = []
    quiet = 0
    for cycle in range(CYCLES_MAX):
        decision = decide(view, size, place, settings)
        assert decision.wake_s is None or decision.wake_s > view.now_s, "it wants to be woken in the past"
        if decision.changes_something:
            history.append(_line(view, decision))
            quiet = 0
        else:
            quiet += 1
        if quiet == QUIET:
            return Settled(view, decision, cycle + 1, True, history)
        view = after(view, decision)
    return Settled(view, decide(view, size, place, settings), CYCLES_MAX, False, history)


def after(view: Snapshot, decision: Decision) -> Snapshot:
    """The world once the plan is carried out, at the moment of the next look."""
    now_s = view.now_s + 1.0 if decision.changes_something else decision.wake_s or view.now_s + IDLE_S
    jobs = [_after(job, decision, view.now_s, now_s) for job in view.jobs]
    return Snapshot.of(now_s=now_s, nodes=view.nodes, jobs=jobs, memory=decision.memory, revision=view.revision + 1)


def _after(job: Job, decision: Decision, decided_s: float, now_s: float) -> Job:
    workers = decision.layout.workers_of(job.id)
    if job.phase is Phase.SUSPENDED:
        return job.but(workers=(), leaving=())
    if not workers:
        since_s = decided_s if job.workers or job.waiting_since_s is None else job.waiting_since_s
        return job.but(workers=(), leaving=(), phase=Phase.WAITING, waiting_since_s=since_s, started_s=None)
    started_s = job.started_s if job.workers else decided_s
    return job.but(
        workers=workers,
        leaving=(),
        phase=Phase.RUNNING,
        waiting_since_s=None,
        started_s=started_s,
        first_started_s=job.first_started_s if job.first_started_s is not None else started_s,
        as_of_s=now_s,  # no progress and no service: the world stands still
    )


def _line(view: Snapshot, decision: Decision) -> str:
    changes = [
        f"{job.id} {job.size}->{sum(w.role == 'worker' for w in decision.layout.workers_of(job.id))}"
        f"@{','.join(w.node for w in decision.layout.workers_of(job.id))} {decision.because_of(job.id).why}"
        for job in view.jobs
        if job.workers != decision.layout.workers_of(job.id)
    ]
    return f"{view.now_s:g}: " + "; ".join(changes)
