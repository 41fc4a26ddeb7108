"""A decision as short lines for people: what golden traces are made of, and what a reviewer reads when one changes.

    t=120 grow job-003 2->4 [n1 n1 n2 n2] SpareRoom

Elastic workers are counted; workers of fixed roles stand in the list with their role. Numbers of a reason are left
out, because they move with every constant, and so would every golden file.
"""

from collections.abc import Iterator

from sterna.model.ids import JobId
from sterna.model.jobs import Role, Worker
from sterna.model.plan import Decision, Grow
from sterna.model.snapshot import Snapshot


def golden_lines(view: Snapshot, decision: Decision) -> Iterator[str]:
    """One line for each action, in the order of the plan."""
    holds: dict[JobId, tuple[Worker, ...]] = {job.id: job.workers for job in view.jobs}
    for step in decision.steps:
        when = " after release" if step.after_release else ""
        for action in step.actions:
            verb = "grow" if isinstance(action, Grow) else "shrink"
            sizes = f"{_elastic(holds.get(action.job_id, ()))}->{_elastic(action.to)}"
            places = " ".join(map(_place, action.to))
            yield f"t={_short(view.now_s)} {verb} {action.job_id} {sizes} [{places}] {action.because.why}{when}"
            holds[action.job_id] = action.to


def _elastic(workers: tuple[Worker, ...]) -> int:
    return sum(worker.role is Role.WORKER for worker in workers)


def _place(worker: Worker) -> str:
    node = f"{worker.node}/{'+'.join(worker.devices)}" if worker.devices else str(worker.node)
    return node if worker.role is Role.WORKER else f"{worker.role}:{node}"


def _short(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".")
