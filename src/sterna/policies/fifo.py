"""First in, first out. Sizes jobs, nothing more: where their workers go is placement's question.

Sources: Voda's FIFO (order by submission, the minimum or nothing, later jobs may skip ahead), the `fifo` and `fjf` of
Tiresias' simulator and the FIFO of AFS' simulator (a job that holds workers keeps its seat; the whole request).

Departures: sizes honour `workers_step`; ties end in the job's id, where Voda's depended on map order.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot, arrival_order
from sterna.model.target import Target
from sterna.model.why import NO_ROOM, Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import contenders, whole_or_nothing


class Order(StrEnum):
    SUBMISSION = "submission"
    SEAT = "seat"  # whoever runs keeps its place ahead of whoever waits: nothing is ever preempted


class Size(StrEnum):
    MIN = "min"
    INITIAL = "initial"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class FifoOptions:
    order: Order = option(Order.SUBMISSION, "submission: as Voda; seat: running jobs first, so none is preempted")
    size: Size = option(Size.MIN, "what a job gets: its min (Voda), its initial size (rigid requests), or its max")
    strict: bool = option(False, "true: the first job that does not fit blocks all behind it")


def first_in_first_out(view: Snapshot, options: FifoOptions) -> Target:
    order = contenders(view)
    if options.order is Order.SEAT:
        order.sort(key=seat_order)
    grants, _ = whole_or_nothing(order, view.capacity, view.currency, SIZES[options.size], strict=options.strict)
    return Target(grants, memory=view.memory, otherwise=Because(Why.BEHIND_HEAD) if options.strict else NO_ROOM)


def seat_order(job: Job) -> tuple[float, float, str]:
    """AFS' first-come order: by the time a job last went from nothing to something, waiting ones after all others."""
    return (inf if job.started_s is None else job.started_s, *arrival_order(job))


SIZES = {
    Size.MIN: lambda job: job.spec.workers_min,
    Size.INITIAL: lambda job: job.spec.workers_initial,
    Size.MAX: lambda job: job.spec.workers_max,
}
