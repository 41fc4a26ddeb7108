"""All policies by name, with options and default placement: the one list that the CLI, the docs and tests read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from sterna.model.errors import InvalidRequest
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.policies.afs_l import AfsLOptions, afs_l
from sterna.policies.dragon import DragonOptions, dragon
from sterna.policies.elastic_fifo import ElasticFifoOptions, elastic_first_in_first_out
from sterna.policies.elastic_srjf import elastic_shortest_remaining_first
from sterna.policies.elastic_srsf import elastic_shortest_remaining_service_first
from sterna.policies.elastic_tiresias import ElasticTiresiasOptions, elastic_tiresias
from sterna.policies.ffdl import FfdlOptions, ffdl
from sterna.policies.fifo import FifoOptions, first_in_first_out
from sterna.policies.las import LasOptions, least_attained_service
from sterna.policies.max_min import max_min
from sterna.policies.optimus import optimus
from sterna.policies.options import NoOptions, parse_options
from sterna.policies.srjf import shortest_remaining_first
from sterna.policies.srsf import SrsfOptions, shortest_remaining_service_first
from sterna.policies.srtf import SrtfOptions, shortest_remaining_time_first
from sterna.policies.tiresias import TiresiasOptions, tiresias


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    name: str
    size: Callable[[Snapshot, Any], Target]
    options: type[Any]
    summary: str  # one line, for lists
    elastic: bool  # may a job get any size between its minimum and maximum?
    needs_speed: bool = False  # does it look at speed-up curves or remaining time?
    aliases: tuple[str, ...] = ()  # what users of Voda and of published simulators type
    presets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # aliases that stand for options, too
    placement: str = "packed"  # what goes with it unless another is asked for; its options may say otherwise

    @property
    def spellings(self) -> tuple[str, ...]:
        return (self.name, *self.aliases, *self.presets)


@dataclass(frozen=True, slots=True)
class Policy:
    """An entry with its options filled in: a pure function from snapshot to target."""

    entry: PolicyEntry
    options: Any

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def placement(self) -> str:
        """The placement that goes with this policy as it is set."""
        where: str = getattr(self.options, "placement", self.entry.placement)
        return where

    def __call__(self, view: Snapshot) -> Target:
        return self.entry.size(view, self.options)


ENTRIES: tuple[PolicyEntry, ...] = (
    PolicyEntry(
        name="fifo",
        size=first_in_first_out,
        options=FifoOptions,
        summary="first in, first out; later jobs may skip ahead of one that does not fit",
        elastic=False,
        presets={"fjf": {"order": "seat", "size": "initial"}},
    ),
    PolicyEntry(
        name="elastic-fifo",
        size=elastic_first_in_first_out,
        options=ElasticFifoOptions,
        summary="first in, first out at the minimum; spare room goes round in turn",
        elastic=True,
        presets={"FIFO_ELASTIC": {"variant": "afs"}},
    ),
    PolicyEntry(
        name="srjf",
        size=shortest_remaining_first,
        options=NoOptions,
        summary="shortest remaining job first, counted on one worker; the minimum or nothing",
        elastic=False,
        needs_speed=True,
    ),
    PolicyEntry(
        name="elastic-srjf",
        size=elastic_shortest_remaining_first,
        options=NoOptions,
        summary="shortest remaining job first at the minimum; spare room goes round in turn",
        elastic=True,
        needs_speed=True,
    ),
    PolicyEntry(
        name="srtf",
        size=shortest_remaining_time_first,
        options=SrtfOptions,
        summary="shortest remaining time first, each job at its whole size or not at all",
        elastic=False,
        needs_speed=True,
        aliases=("shortest",),
    ),
    PolicyEntry(
        name="srsf",
        size=shortest_remaining_service_first,
        options=SrsfOptions,
        summary="least remaining GPU time first, each job at its whole size or not at all",
        elastic=False,
        needs_speed=True,
        aliases=("shortest-gpu",),
    ),
    PolicyEntry(
        name="elastic-srsf",
        size=elastic_shortest_remaining_service_first,
        options=NoOptions,
        summary="least remaining GPU time first, each job with as much as is left",
        elastic=True,
        needs_speed=True,
        aliases=("SRSF_ELASTIC",),
    ),
    PolicyEntry(
        name="max-min",
        size=max_min,
        options=NoOptions,
        summary="equal shares, one worker at a time in turn",
        elastic=True,
    ),
    PolicyEntry(
        name="optimus",
        size=optimus,
        options=NoOptions,
        summary="each next worker where it shortens the remaining time most",
        elastic=True,
        needs_speed=True,
    ),
    PolicyEntry(
        name="afs-l",
        size=afs_l,
        options=AfsLOptions,
        summary="short jobs first unless a longer one makes much better use of the next worker",
        elastic=True,
        needs_speed=True,
        aliases=("Opt2Jobs",),
    ),
    PolicyEntry(
        name="tiresias",
        size=tiresias,
        options=TiresiasOptions,
        summary="queues that a job sinks through as it is served and rises from while it waits",
        elastic=False,
    ),
    PolicyEntry(
        name="elastic-tiresias",
        size=elastic_tiresias,
        options=ElasticTiresiasOptions,
        summary="tiresias, and spare room goes step by step to the best gain",
        elastic=True,
        needs_speed=True,
    ),
    PolicyEntry(
        name="ffdl",
        size=ffdl,
        options=FfdlOptions,
        summary="the sizes with the greatest sum of speed-ups, for as many jobs as fit at their minimum",
        elastic=True,
        needs_speed=True,
        aliases=("FfDLOptimizer",),
    ),
    PolicyEntry(
        name="dragon",
        size=dragon,
        options=DragonOptions,
        summary="first in, first out by what fits on nodes; room is made for the overdue, idle room is grown into",
        elastic=True,
        placement="dragon",
    ),
    PolicyEntry(
        name="las",
        size=least_attained_service,
        options=LasOptions,
        summary="least attained GPU time first, in queues as published simulators have them",
        elastic=False,
        presets={"dlas-gpu": {"demote": "jump"}},
    ),
)


def policy(name: str, settings: Mapping[str, str] | None = None) -> Policy:
    """The policy of this name (Voda's spellings too), with options from text. Unknown names say what there is."""
    found = _BY_SPELLING.get(_fold(name))
    if found is None:
        raise InvalidRequest(field="policy", value=name, expected=_what_would_do(name))
    entry, preset = found
    return Policy(entry, parse_options(entry.options, {**preset, **(settings or {})}, of=f"policy {entry.name}"))


def _fold(name: str) -> str:
    """`ElasticFIFO`, `elastic-fifo` and `elastic_fifo` are one name."""
    return name.strip().lower().replace("_", "").replace("-", "")


def _what_would_do(name: str) -> str:
    names = "one of: " + ", ".join(entry.name for entry in ENTRIES)
    close = get_close_matches(_fold(name), _BY_SPELLING, n=1)
    return f"{names} (did you mean {_BY_SPELLING[close[0]][0].name}?)" if close else names


_BY_SPELLING: dict[str, tuple[PolicyEntry, Mapping[str, str]]] = {
    _fold(spelling): (entry, entry.presets.get(spelling, {})) for entry in ENTRIES for spelling in entry.spellings
}
