"""Records of nodes and events that every interface shows, the same in every engine, and how moments are written there.

Records about a job are in `lifecycle/`, which knows no calendar: it is handed `moment`.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sterna.lifecycle.job_record import Record, gpus_of
from sterna.model.nodes import Node
from sterna.model.resources import WHOLE_GPU_MILLI, Resources

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at_s: float | None) -> str | None:
    """ISO 8601 in UTC, to the millisecond."""
    if at_s is None:
        return None
    at = _BEGINNING + timedelta(microseconds=round(at_s * 1e6))
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def node_record(
    node: Node,
    *,
    used: Resources,
    workers: Iterable[str],
    limits: Iterable[str],
    schedulable: bool,
    virtual: bool = False,
    measured: Resources | None = None,
) -> Record:
    """`limits` say what is enforced there and what is not known. `measured` None: the engine does not keep it."""
    room = node.allocatable
    return {
        "name": node.id,
        "labels": dict(node.labels),
        "ready": node.ready,
        "schedulable": schedulable,
        "virtual": virtual,
        "accelerator": node.accelerator,
        "cpuMilli": room.cpu_milli,
        "memoryBytes": room.memory_bytes,
        "gpus": room.gpu_milli // WHOLE_GPU_MILLI,
        "used": {"cpuMilli": used.cpu_milli, "memoryBytes": used.memory_bytes, "gpus": gpus_of(used)},
        "measured": None
        if measured is None
        else {"cpuMilli": measured.cpu_milli, "memoryBytes": measured.memory_bytes},
        "workers": list(workers),
        "limits": "; ".join(filter(None, limits)),
    }


def event_record(
    number: int,
    *,
    at_s: float | None,
    job: str | None,
    node: str | None,
    type_: str,
    reason: str,
    message: str,
    data: Mapping[str, Any],
) -> Record:
    """`number` rises with every event, so that a reader that follows by number misses nothing."""
    return {
        "id": number,
        "at": moment(at_s),
        "job": job,
        "node": node,
        "type": type_,
        "reason": reason,
        "message": message,
        "data": dict(data),
    }
