"""One pool per accelerator type: each is decided on its own, so that trouble in one never reaches another.

A job names its accelerator, or takes any: then `pool_choice.py` says where it belongs. Idle CPUs of nodes with GPUs are
pools of their own, for jobs without GPUs (`lanes.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, JobSpec
from sterna.model.nodes import Cluster, Guest
from sterna.model.serving_room import could_hold, room_for_serving
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.model.why import Because
from sterna.planner.lanes import Part, lane_name, lane_of_nodes, share_for_gpuless
from sterna.planner.pool_choice import Pool, PoolChoice, is_gpuless

_LAST_ACTION = "last_action_s"


@dataclass(frozen=True, slots=True)
class Parts:
    pools: tuple[Part, ...]
    chosen: Mapping[JobId, Because]  # why a job that takes any accelerator is where it is


def pools_of(view: Snapshot, *, idle_cpu_share: float | None = None) -> Parts:
    """The snapshot cut into pools, by accelerator; the whole of it where there is only one."""
    accelerators = view.cluster.accelerators
    one = len(accelerators) == 1 and view.accelerators_named <= {None, accelerators[0]}
    if one and not _has_lanes(view, idle_cpu_share):
        return Parts((Part(accelerators[0], view),), {})
    pools = every_pool(view, idle_cpu_share=idle_cpu_share)
    members, chosen = _members(view, pools)
    parts = _parts(view, pools, members)
    if len(parts) == 1 and parts[0].view.cluster is view.cluster:
        return Parts((Part(accelerators[0], view),), {})
    return Parts(tuple(parts), chosen)


def every_pool(view: Snapshot, *, idle_cpu_share: float | None = None) -> list[Pool]:
    """All pools, whichever jobs are in them; a lane comes after the pool whose nodes it shares."""
    pools = [Pool(name, cluster, lane=False) for name, cluster in view.cluster.by_accelerator.items()]
    if not _has_lanes(view, idle_cpu_share):
        return pools
    share = share_for_gpuless(view.cluster, idle_cpu_share)
    shared = [pool for pool in pools if pool.cluster.has_gpus]
    return [*pools, *(Pool(lane_name(pool.name), lane_of_nodes(pool.cluster, share), lane=True) for pool in shared)]


def open_to(spec: JobSpec, pools: list[Pool]) -> list[Pool]:
    """Pools that a job may be in: jobs with GPUs where there are any, jobs without in lanes where there are lanes."""
    named = [pool for pool in pools if spec.accelerator in (None, _accelerator(pool.name))]
    if not is_gpuless(spec):
        named = [pool for pool in named if not pool.lane]
        return [pool for pool in named if pool.cluster.has_gpus] or named
    shared = {_accelerator(pool.name) for pool in named if pool.lane}
    return [pool for pool in named if pool.lane or pool.name not in shared]


def _has_lanes(view: Snapshot, idle_cpu_share: float | None) -> bool:
    return (
        view.cluster.has_gpus
        and share_for_gpuless(view.cluster, idle_cpu_share) < 1.0
        and view.smallest_minimum.gpu_milli == 0  # last: it may have to look at every job
    )


def joined_memory(view: Snapshot, parts: list[tuple[str, PolicyMemory, bool]]) -> PolicyMemory:
    """One memory from those of the pools; each part says whether its pool's plan changed anything."""
    if len(parts) == 1:
        _, memory, acted = parts[0]
        return stamped(memory, view.now_s) if acted else memory
    jobs: dict[JobId, dict[str, float]] = {}
    values: dict[str, float] = {}
    for name, memory, acted in parts:
        jobs.update({job_id: dict(entry) for job_id, entry in memory.jobs.items()})
        values.update({f"{name}/{key}": value for key, value in memory.values.items()})
        last_s = view.now_s if acted else memory.last_action_s
        if last_s is not None:
            values[f"{name}/{_LAST_ACTION}"] = last_s
    times = [value for key, value in values.items() if key.endswith(_LAST_ACTION)]
    return PolicyMemory(jobs, values, max(times, default=None))


def stamped(memory: PolicyMemory, now_s: float) -> PolicyMemory:
    """The same memory after something was done. Spelled out, since `replace` costs more than a small decision."""
    return PolicyMemory(memory.jobs, memory.values, now_s)


# -- which job belongs where


def _members(view: Snapshot, pools: list[Pool]) -> tuple[dict[str, list[Job]], dict[JobId, Because]]:
    """The jobs of each pool. Jobs that name an accelerator without a pool are listed under that name."""
    choice = PoolChoice(view, pools)
    members: dict[str, list[Job]] = {pool.name: [] for pool in pools}
    chosen: dict[JobId, Because] = {}
    for job in view.jobs:
        among = [pool.name for pool in open_to(job.spec, pools)]
        home = _home(view, job)
        here = next((name for name in among if home is not None and _accelerator(name) == home), None)
        if not among:
            name = job.spec.accelerator or ""
        elif here is not None and not (job.spec.moves_between_pools and not choice.can_stay(here, job)):
            name = here
        elif len(among) == 1:
            name = among[0]
        else:
            name, chosen[job.id] = choice.of(job, among)
        members.setdefault(name, []).append(job)
    return members, chosen


def _accelerator(pool: str) -> str:
    return pool.removesuffix(lane_name(""))


def _home(view: Snapshot, job: Job) -> str | None:
    """The pool in which the job has workers, be they leaving; None if in none."""
    for worker in job.workers + job.leaving:
        if (node := view.cluster.by_id.get(worker.node)) is not None:
            return node.accelerator
    return None


# -- pools as snapshots


def _parts(view: Snapshot, pools: list[Pool], members: dict[str, list[Job]]) -> list[Part]:
    pool_of = {job.id: name for name, jobs in members.items() for job in jobs}
    strangers: dict[str, dict[NodeId, list[Guest]]] = {}
    for job in view.holding:
        _note_strangers(view, job, pool_of[job.id], strangers)
    serving = _serving_in(view, pools)
    parts: list[Part] = []
    for pool in pools:
        if pool.lane and not members[pool.name]:
            continue
        cluster = _with_guests(pool.cluster, strangers.get(pool.name, {}))
        lane_of = _accelerator(pool.name) if pool.lane else None
        parts.append(
            Part(pool.name, _part(view, pool.name, cluster, members[pool.name], serving.get(pool.name, ())), lane_of)
        )
    known = {pool.name for pool in pools}
    nobodys = sorted(members.keys() - known)  # no node has it: a pool of no nodes tells its jobs so
    return parts + [Part(name, _part(view, name, Cluster(()), members[name])) for name in nobodys]


def _serving_in(view: Snapshot, pools: list[Pool]) -> dict[str, tuple[Guest, ...]]:
    """In which pool room is kept for each waiting serving pod: the first that could hold it, without GPUs if may be."""
    open_pools = sorted((pool for pool in pools if not pool.lane), key=lambda pool: (pool.cluster.has_gpus, pool.name))
    kept: dict[str, tuple[Guest, ...]] = {}
    for pod in view.serving:
        home = next((pool.name for pool in open_pools if could_hold(pool.cluster, pod)), None)
        if home is not None:
            kept[home] = (*kept.get(home, ()), pod)
    return kept


def _part(view: Snapshot, name: str, cluster: Cluster, jobs: list[Job], serving: tuple[Guest, ...] = ()) -> Snapshot:
    prefix = f"{name}/"
    values = {key.removeprefix(prefix): value for key, value in view.memory.values.items() if key.startswith(prefix)}
    last_s = values.pop(_LAST_ACTION, None)
    memory = PolicyMemory(view.memory.jobs, values, last_s)
    reserved = room_for_serving(cluster, serving) if view.serving else view.reserved
    return replace(view, cluster=cluster, jobs=tuple(jobs), memory=memory, serving=serving, reserved=reserved)


def _note_strangers(view: Snapshot, job: Job, pool: str, strangers: dict[str, dict[NodeId, list[Guest]]]) -> None:
    """Workers on nodes of a pool that the job is not in are guests there for now: of a job without GPUs in the lane
    beside it, or of one whose owner named another accelerator meanwhile."""
    for worker in job.workers + job.leaving:
        node = view.cluster.by_id.get(worker.node)
        if node is not None and node.accelerator != pool:
            request = job.spec.request_of(worker.role)
            guest = Guest(f"{job.id}/{worker.role}/{worker.ordinal}", request, devices=worker.devices)
            strangers.setdefault(node.accelerator, {}).setdefault(node.id, []).append(guest)


def _with_guests(cluster: Cluster, guests: dict[NodeId, list[Guest]]) -> Cluster:
    """The cluster with these guests for now. The latest is kept, so that an unchanged one is known again."""
    if not guests:
        return cluster
    known = cluster.answers.get("with guests")
    if isinstance(known, tuple) and known[0] == guests:
        return known[1]  # type: ignore[no-any-return]
    nodes = (replace(node, guests=(*node.guests, *guests.get(node.id, ()))) for node in cluster.nodes)
    crowded = cluster.temporarily(nodes)
    cluster.answers["with guests"] = (guests, crowded)
    return crowded
