"""Other bounds for a job, written where its kind and its author's shape have them. Pure: documents in, edits out.

A bound is written where the object already says one: `elasticPolicy`, `min-instances`, Voda's launcher environment,
`workers` of an ElasticJob, our annotations. One that is not stated follows from the number of replicas; where it no
longer may, it becomes an annotation, because adding another field could change what kind of elastic job it is.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.console.finding import Parse
from sterna.model.errors import InvalidRequest, InvariantBroken
from sterna.model.workload import Workload

Path = tuple[str | int, ...]

_MIN, _MAX = (
    ("metadata", "annotations", "sterna.dev/min-workers"),
    ("metadata", "annotations", "sterna.dev/max-workers"),
)
_REPLICAS = {"TFJob": "tfReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}


class Edit(NamedTuple):
    path: Path
    value: Any


class _Places(NamedTuple):
    """Where the object says its sizes now, and where it says a bound that it does not say yet."""

    initial: tuple[Path, ...]
    low: tuple[Path, ...]
    high: tuple[Path, ...]
    new_low: Path = _MIN
    new_high: Path = _MAX


def resized(document: Body, workload: Workload, parse: Parse, *, low: int, high: int) -> tuple[list[Edit], Workload]:
    """What to change so that the job may have from `low` to `high` workers, and how it is read then.

    `InvalidRequest` where that makes no sense for it, worded as by the parser of manifests.
    """
    name = f"job {workload.id}"
    if not 1 <= low <= high:
        expected = f"at least workers.min ({low})" if low >= 1 else "at least 1"
        raise InvalidRequest(field=f"{name}: workers.max", value=high, expected=expected)
    if high > 1 and document["kind"] in _REPLICAS and not _replicas(document):
        expected = "1: it has no Worker, so there is no role of which there may be more"
        raise InvalidRequest(field=f"{name}: workers.max", value=high, expected=expected)
    places = _places(document)
    initial = min(max(workload.workers_initial, low), high)
    edits = [
        *(_edit(document, path, initial) for path in places.initial),
        *(_edit(document, path, low) for path in places.low),
        *(_edit(document, path, high) for path in places.high),
    ]
    for said, new, wanted in ((places.low, places.new_low, low), (places.high, places.new_high, high)):
        if not said and not _follows(_edited(document, edits), places.initial, wanted):
            edits.append(_edit(document, new, wanted))
    edits = [edit for edit in edits if _at(document, edit.path) != edit.value]
    read = parse(_edited(document, edits))
    if (read.workers_min, read.workers_max) != (low, high):
        raise InvariantBroken(f"{name} has {read.workers_min} to {read.workers_max} workers, not {low} to {high}")
    return edits, read


def operations(document: Body, edits: list[Edit], *, resource_version: str) -> list[Body]:
    """A JSON patch; a conflict if it was written since. (To test the version would be answered as an invalid patch.)"""
    steps: list[Body] = [{"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version}]
    made = copy.deepcopy(document)
    for edit in edits:
        for depth in range(1, len(edit.path)):
            parent = edit.path[:depth]
            if _at(made, parent) is None:
                _put(made, parent, {})
                steps.append({"op": "add", "path": _pointer(parent), "value": {}})
        _put(made, edit.path, edit.value)
        steps.append({"op": "add", "path": _pointer(edit.path), "value": edit.value})
    return steps


# -- where sizes are written ------------------------------------------------------------------------------------------


def _places(document: Body) -> _Places:
    kind, spec = document["kind"], document["spec"]
    match kind:
        case "ElasticJob":
            low, high = ("spec", "workers", "min"), ("spec", "workers", "max")
            return _with_own(document, _said(document, ("spec", "workers", "initial")), low, high, in_use=True)
        case "PyTorchJob":
            low, high = ("spec", "elasticPolicy", "minReplicas"), ("spec", "elasticPolicy", "maxReplicas")
            return _with_own(document, _replicas(document), low, high, in_use=bool(spec.get("elasticPolicy")))
        case "TFJob":
            flat = "min-instances" in spec or "max-instances" in spec
            own = ("spec", "min-instances"), ("spec", "max-instances")
            return _with_own(document, _replicas(document), *own, in_use=flat)
    lows, highs = _variables(spec, "MIN_NUM_PROC", "MIN_NP"), _variables(spec, "MAX_NUM_PROC", "MAX_NP")
    replicas = () if lows or highs else _replicas(document)  # beside Voda's bounds they are not read
    initial = _variables(spec, "NUM_PROC", "NP") or replicas
    return _Places(initial, (*lows, *_said(document, _MIN)), (*highs, *_said(document, _MAX)))


def _with_own(document: Body, initial: tuple[Path, ...], low: Path, high: Path, *, in_use: bool) -> _Places:
    """Of a kind that has fields for bounds. `in_use`: this object is of the shape that has them."""
    lows, highs = (*_said(document, low), *_said(document, _MIN)), (*_said(document, high), *_said(document, _MAX))
    return _Places(initial, lows, highs, low, high) if in_use else _Places(initial, lows, highs)


def _said(document: Body, path: Path) -> tuple[Path, ...]:
    return () if _at(document, path) is None else (path,)


def _replicas(document: Body) -> tuple[Path, ...]:
    """Of the Worker, as its author spells it. None: the job has no role of which there may be more."""
    for name, role in _roles(document["spec"], document["kind"]):
        if name.lower() == "worker" and isinstance(role, Mapping):
            return (("spec", _REPLICAS[document["kind"]], name, "replicas"),)
    return ()


def _variables(spec: Body, *names: str) -> tuple[Path, ...]:
    """The first of these that the launcher's environment has, in every container that has it."""
    for wanted in names:
        found = tuple(path for path, variable in _environment(spec) if variable.get("name") == wanted)
        if found:
            return found
    return ()


def _environment(spec: Body) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for name, _ in _roles(spec, "MPIJob"):
        if name.lower() != "launcher":
            continue
        path: Path = ("spec", "mpiReplicaSpecs", name, "template", "spec", "containers")
        for number, container in enumerate(_at({"spec": spec}, path) or ()):
            for index, variable in enumerate(container.get("env") or ()):
                yield (*path, number, "env", index, "value"), variable


def _roles(spec: Body, kind: str) -> list[tuple[str, Any]]:
    return list((spec.get(_REPLICAS[kind]) or {}).items())


# -- edits ------------------------------------------------------------------------------------------------------------


def _edit(document: Body, path: Path, workers: int) -> Edit:
    """Numbers, except in annotations, and in the environment, where processes are counted."""
    if path[0] == "metadata":
        return Edit(path, str(workers))
    if path[-1] == "value":
        return Edit(path, str(workers * int(document["spec"].get("slotsPerWorker") or 1)))
    return Edit(path, workers)


def _follows(document: Body, initial: tuple[Path, ...], wanted: int) -> bool:
    """Does a bound that is not stated have the wanted value? It is the initial number, which is 1 by default."""
    return all(_number(document, path) == wanted for path in initial) if initial else wanted == 1


def _number(document: Body, path: Path) -> int:
    value = int(_at(document, path) or 1)
    return value // int(document["spec"].get("slotsPerWorker") or 1) if path[-1] == "value" else value


def _edited(document: Body, edits: list[Edit]) -> Body:
    made = copy.deepcopy(document)
    for path, value in edits:
        _put(made, path, value)
    return made


def _at(document: Any, path: Path) -> Any:
    """None: there is nothing."""
    here = document
    for part in path:
        if isinstance(here, Mapping):
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            return None
    return here


def _put(document: Any, path: Path, value: Any) -> None:
    here = document
    for part in path[:-1]:
        if isinstance(here, dict) and here.get(part) is None:
            here[part] = {}
        here = here[part]
    here[path[-1]] = value


def _pointer(path: Path) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
