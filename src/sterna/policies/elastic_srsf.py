"""Shortest remaining service first, each job as large as what is left allows. Sizes jobs, nothing more.

Source: the SRSF_ELASTIC of AFS' simulator: the order of SRSF at the maximum; each takes its maximum or what is left.

Departures: those of `srsf`; what is left is rounded down to a size that the job may have, and a job whose minimum does
not fit is passed over.
"""

from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import NoOptions
from sterna.policies.sharing import ascending, fill_in_order, largest_size
from sterna.policies.srsf import services_left


def elastic_shortest_remaining_service_first(view: Snapshot, options: NoOptions) -> Target:
    order = ascending(services_left(view, largest_size))
    return Target(fill_in_order(view, order), memory=view.memory)
