"""All rebalancers by name, with their options, and the one that joins those that are asked for.

Options are spelled `specon.round-s=30`, or plainly `round-s=30` where only one of those in play has such an option.
`budget` and `cost` hold what all of them share.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, NamedTuple

from sterna.model.considering import ConsideredMove
from sterna.model.errors import InvalidRequest
from sterna.model.layout import Layout
from sterna.model.options import parse_options
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.placement.rebalancers.budget import BudgetOptions, Ledger
from sterna.placement.rebalancers.cost import CostOptions
from sterna.placement.rebalancers.defragment import DefragmentOptions, defragment
from sterna.placement.rebalancers.drain import DrainOptions, drain
from sterna.placement.rebalancers.imbalance import ImbalanceOptions, imbalance
from sterna.placement.rebalancers.rounds import Answer, Question, made
from sterna.placement.rebalancers.scene import Scene
from sterna.placement.rebalancers.specon import SpeconOptions, specon
from sterna.placement.rebalancing import MEMORY, Rebalanced


class RebalancerEntry(NamedTuple):
    name: str
    propose: Callable[[Question, Any], Answer]
    options: type[Any]
    summary: str  # one line, for lists


REBALANCERS: tuple[RebalancerEntry, ...] = (
    RebalancerEntry(
        name="specon",
        propose=specon,
        options=SpeconOptions,
        summary="converged work leaves the most contended node, one move in a round",
    ),
    RebalancerEntry(
        name="imbalance",
        propose=imbalance,
        options=ImbalanceOptions,
        summary="workers leave nodes that are loaded far above the mean",
    ),
    RebalancerEntry(
        name="defragment",
        propose=defragment,
        options=DefragmentOptions,
        summary="the fewest moves that make room for the largest waiting job, or that empty a node",
    ),
    RebalancerEntry(
        name="drain",
        propose=drain,
        options=DrainOptions,
        summary="work leaves nodes that take no new work, as long as there is room elsewhere",
    ),
)

COMMON: Mapping[str, type[Any]] = {"budget": BudgetOptions, "cost": CostOptions}  # what all rebalancers share


@dataclass(frozen=True, slots=True)
class Rebalancers:
    """The ones that were asked for, one after the other, each on what the one before it made. A `Rebalancing`."""

    chosen: tuple[tuple[RebalancerEntry, Any], ...]  # with their options
    budget: BudgetOptions
    cost: CostOptions
    settings: Mapping[str, str]  # as they were typed: what a journal writes down

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry, _ in self.chosen)

    def __call__(self, view: Snapshot, layout: Layout) -> Rebalanced:
        ledger = Ledger(view.jobs, view.memory.jobs, view.now_s)
        values: dict[str, float] = {}
        considered: list[ConsideredMove] = []
        wakes: list[float] = []
        for entry, options in self.chosen:
            prefix = f"{MEMORY}{entry.name}/"
            own = {key.removeprefix(prefix): v for key, v in view.memory.values.items() if key.startswith(prefix)}
            question = Question(Scene(view, layout), self.cost, self.budget, ledger, own)
            answer = entry.propose(question, options)
            layout, lines, kept = made(question, answer, by=entry.name)
            considered += lines
            values |= {prefix + key: value for key, value in kept.items()}
            if answer.wake_s is not None:
                wakes.append(answer.wake_s)
        memory = PolicyMemory(ledger.kept(self.budget), values)
        return Rebalanced(layout, memory, tuple(considered), min(wakes, default=None))


def rebalancing(names: Sequence[str], settings: Mapping[str, str] | None = None) -> Rebalancers:
    """The rebalancers of these names, in this order, with options from text. Unknown ones say what there is."""
    entries = [rebalancer_entry(name) for name in dict.fromkeys(names)]
    if not entries:
        raise InvalidRequest(field="rebalance", value="", expected="one or more of: " + _all_names())
    groups: dict[str, type[Any]] = {**{entry.name: entry.options for entry in entries}, **COMMON}
    own: dict[str, dict[str, str]] = {name: {} for name in groups}
    for key, text in (settings or {}).items():
        group, name = _place(key, groups)
        own[group][name] = text
    parsed = {
        name: parse_options(options, own[name], of=f"rebalancer {name}" if name not in COMMON else name)
        for name, options in groups.items()
    }
    chosen = tuple((entry, parsed[entry.name]) for entry in entries)
    return Rebalancers(chosen, parsed["budget"], parsed["cost"], dict(settings or {}))


def rebalancer_entry(name: str) -> RebalancerEntry:
    by_name = {entry.name: entry for entry in REBALANCERS}
    folded = name.strip().lower()
    if folded in by_name:
        return by_name[folded]
    close = get_close_matches(folded, by_name, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise InvalidRequest(field="rebalance", value=name, expected=f"one of: {_all_names()}{hint}")


def _all_names() -> str:
    return ", ".join(entry.name for entry in REBALANCERS)


def _place(key: str, groups: Mapping[str, type[Any]]) -> tuple[str, str]:
    """The group of an option and its own name: from `specon.round-s`, or from `round-s` where no other group has it."""
    group, dot, name = key.partition(".")
    if dot:
        if group in groups:
            return group, name
        raise InvalidRequest(field="rebalance setting", value=key, expected="one of: " + ", ".join(_spellings(groups)))
    holders = [each for each, options in groups.items() if key.replace("-", "_") in {f.name for f in fields(options)}]
    if len(holders) == 1:
        return holders[0], key
    if holders:
        which = " or ".join(f"{each}.{key}" for each in holders)
        raise InvalidRequest(field="rebalance setting", value=key, expected=f"{which}: more than one has it")
    raise InvalidRequest(field="rebalance setting", value=key, expected="one of: " + ", ".join(_spellings(groups)))


def _spellings(groups: Mapping[str, type[Any]]) -> list[str]:
    return [f"{each}.{option.name.replace('_', '-')}" for each, options in groups.items() for option in fields(options)]
