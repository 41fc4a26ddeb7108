"""One decision for people: what each job holds, what it will hold, where, and why; then the steps, in order."""

from collections import Counter
from collections.abc import Iterable

from sterna.interfaces.reports.grid import Emphasis, aligned
from sterna.model.considering import ConsideredMove
from sterna.model.jobs import Job, Role, Worker
from sterna.model.plan import Action, Decision, Grow
from sterna.model.snapshot import Snapshot
from sterna.planner.reasons import Reasons


def decision_text(view: Snapshot, decision: Decision, *, policy: str, strong: Emphasis = str) -> str:
    """The answer of `sterna decide`. Jobs in order of submission, so that two runs can be compared line by line."""
    reasons = Reasons(view, decision)
    rows = [_row(job, decision, reasons) for job in view.jobs]
    parts = [
        f"{policy}: {len(view.jobs)} jobs, {len(view.nodes)} nodes, snapshot {view.revision} at {view.now_s:g} s",
        aligned(("job", "now", "granted", "will be", "where", "why"), rows, left=6, strong=strong),
        _plan(view, decision, strong),
    ]
    if decision.chosen:
        rows = [(job_id, because.sentence) for job_id, because in decision.chosen.items()]
        parts.append(aligned(("job", "its pool"), rows, left=2, strong=strong))
    if decision.considered:
        rows = [_looked_at(move) for move in decision.considered]
        parts.append(aligned(("rebalancer", "worker", "on", "to", "why"), rows, left=5, strong=strong))
    if decision.wake_s is not None:
        parts.append(f"Look again at {decision.wake_s:g} s at the latest.")
    return "\n\n".join(parts)


def _row(job: Job, decision: Decision, reasons: Reasons) -> tuple[str, ...]:
    """`granted` is what the policy grants, `will be` what placement could make of it."""
    grant = decision.target.grants.get(job.id)
    wanted = decision.layout.workers_of(job.id)
    because = reasons.of(job)
    words = f"{because.why}: {because.sentence}"
    sizes = (str(job.size), str(grant.workers if grant else 0), str(_elastic(wanted)))
    return (job.id, *sizes, _where(wanted, job) or "-", words)


def _looked_at(move: ConsideredMove) -> tuple[str, ...]:
    worker, because = move.worker, move.because
    gain = f"; saves {move.benefit_s:.1f} s, costs {move.cost_s:.1f} s" if move.benefit_s or move.cost_s else ""
    words = f"{because.why}: {because.sentence}{gain}"
    return (move.by, f"{move.job_id} {worker.role} {worker.ordinal}", worker.node, move.to or "(stays)", words)


def _plan(view: Snapshot, decision: Decision, strong: Emphasis) -> str:
    if not decision.steps:
        return "Nothing to do: the cluster is as it should be."
    jobs = view.by_id
    held = {job.id: job.workers for job in view.jobs}
    lines = []
    for number, step in enumerate(decision.steps, start=1):
        when = "once the workers told to go are gone" if step.after_release else "at once"
        lines.append(strong(f"step {number}, {when}"))
        for action in step.actions:
            lines.append("  " + _told(action, jobs[action.job_id], held[action.job_id]))
            held[action.job_id] = action.to
    return "\n".join(lines)


def _told(action: Action, job: Job, before: tuple[Worker, ...]) -> str:
    verb = "grow" if isinstance(action, Grow) else "shrink"
    sizes = f"{_elastic(before)} -> {_elastic(action.to)}"
    where = f" on {_where(action.to, job)}" if action.to else ""
    return f"{verb} {action.job_id} {sizes}{where} ({action.because.why})"


def _elastic(workers: Iterable[Worker]) -> int:
    return sum(worker.role is Role.WORKER for worker in workers)


def _where(workers: Iterable[Worker], job: Job) -> str:
    """Places with how many workers are there: `n1 x4, n2 x2, ps n1`. A card matters where it is shared: `n1/GPU-0`."""
    shares = job.spec.request.shares_gpu
    counts = Counter((_rank(worker), _place(worker, by_card=shares)) for worker in workers)
    return ", ".join(f"{place} x{count}" if count > 1 else place for (_, place), count in sorted(counts.items()))


def _rank(worker: Worker) -> bool:
    """Elastic workers first."""
    return worker.role is not Role.WORKER


def _place(worker: Worker, *, by_card: bool) -> str:
    place = f"{worker.node}/{'+'.join(worker.devices)}" if by_card and worker.devices else str(worker.node)
    return place if worker.role is Role.WORKER else f"{worker.role} {place}"
