"""Max-min fairness: no job gets a further worker while one that could use it has fewer. Sizes jobs, nothing more.

Source: the MaxMin of AFS' simulator, which deals single GPUs round robin in first-come order up to each job's maximum.

Departures: a job's first helping is its minimum, later ones are its step; a job whose minimum does not fit is passed
over. With minimum and step 1 that is AFS' rule exactly.
"""

from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import NoOptions
from sterna.policies.sharing import by_seat, granted, smallest_size, spread_spare_room, whole_or_nothing


def max_min(view: Snapshot, options: NoOptions) -> Target:
    grants, room = whole_or_nothing(view, smallest_size, by_seat(view))
    spread_spare_room(granted(view, grants), grants, room, view.currency)
    return Target(grants, memory=view.memory)
