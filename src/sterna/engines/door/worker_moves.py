"""Whether a worker that is asked to leave its node is moved, and to where. Pure: nothing is asked or written.

container-migration's policy with its defects mended: the target is the node with the lowest score once the worker is
taken off its own, it must have room, the node that the worker is on wins ties, three seconds pass between two moves of
a worker, and none is moved more than three times. A worker's lineage is its role and ordinal, which survive moves.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from sterna.engines.door.answers import Problem, shown
from sterna.engines.door.household import FoundPod
from sterna.engines.door.scores import best_node
from sterna.model.ids import NodeId
from sterna.model.jobs import Role
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot

COOL_DOWN_S = 3.0
MOVES_MAX = 3  # of one worker
POD_MIN = 5  # characters: container-migration reads the last five as the worker's number
NAME_MAX = 253

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_NODE = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?")  # a local engine's nodes are named freely
_KEYS = frozenset({"node", "pod", "namespace"})


class MoveRequest(NamedTuple):
    """`POST /migrate`: the node that the asker sees the pod on, and the pod."""

    node: NodeId
    pod: str
    namespace: str | None = None  # None: whichever has such a pod; container-migration does not say


def read_request(body: bytes) -> MoveRequest:
    """`Problem` 400 names what is wrong with it."""
    try:
        found = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Problem(400, "malformed", f"the body is not JSON: {shown(str(error))}") from None
    if not isinstance(found, dict):
        raise Problem(400, "malformed", 'the body must be an object: {"node": ..., "pod": ...}')
    if unknown := sorted(map(str, found.keys() - _KEYS)):
        raise _wrong(unknown[0], found.get(unknown[0]), "one of the keys node, pod, namespace")
    node = _text(found, "node")
    if not _is_name(_NODE, node):
        raise _wrong("node", node, "the name of a node")
    namespace, slash, pod = _text(found, "pod").rpartition("/")
    if slash and "namespace" in found:
        raise _wrong("pod", found["pod"], "a name without a namespace, which stands beside it")
    if len(pod) < POD_MIN or not _is_name(_NAME, pod):
        raise _wrong("pod", pod, f"the name of a pod: {POD_MIN} to {NAME_MAX} of a-z, 0-9, - and .")
    where = namespace if slash else _text(found, "namespace") if "namespace" in found else None
    if where is not None and not _is_name(_NAME, where):
        raise _wrong("namespace", where, "the name of a namespace")
    return MoveRequest(NodeId(node), pod, where)


def the_one_meant(request: MoveRequest, found: list[FoundPod]) -> FoundPod:
    """The pod. `Problem`: none has the name, only one elsewhere does, or several do."""
    if not found:
        raise Problem(404, "not-found", f"there is no pod {request.pod} that a job of this scheduler runs")
    here = [pod for pod in found if pod.worker.node == request.node]
    if not here:
        nodes = ", ".join(sorted({pod.worker.node or "no node" for pod in found}))
        raise Problem(409, "elsewhere", f"pod {request.pod} is not on {request.node}: it is on {nodes}")
    if len(here) > 1:
        names = ", ".join(sorted(f"{pod.namespace}/{pod.name}" for pod in here))
        raise Problem(409, "ambiguous", f"several pods have this name on {request.node}; say which one: {names}")
    return here[0]


def require_movable(pod: FoundPod, now_s: float) -> None:
    """`Problem`: this one is not moved, or not now."""
    role, ordinal = pod.worker.role, pod.worker.ordinal
    if pod.finished:
        raise Problem(409, "finished", f"job {pod.job_id} has ended: there is nothing to move")
    if role is not Role.WORKER:
        detail = f"pod {pod.name} is the {role} of job {pod.job_id}, and only workers are moved one by one"
        raise Problem(409, "not-a-worker", detail)
    if pod.moves >= MOVES_MAX:
        detail = f"worker {ordinal} of job {pod.job_id} has been moved {pod.moves} times; {MOVES_MAX} are the most"
        raise Problem(409, "moved-enough", detail, moves=pod.moves)
    since_s = math.inf if pod.moved_s is None else now_s - pod.moved_s
    if 0 <= since_s < COOL_DOWN_S:
        left_s = COOL_DOWN_S - since_s
        detail = (
            f"worker {ordinal} of job {pod.job_id} was moved {since_s:.1f} s ago; {COOL_DOWN_S:g} s pass between moves"
        )
        raise Problem(429, "cool-down", detail, retryAfterSeconds=left_s)


def target_of(view: Snapshot, pod: FoundPod, limits: Mapping[NodeId, Resources] | None = None) -> NodeId | None:
    """Where it would go. None: it is best where it is. `Problem`: the job holds no such worker now."""
    job = view.by_id.get(pod.job_id)
    if job is None or pod.worker not in job.workers:
        raise Problem(409, "in-motion", f"job {pod.job_id} is being changed: ask again once it is settled")
    best = best_node(view, job, pod.worker, limits)
    return None if best == pod.worker.node else best


def _text(found: dict[str, object], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str):
        raise _wrong(key, value, "text")
    return value


def _is_name(shape: re.Pattern[str], text: str) -> bool:
    return len(text) <= NAME_MAX and shape.fullmatch(text) is not None


def _wrong(field: str, value: object, expected: str) -> Problem:
    detail = f"{shown(field)}: {shown(repr(value))} is not valid; expected {expected}"
    return Problem(400, "invalid-request", detail, field=shown(field), value=shown(value), expected=expected)


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number of JSON")
