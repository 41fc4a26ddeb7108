"""Shortest remaining job first: the minimum or nothing. Sizes jobs, nothing more.

Source: Voda's SRJF, which orders by the time left on a single worker and lets later jobs skip ahead.

Departures: ties go by submission and id; a job whose work left is unknown goes last, where Voda guessed one second
an epoch and thereby let newcomers of unknown length go first.
"""

from operator import attrgetter

from sterna.model.columns import Floats, Question
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import NoOptions
from sterna.policies.sharing import ascending, smallest_size, times_left, whole_or_nothing


def shortest_remaining_first(view: Snapshot, options: NoOptions) -> Target:
    grants, _ = whole_or_nothing(view, smallest_size, ascending(single_worker_times(view)))
    return Target(grants, memory=view.memory)


_solo: Question = attrgetter("solo")


def single_worker_times(view: Snapshot) -> Floats:
    """Time left of each on one worker; infinite if unknown."""
    return times_left(view) * view.columns.of(_solo)
