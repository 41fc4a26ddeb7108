"""A static world, decided again and again: each plan is carried out to the letter and the clock moves on.

What several tests of sizes and rest have in common. Nothing comes, goes, finishes or is lost here, so a decision that
still changes something after a while is the scheduler's own restlessness.
"""

from collections.abc import Iterator, Mapping

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.phases import Phase
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.placement.strategies import PLACEMENTS, placement
from sterna.planner.decide import decide
from sterna.policies.registry import ENTRIES, policy

Case = tuple[str, Mapping[str, str]]

POLICIES: list[Case] = [
    *((entry.name, {}) for entry in ENTRIES),
    *(("dragon", {"variant": variant}) for variant in ("balanced", "erudite", "prototype")),
    ("afs-l", {"variant": "voda"}),
    ("elastic-fifo", {"variant": "afs"}),
    ("fifo", {"order": "seat", "size": "initial"}),
    ("tiresias", {"promotion": "voda"}),
    ("elastic-tiresias", {"promotion": "voda"}),
]
ELASTIC: list[Case] = [case for case in POLICIES if policy(*case).entry.elastic and case[0] != "dragon"]
# Those that any policy may be combined with on real nodes; dragon's own settle wishes and go with dragon alone.
PLACED: list[str] = [name for name in PLACEMENTS if name != "count" and not name.startswith("dragon")]


def named(case: Case) -> str:
    name, settings = case
    return " ".join([name, *(f"{key}={value}" for key, value in settings.items())])


def placements_of(case: Case) -> list[str]:
    """All placements that go with this policy."""
    return [policy(*case).placement] if case[0] == "dragon" else PLACED


def decided(view: Snapshot, case: Case, where: str | None = None) -> Decision:
    chosen = policy(*case)
    return decide(view, chosen, placement(where or chosen.placement))


def carried_out(view: Snapshot, decision: Decision, *, after_s: float = 1.0) -> Snapshot:
    """The world after the plan, a little later. Counters stand still: what a policy sees is the same again."""
    jobs: list[Job] = []
    for job in view.jobs:
        workers = decision.layout.workers_of(job.id)
        if workers and not job.workers:
            first_s = job.first_started_s if job.first_started_s is not None else view.now_s
            job = job.but(phase=Phase.RUNNING, started_s=view.now_s, first_started_s=first_s, waiting_since_s=None)
        elif job.workers and not workers:
            job = job.but(phase=Phase.WAITING, started_s=None, waiting_since_s=view.now_s)
        jobs.append(job.but(workers=workers, leaving=(), as_of_s=view.now_s + after_s))
    return Snapshot.of(now_s=view.now_s + after_s, nodes=view.nodes, jobs=jobs, memory=decision.memory)


def life(
    view: Snapshot, case: Case, where: str | None = None, *, cycles: int, after_s: float = 1.0
) -> Iterator[tuple[Snapshot, Decision]]:
    """What was seen and decided, cycle by cycle."""
    for _ in range(cycles):
        decision = decided(view, case, where)
        yield view, decision
        view = carried_out(view, decision, after_s=after_s)


def sizes(view: Snapshot, decision: Decision) -> dict[JobId, int]:
    """Elastic workers that each job holds once the plan is carried out."""
    return {job.id: job.size for job in carried_out(view, decision).jobs if job.size}


def settled(
    view: Snapshot, case: Case, where: str | None = None, *, cycles: int = 12, after_s: float = 70.0
) -> Snapshot:
    """The world once nothing changes any more."""
    for seen, decision in life(view, case, where, cycles=cycles, after_s=after_s):
        view = carried_out(seen, decision, after_s=after_s)
    return view


def held(view: Snapshot) -> dict[str, int]:
    return {job.id: job.size for job in view.jobs if job.size}
