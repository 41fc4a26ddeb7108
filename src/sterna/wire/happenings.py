"""Scenario files: CSV lists of what happens to nodes, and of serving pods that come and go. Read whole or refused."""

import csv
from collections import Counter
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TypeVar

from sterna.model.errors import InvalidRequest
from sterna.model.happenings import NodeChange, NodeEvent, ServingPod
from sterna.model.ids import NodeId
from sterna.model.nodes import Node
from sterna.model.quantities import cpu_milli, gpu_milli, memory_bytes
from sterna.model.resources import Resources
from sterna.wire.traces.trace_reading import opened

T = TypeVar("T")

NODE_EVENT_COLUMNS = ("at_s", "change", "node")
SERVING_COLUMNS = ("id", "at_s", "lasts_s", "gpus", "cpus", "memory")


def read_node_events(path: str | Path, *, like: Node) -> tuple[NodeEvent, ...]:
    """Columns `at_s,change,node`. A node that is added looks like `like` but for its name."""

    def event(row: dict[str, str], where: str) -> NodeEvent:
        try:
            change = NodeChange(row["change"])
        except ValueError:
            expected = "one of: " + ", ".join(NodeChange)
            raise InvalidRequest(field=f"{where}: change", value=row["change"], expected=expected) from None
        node_id = NodeId(row["node"])
        added = Node(id=node_id, allocatable=like.allocatable, accelerator=like.accelerator, devices=like.devices)
        return NodeEvent(_seconds(row, "at_s", where), change, node_id, added if change is NodeChange.ADDED else None)

    return _read(path, NODE_EVENT_COLUMNS, event, what="node events")


def read_serving(path: str | Path) -> tuple[ServingPod, ...]:
    """Columns `id,at_s,lasts_s,gpus,cpus,memory`; quantities as in Kubernetes, empty for none."""

    def pod(row: dict[str, str], where: str) -> ServingPod:
        request = Resources(
            cpu_milli(row["cpus"] or "0", field=f"{where}: cpus"),
            memory_bytes(row["memory"] or "0", field=f"{where}: memory"),
            gpu_milli(row["gpus"] or "0", field=f"{where}: gpus"),
        )
        return ServingPod(row["id"], _seconds(row, "at_s", where), _seconds(row, "lasts_s", where), request)

    pods = _read(path, SERVING_COLUMNS, pod, what="serving pods")
    if twice := [name for name, times in Counter(pod.id for pod in pods).items() if times > 1]:
        raise InvalidRequest(field="serving pods: id", value=twice[0], expected="each id once")
    return pods


def _read(
    path: str | Path, columns: tuple[str, ...], make: Callable[[dict[str, str], str], T], *, what: str
) -> tuple[T, ...]:
    with opened(Path(path), what=what) as lines:
        reader = csv.DictReader(lines)
        if any(column not in (reader.fieldnames or ()) for column in columns):
            seen = ", ".join(reader.fieldnames or ())
            raise InvalidRequest(field=f"{what}: columns", value=seen, expected=", ".join(columns))
        return tuple(
            make({column: (row[column] or "").strip() for column in columns}, f"{what}: line {reader.line_num}")
            for row in reader
        )


def _seconds(row: dict[str, str], column: str, where: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = -1.0
    if not isfinite(value) or value < 0:
        raise InvalidRequest(field=f"{where}: {column}", value=row[column], expected="seconds, 0 or more")
    return value
