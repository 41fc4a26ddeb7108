"""A rebalancer as data: its facts and its options, for lists, JSON and the reference pages."""

from typing import Any

from sterna.interfaces.reports.policy_list import option_facts
from sterna.placement.rebalancers.registry import COMMON, RebalancerEntry


def rebalancer_facts(entry: RebalancerEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "summary": entry.summary,
        "options": [*_prefixed(entry.name, entry.options), *common_facts()],
    }


def common_facts() -> list[dict[str, str]]:
    """What all rebalancers share."""
    return [fact for group, options in COMMON.items() for fact in _prefixed(group, options)]


def _prefixed(group: str, options: type[Any]) -> list[dict[str, str]]:
    """Options as they are typed: `specon.round-s`."""
    return [{**fact, "name": f"{group}.{fact['name']}"} for fact in option_facts(options)]
