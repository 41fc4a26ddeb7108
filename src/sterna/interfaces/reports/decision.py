"""One decision for people: what each job holds, what it will hold, where, and why; then the steps, in order."""

from collections import Counter
from collections.abc import Iterable

from sterna.interfaces.reports.tables import Emphasis, aligned
from sterna.model.jobs import Job, Role, Worker
from sterna.model.plan import Action, Decision, Grow
from sterna.model.snapshot import Snapshot


def decision_text(view: Snapshot, decision: Decision, *, policy: str, strong: Emphasis = str) -> str:
    """The answer of `sterna decide`. Jobs in order of submission, so that two runs can be compared line by line."""
    rows = [_row(job, decision) for job in view.jobs]
    parts = [
        f"{policy}: {len(view.jobs)} jobs, {len(view.nodes)} nodes, snapshot {view.revision} at {view.now_s:g} s",
        aligned(("job", "now", "will be", "where", "why"), rows, left=5, strong=strong),
        _plan(view, decision, strong),
    ]
    if decision.wake_s is not None:
        parts.append(f"Look again at {decision.wake_s:g} s at the latest.")
    return "\n\n".join(parts)


def _row(job: Job, decision: Decision) -> tuple[str, str, str, str, str]:
    wanted = decision.layout.workers_of(job.id)
    because = decision.because_of(job.id)
    words = f"{because.why}: {because.sentence}"
    return (job.id, str(job.size), str(_elastic(wanted)), _where(wanted) or "-", words)


def _plan(view: Snapshot, decision: Decision, strong: Emphasis) -> str:
    if not decision.steps:
        return "Nothing to do: the cluster is as it should be."
    held = {job.id: job.workers for job in view.jobs}
    lines = []
    for number, step in enumerate(decision.steps, start=1):
        when = "once the workers told to go are gone" if step.after_release else "at once"
        lines.append(strong(f"step {number}, {when}"))
        for action in step.actions:
            lines.append("  " + _told(action, held[action.job_id]))
            held[action.job_id] = action.to
    return "\n".join(lines)


def _told(action: Action, before: tuple[Worker, ...]) -> str:
    verb = "grow" if isinstance(action, Grow) else "shrink"
    sizes = f"{_elastic(before)} -> {_elastic(action.to)}"
    where = f" on {_where(action.to)}" if action.to else ""
    return f"{verb} {action.job_id} {sizes}{where} ({action.because.why})"


def _elastic(workers: Iterable[Worker]) -> int:
    return sum(worker.role is Role.WORKER for worker in workers)


def _where(workers: Iterable[Worker]) -> str:
    """Nodes with how many workers are there: `n1 x4, n2 x2`."""
    counts = Counter(worker.node for worker in workers)
    return ", ".join(f"{node} x{count}" if count > 1 else node for node, count in sorted(counts.items()))
