"""First in, first out. Sizes jobs, nothing more: where their workers go is placement's question.

Sources: Voda's FIFO (order by submission, the minimum or nothing, later jobs may skip ahead), the `fifo` and `fjf` of
Tiresias' simulator and the FIFO of AFS' simulator (a job that holds workers keeps its seat; the whole request).

Departures: sizes honour `workers_step`; ties end in the job's id, where Voda's depended on map order. With `strict`, a
head that is larger than the whole pool is passed over, where Tiresias' would wait for ever.
"""

from dataclasses import dataclass
from enum import StrEnum

from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.model.why import NO_ROOM, Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import SIZES, Size, by_seat, whole_or_nothing


class Order(StrEnum):
    SUBMISSION = "submission"
    SEAT = "seat"  # running jobs keep their places ahead of waiting ones: nothing is ever preempted


@dataclass(frozen=True, slots=True)
class FifoOptions:
    order: Order = option(Order.SUBMISSION, "submission: as Voda; seat: running jobs first, so none is preempted")
    size: Size = option(Size.MIN, "what a job gets: its min (Voda), its initial size (rigid requests), or its max")
    strict: bool = option(False, "true: the first job that does not fit blocks all behind it")


def first_in_first_out(view: Snapshot, options: FifoOptions) -> Target:
    order = by_seat(view) if options.order is Order.SEAT else None
    grants, _ = whole_or_nothing(view, SIZES[options.size], order, strict=options.strict)
    otherwise = _BEHIND_HEAD if options.strict else NO_ROOM
    return Target(grants, memory=view.memory, whole=options.size, otherwise=otherwise)


_BEHIND_HEAD = Because(Why.BEHIND_HEAD)
