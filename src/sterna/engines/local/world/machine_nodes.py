"""The nodes of one machine: the machine itself, or virtual ones that share it and exist to try things out.

What a node offers is counted by the scheduling core like that of any cluster. What of it is enforced on processes is
another question, which `limits` answers for people. CPUs are enforced: where a virtual node is given a number of
them, its workers have so many together and no more, so that two of them on one node compete.
"""

import importlib
import math
import os
import re
import socket
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil

from sterna.model.errors import InvalidRequest
from sterna.model.ids import DeviceId, NodeId
from sterna.model.nodes import Device, Node, cards
from sterna.model.resources import WHOLE_GPU_MILLI, Resources

VIRTUAL_GPU = "virtual"  # the accelerator of virtual nodes


class ThisMachine(NamedTuple):
    """One node: all CPUs this process may use, all memory, and the GPUs that NVML tells of."""

    name: str | None = None  # None: the host's


@dataclass(frozen=True, slots=True)
class VirtualNodes:
    """So many equal nodes that share the machine. Their GPUs are names; nothing stands behind them."""

    count: int
    gpus_per_node: int = 0
    cpus_per_node: float | None = None  # None: each offers all CPUs of the machine
    memory_bytes_per_node: int | None = None  # None: each offers all memory of the machine


NodeChoice = ThisMachine | VirtualNodes


class OfferedNode(NamedTuple):
    """A node and how much of it is real."""

    node: Node
    virtual: bool
    limits: str  # what is enforced and what is only counted, in a sentence
    cpu_milli: int | None = None  # what all its workers together may use. None: whatever the machine has
    cores: tuple[int, ...] | None = None  # where they run if there is no better way to keep to that. None: anywhere


def offered_nodes(choice: NodeChoice) -> tuple[OfferedNode, ...]:
    if isinstance(choice, ThisMachine):
        return (_this_machine(choice),)
    return _virtual(choice)


def cpus_usable() -> list[int]:
    """Numbers of the CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


def _this_machine(choice: ThisMachine) -> OfferedNode:
    gpus = _gpus_by_nvml()
    kinds = sorted({kind for _, kind in gpus})
    if len(kinds) > 1:
        kinds = ["mixed"]  # one node is one pool
    allocatable = Resources(
        len(cpus_usable()) * 1000,
        psutil.virtual_memory().total,
        len(gpus) * WHOLE_GPU_MILLI,
        sum(device.memory_bytes for device, _ in gpus),
    )
    node = Node(
        id=NodeId(choice.name or _host_name()),
        allocatable=allocatable,
        accelerator=kinds[0] if kinds else "",
        devices=tuple(device for device, _ in gpus),
    )
    seen = "GPUs are given by CUDA_VISIBLE_DEVICES" if gpus else "no GPU was found (NVML)"
    return OfferedNode(node, virtual=False, limits=seen)


def _virtual(choice: VirtualNodes) -> tuple[OfferedNode, ...]:
    if not 1 <= choice.count <= 1000:
        raise InvalidRequest(field="nodes", value=choice.count, expected="between 1 and 1000")
    if not 0 <= choice.gpus_per_node <= 1000:
        raise InvalidRequest(field="gpus per node", value=choice.gpus_per_node, expected="between 0 and 1000")
    cpus = choice.cpus_per_node if choice.cpus_per_node is not None else len(cpus_usable())
    if not 0 < cpus <= 100_000:
        raise InvalidRequest(field="cpus per node", value=cpus, expected="above 0")
    total = psutil.virtual_memory().total
    memory = choice.memory_bytes_per_node if choice.memory_bytes_per_node is not None else total
    if memory < 1:
        raise InvalidRequest(field="memory per node", value=memory, expected="at least a byte")
    allocatable = Resources(int(cpus * 1000), memory, choice.gpus_per_node * WHOLE_GPU_MILLI)
    width = len(str(choice.count))
    said = choice.cpus_per_node is not None
    return tuple(
        OfferedNode(
            Node(
                id=NodeId(f"node-{number:0{width}d}"),
                allocatable=allocatable,
                accelerator=VIRTUAL_GPU if choice.gpus_per_node else "",
                devices=cards(choice.gpus_per_node),
            ),
            virtual=True,
            limits="virtual: shares this machine with the other nodes, its GPUs are names only"
            + (f"; workers of a node have its {cpus:g} CPUs together" if said else ""),
            cpu_milli=allocatable.cpu_milli if said else None,
            cores=_cores_of(number - 1, cpus, cpus_usable()) if said else None,
        )
        for number in range(1, choice.count + 1)
    )


def _cores_of(number: int, cpus: float, usable: list[int]) -> tuple[int, ...] | None:
    """As many whole cores as the node has CPUs, beside those of the node before it; round again where they run out."""
    count = math.ceil(cpus)
    if count >= len(usable):
        return None
    return tuple(sorted(usable[(number * count + place) % len(usable)] for place in range(count)))


def _host_name() -> str:
    return re.sub(r"[^a-z0-9.-]", "-", socket.gethostname().lower()) or "localhost"


def _gpus_by_nvml() -> list[tuple[Device, str]]:
    """GPUs with their kind; none where NVML is missing or does not answer, which is the usual laptop."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return []
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        return [_gpu(nvml, number) for number in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, number: int) -> tuple[Device, str]:
    handle = nvml.nvmlDeviceGetHandleByIndex(number)
    kind = _text(nvml.nvmlDeviceGetName(handle)).strip().replace(" ", "-").lower()
    device = Device(DeviceId(_text(nvml.nvmlDeviceGetUUID(handle))), int(nvml.nvmlDeviceGetMemoryInfo(handle).total))
    return device, kind


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
