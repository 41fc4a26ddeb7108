"""All placements by name. A placement is a pure function: `(Snapshot, Target) -> Layout`."""

from collections.abc import Callable

from sterna.model.errors import InvalidRequest
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.placement.count import count_only
from sterna.placement.dragon import dragon, dragon_balanced, dragon_prototype
from sterna.placement.packed import packed
from sterna.placement.repack import repack, repack_by_lot
from sterna.placement.spread import spread_by_count
from sterna.placement.widest import widest, widest_smallest_first

Placement = Callable[[Snapshot, Target], Layout]

PLACEMENTS: dict[str, Placement] = {
    "packed": packed,
    "repack": repack,
    "repack-by-lot": repack_by_lot,
    "widest": widest,
    "widest-smallest-first": widest_smallest_first,
    "dragon": dragon,
    "dragon-balanced": dragon_balanced,
    "dragon-prototype": dragon_prototype,
    "spread": spread_by_count,
    "count": count_only,
}


def placement(name: str) -> Placement:
    """The placement of this name; an unknown one lists what there is."""
    try:
        return PLACEMENTS[name]
    except KeyError:
        raise InvalidRequest(field="placement", value=name, expected="one of: " + ", ".join(PLACEMENTS)) from None
