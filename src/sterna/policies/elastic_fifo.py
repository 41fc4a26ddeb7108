"""First in, first out, with jobs that stretch into whatever room is left. Sizes jobs, nothing more.

Sources: Voda's ElasticFIFO (`variant=voda`: minimums by submission with skipping, then one worker each in turn) and
the FIFO_ELASTIC of AFS' simulator (`variant=afs`: a job that holds workers keeps its seat, each takes all it can).

Departures: Voda's second phase could hand a single worker to a job that had failed to get its minimum; here such a job
gets nothing. AFS knows neither minimum nor step; here what is left is rounded down to a size that the job may have.
"""

from dataclasses import dataclass
from enum import StrEnum

from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import option
from sterna.policies.sharing import (
    by_seat,
    fill_in_order,
    granted,
    smallest_size,
    spread_spare_room,
    whole_or_nothing,
)


class Variant(StrEnum):
    VODA = "voda"
    AFS = "afs"


@dataclass(frozen=True, slots=True)
class ElasticFifoOptions:
    variant: Variant = option(
        Variant.VODA, "voda: minimums by submission, then spare room in turn; afs: by seat, each as much as is left"
    )


def elastic_first_in_first_out(view: Snapshot, options: ElasticFifoOptions) -> Target:
    if options.variant is Variant.AFS:
        return Target(fill_in_order(view, by_seat(view)), memory=view.memory)
    grants, room = whole_or_nothing(view, smallest_size)
    spread_spare_room(granted(view, grants), grants, room, view.currency)
    return Target(grants, memory=view.memory)
