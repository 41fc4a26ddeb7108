"""Nodes to run a trace on: so many alike, or from the cluster files of Tiresias and Alibaba."""

import csv
from pathlib import Path
from typing import Any

from sterna.model.errors import InvalidRequest
from sterna.model.ids import NodeId
from sterna.model.nodes import Node, cards
from sterna.model.resources import WHOLE_GPU_MILLI, Resources
from sterna.wire.traces.cells import Cells
from sterna.wire.traces.trace_reading import header, opened

NODES_LIMIT = 100_000
GPUS_LIMIT = 1024  # of one node
MIB, GIB = 1 << 20, 1 << 30
UNNAMED_GPU = "gpu"  # the type of GPUs whose type is not known

TIRESIAS_COLUMNS = ("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node")
ALIBABA_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


def uniform_nodes(
    count: int,
    gpus_per_node: int,
    *,
    cpus_per_node: int = 128,
    memory_gib_per_node: int = 1024,
    accelerator: str = UNNAMED_GPU,
) -> tuple[Node, ...]:
    """Nodes that are all alike: node-000, node-001, ..."""
    _require("nodes", count, least=1, most=NODES_LIMIT)
    _require("gpus per node", gpus_per_node, least=0, most=GPUS_LIMIT)
    room = Resources(cpus_per_node * 1000, memory_gib_per_node * GIB, gpus_per_node * WHOLE_GPU_MILLI)
    width = max(3, len(str(count - 1)))
    devices = cards(gpus_per_node)
    return tuple(
        Node(
            id=NodeId(f"node-{number:0{width}}"),
            allocatable=room,
            accelerator=accelerator if gpus_per_node else "",
            devices=devices,
        )
        for number in range(count)
    )


def read_cluster(path: str | Path) -> tuple[Node, ...]:
    """The nodes in a cluster file, by its columns. Unlike a trace, a cluster with a bad row is refused."""
    path = Path(path)
    with opened(path, what="cluster") as lines:
        reader = csv.reader(lines)
        columns = header(reader, what="cluster")
        rows = _rows(reader)
    if all(column in columns for column in TIRESIAS_COLUMNS):
        return _tiresias(rows, columns)
    if all(column in columns for column in ALIBABA_COLUMNS):
        return _alibaba(rows, columns)
    expected = f"{', '.join(TIRESIAS_COLUMNS)} (Tiresias) or {', '.join(ALIBABA_COLUMNS)} (Alibaba)"
    raise InvalidRequest(field="cluster: columns", value=", ".join(columns), expected=expected)


def _rows(reader: Any) -> list[tuple[int, list[str]]]:
    try:
        return [(reader.line_num, values) for values in reader if values]
    except csv.Error as error:
        raise InvalidRequest(field="cluster", value=f"line {reader.line_num}", expected=f"CSV ({error})") from error


def _tiresias(rows: list[tuple[int, list[str]]], columns: dict[str, int]) -> tuple[Node, ...]:
    """One line describes all nodes; memory is in GiB."""
    if len(rows) != 1:
        raise InvalidRequest(field="cluster", value=f"{len(rows)} rows", expected="one row below the header")
    cells = Cells(columns)
    cells.load(rows[0][1], number=0, line=rows[0][0])
    return uniform_nodes(
        cells.whole("num_switch") * cells.whole("num_node_p_switch"),
        cells.whole("num_gpu_p_node"),
        cpus_per_node=cells.whole("num_cpu_p_node"),
        memory_gib_per_node=cells.whole("mem_p_node"),
    )


def _alibaba(rows: list[tuple[int, list[str]]], columns: dict[str, int]) -> tuple[Node, ...]:
    _require("nodes", len(rows), least=1, most=NODES_LIMIT)
    cells = Cells(columns)
    nodes: list[Node] = []
    for number, (line, values) in enumerate(rows):
        cells.load(values, number=number, line=line)
        gpus = cells.whole("gpu", at_most=GPUS_LIMIT)
        room = Resources(cells.whole("cpu_milli"), cells.whole("memory_mib") * MIB, gpus * WHOLE_GPU_MILLI)
        accelerator = (cells.text("model") or UNNAMED_GPU) if gpus else ""
        name = NodeId(cells.text("sn") or f"node-{number:06}")
        nodes.append(Node(id=name, allocatable=room, accelerator=accelerator, devices=cards(gpus)))
    return tuple(nodes)


def _require(field: str, value: int, *, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidRequest(field=field, value=value, expected=f"from {least} to {most}")
