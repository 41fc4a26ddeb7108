"""A snapshot as plain values, the way its file and the journal write it: the counterpart of the shapes that read it.

What equals the reader's default is left out. Numbers keep their type, so that what is read back is the same value
and the same text.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sterna.model.errors import InvariantBroken
from sterna.model.growth import Category
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.node_affinity import NodeTerm
from sterna.model.nodes import Effect, Guest, GuestKind, Node
from sterna.model.quantities import milli_shown
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.wire.pod_shape import pod_record

Record = dict[str, Any]

API_VERSION = "sterna.dev/v1alpha1"


def snapshot_record(view: Snapshot) -> Record:
    return {
        "revision": view.revision,
        "nowSeconds": view.now_s,
        "nodes": [_node(node) for node in view.nodes],
        "jobs": [_job(job, rules=view.has_rules) for job in view.jobs],
        **({"reservedMilli": view.reserved} if view.reserved or view.serving else {}),
        **_unless_empty(
            serving=[_guest(guest) for guest in view.serving],
            memory=memory_record(view.memory),
            seed=view.seed,
            usage={node_id: _resources(used) for node_id, used in view.usage.items()},
        ),
    }


def memory_record(memory: PolicyMemory) -> Record:
    record = _unless_empty(jobs={key: dict(value) for key, value in memory.jobs.items()}, values=dict(memory.values))
    if memory.last_action_s is not None:
        record["lastActionSeconds"] = memory.last_action_s
    return record


def workers_record(workers: Iterable[Worker]) -> list[Record]:
    return [_worker(worker) for worker in workers]


def written(document: Mapping[str, Any]) -> str:
    """JSON with a line for each entry of what stands at the top: long files stay readable and can be compared."""
    try:
        parts = [f"{json.dumps(key)}: {_part(value)}" for key, value in document.items()]
    except ValueError as error:
        raise InvariantBroken(f"a number that JSON cannot say is about to be written: {error}") from error
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _part(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(json.dumps(entry, allow_nan=False) for entry in value) + "\n]"
    if isinstance(value, dict) and value:
        lines = (f"{json.dumps(key)}: {json.dumps(entry, allow_nan=False)}" for key, entry in value.items())
        return "{\n" + ",\n".join(lines) + "\n}"
    return json.dumps(value, allow_nan=False)


def _unless_empty(**parts: Any) -> Record:
    return {key: value for key, value in parts.items() if value}


def _unless(default: Any, **parts: Any) -> Record:
    return {key: value for key, value in parts.items() if value != default}


def _resources(amount: Resources) -> Record:
    return _unless_empty(
        cpu=milli_shown(amount.cpu_milli),
        memory=amount.memory_bytes,
        gpu=milli_shown(amount.gpu_milli),
        gpuMemory=amount.gpu_bytes,
    )


def _node(node: Node) -> Record:
    return {
        "id": node.id,
        "allocatable": _resources(node.allocatable),
        **_unless(True, ready=node.ready),
        **_unless(None, doubt=node.doubt),
        **_unless_empty(
            accelerator=node.accelerator,
            labels=dict(node.labels),
            taints=[
                {"key": taint.key, "value": taint.value, **_unless(Effect.NO_SCHEDULE, effect=taint.effect)}
                for taint in node.taints
            ],
            cordoned=node.cordoned,
            devices=[{"id": card.id, **_unless_empty(memory=card.memory_bytes)} for card in node.devices],
            guests=[_guest(guest) for guest in node.guests],
        ),
    }


def _guest(guest: Guest) -> Record:
    kind = _unless(GuestKind.OTHER, kind=guest.kind)
    record = {"id": guest.id, **kind, **_unless_empty(request=_resources(guest.request), devices=list(guest.devices))}
    return record if guest.pod is None else {**record, "pod": pod_record(guest.pod)}


def _worker(worker: Worker) -> Record:
    place = {"ordinal": worker.ordinal, "node": worker.node, **_unless_empty(devices=list(worker.devices))}
    return place if worker.role is Role.WORKER else {"role": worker.role, **place}


def _job(job: Job, *, rules: bool) -> Record:
    """What its pods are to others is of interest only where some pod has `rules` about that."""
    spec = _spec(job.spec)
    if rules and job.spec.pods:
        spec["pods"] = [{"role": role, **pod_record(traits)} for role, traits in job.spec.pods]
    return {"id": job.id, "spec": spec, "state": _state(job)}


def _spec(spec: JobSpec) -> Record:
    least = spec.workers_min
    sizes = {
        "min": least,
        **_unless(least, max=spec.workers_max, initial=spec.workers_initial),
        **_unless(1, step=spec.workers_step),
        "request": _resources(spec.request),
        **_unless_empty(limit=_resources(spec.limit)),
    }
    return {
        "submittedSeconds": spec.submitted_s,
        "workers": sizes,
        **_unless(None, accelerator=spec.accelerator, nodePreference=spec.node_preference),
        **_unless("ElasticJob", kind=spec.kind),
        **_unless_empty(
            fixed=[
                {
                    "role": fixed.role,
                    "replicas": fixed.replicas,
                    "request": _resources(fixed.request),
                    **_unless_empty(limit=_resources(fixed.limit)),
                }
                for fixed in spec.fixed
            ],
            category=spec.category,
            priority=spec.priority,
            selector=dict(spec.selector),
            nodeTerms=[_term(term) for term in spec.node_terms],
            nodeWishes=[{"weight": wish.weight, "term": _term(wish.term)} for wish in spec.node_wishes],
            keptFrom=sorted(spec.kept_from),
            tolerations=[
                {"key": each.key, **_unless(None, value=each.value, effect=each.effect)} for each in spec.tolerations
            ],
            restartsOnResize=spec.restarts_on_resize,
            movesBetweenPools=spec.moves_between_pools,
        ),
    }


def _term(term: NodeTerm) -> list[Record]:
    return [{"key": each.key, "operator": each.operator, **_unless_empty(values=list(each.values))} for each in term]


def _state(job: Job) -> Record:
    return {
        "phase": job.phase,  # the first five are written even where empty: left out they would mean something else
        "asOfSeconds": job.as_of_s,
        "waitingSinceSeconds": job.waiting_since_s,
        "firstStartedSeconds": job.first_started_s,
        "startedSeconds": job.started_s,
        "curve": {"paceSeconds": list(job.curve.pace_s)},
        **_unless(None, unitsLeft=job.units_left, growth=None if job.growth is None else _growth(*job.growth)),
        **_unless_empty(
            workers=workers_record(job.workers),
            leaving=workers_record(job.leaving),
            resumesSeconds=job.resumes_s,
            gpuSeconds=job.gpu_s,
            ranSeconds=job.ran_s,
            gpuSecondsSinceStart=job.gpu_s_since_start,
            lastRanSeconds=job.last_ran_s,
            checkpointSeconds=job.checkpoint_s,
            restartSeconds=job.restart_s,
            denied=job.denied,
            progress=[_progress(*point) for point in job.progress],
            disruptions=[
                {"atSeconds": at_s, "kind": kind, "pauseSeconds": pause_s} for at_s, kind, pause_s in job.disruptions
            ],
        ),
    }


def _growth(category: Category, score: float | None, efficiency: float | None, since_s: float) -> Record:
    return {"category": category, **_unless(None, score=score, efficiency=efficiency), "sinceSeconds": since_s}


def _progress(at_s: float, units_done: float, workers: int, unit_s: float, value: float | None) -> Record:
    point = {"atSeconds": at_s, "unitsDone": units_done, "workers": workers, "unitSeconds": unit_s}
    return {**point, **_unless(None, value=value)}
