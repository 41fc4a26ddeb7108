"""Asking for sizes and reading layouts, in as few words as tests need."""

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.layout import Layout
from sterna.model.target import Grant, Target
from sterna.model.why import NEXT_IN_ORDER


def ask(**sizes: int | tuple[int, int]) -> Target:
    """Grants in this order: `a=4` is four workers or nothing, `a=(4, 1)` four but one would do."""
    grants: dict[JobId, Grant] = {}
    for name, size in sizes.items():
        workers, floor = size if isinstance(size, tuple) else (size, size)
        grants[JobId(name)] = Grant(workers, floor, NEXT_IN_ORDER)
    return Target(grants)


def where(layout: Layout) -> dict[str, list[str]]:
    """The nodes of every job's workers, fixed roles first, then by ordinal."""
    return {job_id: [worker.node for worker in workers] for job_id, workers in layout.workers.items()}


def worker(ordinal: int, on: str, *cards: str, role: Role = Role.WORKER) -> Worker:
    return Worker(role, ordinal, NodeId(on), cards)  # type: ignore[arg-type]


def ps(on: str, ordinal: int = 0) -> Worker:
    return worker(ordinal, on, role=Role.PS)
