"""All policies by name, with options and default placement: the one list that the CLI, the docs and tests read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sterna.model.errors import InvalidRequest
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.fifo import FifoOptions, first_in_first_out
from sterna.policies.options import parse_options


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    name: str
    size: Callable[[Snapshot, Any], Target]
    options: type[Any]
    summary: str  # one line, for lists
    elastic: bool  # may a job get any size between its minimum and maximum?
    needs_speed: bool = False  # does it look at speed-up curves or remaining time?
    aliases: tuple[str, ...] = ()  # what users of Voda and of published simulators type
    placement: str = "packed"  # the placement that goes with it unless another is asked for


@dataclass(frozen=True, slots=True)
class Policy:
    """An entry with its options filled in: a pure function from snapshot to target."""

    entry: PolicyEntry
    options: Any

    @property
    def name(self) -> str:
        return self.entry.name

    def __call__(self, view: Snapshot) -> Target:
        return self.entry.size(view, self.options)


ENTRIES: tuple[PolicyEntry, ...] = (
    PolicyEntry(
        name="fifo",
        size=first_in_first_out,
        options=FifoOptions,
        summary="first in, first out; later jobs may skip ahead of one that does not fit",
        elastic=False,
        aliases=("FIFO", "fjf"),
    ),
)

_BY_NAME: dict[str, PolicyEntry] = {spelling: entry for entry in ENTRIES for spelling in (entry.name, *entry.aliases)}


def policy(name: str, settings: Mapping[str, str] | None = None) -> Policy:
    """The policy of this name (Voda's spellings too), with options from text. Unknown names list what there is."""
    entry = _BY_NAME.get(name) or _BY_NAME.get(_fold(name))
    if entry is None:
        raise InvalidRequest(field="policy", value=name, expected="one of: " + ", ".join(e.name for e in ENTRIES))
    return Policy(entry, parse_options(entry.options, settings or {}, of=f"policy {entry.name}"))


def _fold(name: str) -> str:
    return name.strip().lower().replace("_", "-")
