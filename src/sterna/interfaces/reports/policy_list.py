"""A policy as data: its facts and its options, for lists, JSON and the reference pages."""

from dataclasses import fields
from enum import StrEnum
from typing import Any

from sterna.policies.options import shown
from sterna.policies.registry import PolicyEntry


def policy_facts(entry: PolicyEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "summary": entry.summary,
        "elastic": entry.elastic,
        "needs_speed": entry.needs_speed,
        "placement": entry.placement,
        "aliases": list(entry.aliases),
        "options": option_facts(entry.options),
    }


def option_facts(options: type[Any]) -> list[dict[str, str]]:
    """Every field of an options dataclass, of a policy's or of a performance model's."""
    return [_option(field) for field in fields(options)]


def _option(field: Any) -> dict[str, str]:
    return {
        "name": field.name.replace("_", "-"),
        "default": shown(field.default),
        "values": _values(field),
        "doc": field.metadata["doc"],
    }


def _values(field: Any) -> str:
    """What may be written there, in words."""
    default, bound = field.default, field.metadata.get("at_least")
    floor = "" if bound is None else f", at least {bound:g}"
    if isinstance(default, bool):
        return "true or false"
    if isinstance(default, StrEnum):
        return ", ".join(type(default))
    if isinstance(default, tuple):
        return "numbers separated by commas" + floor
    return {int: "a whole number", float: "a number"}.get(type(default), "text") + floor
