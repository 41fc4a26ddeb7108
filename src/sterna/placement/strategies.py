"""All placements by name. A placement is a pure function: `(Snapshot, Target) -> Layout`."""

from collections.abc import Callable

from sterna.model.errors import InvalidRequest
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.placement.count import count_only

Placement = Callable[[Snapshot, Target], Layout]

PLACEMENTS: dict[str, Placement] = {
    "count": count_only,
}


def placement(name: str) -> Placement:
    """The placement of this name; an unknown one lists what there is."""
    try:
        return PLACEMENTS[name]
    except KeyError:
        raise InvalidRequest(field="placement", value=name, expected="one of: " + ", ".join(PLACEMENTS)) from None
