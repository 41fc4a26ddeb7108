"""Shortest remaining job first, with jobs that stretch into whatever room is left. Sizes jobs, nothing more.

Source: Voda's ElasticSRJF: minimums in the order of SRJF, then one worker each in turn, speed-up not considered.

Departures: those of `srjf`; and Voda's overshot the maximum of rigid jobs and gave single workers to jobs that had
failed to get their minimum. Here a job holds nothing, or something between minimum and maximum on its steps.
"""

from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import NoOptions
from sterna.policies.sharing import ascending, granted, smallest_size, spread_spare_room, whole_or_nothing
from sterna.policies.srjf import single_worker_times


def elastic_shortest_remaining_first(view: Snapshot, options: NoOptions) -> Target:
    grants, room = whole_or_nothing(view, smallest_size, ascending(single_worker_times(view)))
    spread_spare_room(granted(view, grants), grants, room, view.currency)
    return Target(grants, memory=view.memory)
