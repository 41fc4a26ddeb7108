"""Requests to the simulator in the words of the command line, so that a row can be printed as the command that repeats
it. Only words that benchmarks use are known here.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sterna.compose.simulation_requests import SimulationRequest

_FIELDS: Mapping[str, tuple[str, str]] = {  # topic and field of the request
    "trace": ("trace", "file"),
    "nodes": ("cluster", "nodes"),
    "gpus_per_node": ("cluster", "gpus_per_node"),
    "model": ("model", "name"),
    "profiles": ("model", "profiles"),
    "sizing": ("model", "sizing"),
    "policy": ("rules", "policy"),
    "settings": ("rules", "settings"),
    "placement": ("rules", "placement"),
    "start_cost_s": ("costs", "start_s"),
    "rescale_cost_s": ("costs", "rescale_s"),
    "migrate_cost_s": ("costs", "migrate_s"),
    "interval_s": ("timing", "interval_s"),
    "rate_limit_s": ("timing", "rate_limit_s"),
    "whole_seconds": ("timing", "whole_seconds"),
    "foretells_again": ("timing", "foretells_again"),
}


def request_of(words: Mapping[str, object]) -> SimulationRequest:
    request = SimulationRequest()
    for word, value in words.items():
        topic, field = _FIELDS[word]
        change: dict[str, Any] = {topic: replace(getattr(request, topic), **{field: value})}
        request = replace(request, **change)
    return request
