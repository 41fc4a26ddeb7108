"""What `sterna up` says once it answers: where, with which nodes and policy, and which limits are real."""

import re
from collections.abc import Sequence
from typing import Any

from sterna.interfaces.reports.grid import one_line
from sterna.interfaces.reports.spans import cores, size

Record = dict[str, Any]

_NAMES_SHOWN = 4
_SENTENCES = re.compile(r"\n|; (?![^(]*\))")  # what stands between them; within brackets it is one sentence


def announcement_text(health: Record, nodes: Sequence[Record], policy: Record, *, url: str, home: str) -> str:
    pairs = [
        (f"sterna {health.get('version')}", f"is up at {url}"),
        ("home", home),
        ("nodes", _nodes(nodes)),
        ("policy", _policy(policy)),
        ("rebalance", _rebalance(policy)),
        *(("limits" if first else "", line) for first, line in _limits(health, nodes)),
        ("jobs", _jobs(health.get("jobs") or {})),
        ("problem", one_line(health.get("problem") or "")),
    ]
    width = max(len(name) for name, _ in pairs) + 2
    lines = [f"{name.ljust(width)}{words}" for name, words in pairs if words]
    return "\n".join([*lines, "Submit with `sterna submit -f FILE`; stop with Ctrl-C or `sterna down`."])


def _nodes(nodes: Sequence[Record]) -> str:
    names = ", ".join(one_line(node["name"]) for node in nodes[:_NAMES_SHOWN])
    more = f" and {len(nodes) - _NAMES_SHOWN} more" if len(nodes) > _NAMES_SHOWN else ""
    if not nodes:
        return "none"
    one = nodes[0]
    has = f"{one.get('gpus') or 0:g} GPUs, {cores(one.get('cpuMilli'))} CPUs, {size(one.get('memoryBytes'))}"
    kind = "virtual, " if one.get("virtual") else ""
    return f"{names}{more}: {kind}{'each ' if len(nodes) > 1 else ''}{has}"


def _policy(policy: Record) -> str:
    words = [str(policy.get("policy"))]
    words += [f"{key}={value}" for key, value in sorted((policy.get("settings") or {}).items())]
    if policy.get("placement"):
        words.append(f"placement {policy['placement']}")
    if policy.get("rateLimitSeconds"):
        words.append(f"at most one decision in {policy['rateLimitSeconds']:g} s")
    return ", ".join(words)


def _rebalance(policy: Record) -> str:
    """The rebalancers that move work; empty where there is none."""
    settings = [f"{key}={value}" for key, value in sorted((policy.get("rebalanceSettings") or {}).items())]
    names = list(policy.get("rebalance") or ())
    return ", ".join([*names, *settings]) if names else ""


def _limits(health: Record, nodes: Sequence[Record]) -> list[tuple[bool, str]]:
    """Every sentence once: the engine's, then what nodes add."""
    told = [health.get("limits"), *(node.get("limits") for node in nodes)]
    lines = [one_line(line) for words in told if words for line in _SENTENCES.split(str(words))]
    return [(number == 0, line) for number, line in enumerate(dict.fromkeys(line for line in lines if line))]


def _jobs(counts: Record) -> str:
    there = ", ".join(f"{count} {phase}" for phase, count in sorted(counts.items()) if count)
    return f"found again: {there}" if there else ""
