"""Shortest remaining service first, each job as large as what is left allows. Sizes jobs, nothing more.

Source: the SRSF_ELASTIC of AFS' simulator: the order of SRSF at the maximum; each takes its maximum or what is left.

Departures: those of `srsf`; what is left is rounded down to a size that the job may have, and a job whose minimum does
not fit is passed over.
"""

from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.options import NoOptions
from sterna.policies.sharing import fill_in_order, largest_size
from sterna.policies.srsf import by_remaining_service


def elastic_shortest_remaining_service_first(view: Snapshot, options: NoOptions) -> Target:
    order = by_remaining_service(view, largest_size)
    return Target(fill_in_order(order, view.capacity, view.currency), memory=view.memory)
