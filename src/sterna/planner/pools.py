"""One pool per accelerator type: each is decided on its own, so that trouble in one never reaches another.

A job names its accelerator, or takes any: then it belongs where it runs, else to the pool with most room for it.
"""

from dataclasses import replace

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job
from sterna.model.nodes import Cluster, Guest
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory

_LAST_ACTION = "last_action_s"


def pools_of(view: Snapshot) -> list[tuple[str, Snapshot]]:
    """The snapshot cut into pools, by accelerator; the whole of it where there is only one."""
    accelerators = view.cluster.accelerators
    if len(accelerators) == 1 and view.accelerators_named <= {None, accelerators[0]}:
        return [(accelerators[0], view)]
    clusters = {name: Cluster(tuple(node for node in view.nodes if node.accelerator == name)) for name in accelerators}
    members: dict[str, list[Job]] = {name: [] for name in accelerators}
    homeless: list[Job] = []
    free = {name: cluster.capacity for name, cluster in clusters.items()}
    for job in view.holding:
        if (home := _home(view, job)) in free:
            free[home] -= job.spec.request[clusters[home].currency] * job.size
    strangers: dict[NodeId, list[Guest]] = {}
    for job in view.jobs:
        name = _pool_name(view, job, clusters, free)
        members.get(name, homeless).append(job)
        _note_strangers(view, job, name, strangers)
    parts = [(name, _part(view, name, _with_guests(clusters[name], strangers), members[name])) for name in accelerators]
    if homeless:  # they name an accelerator that no node has: a pool of no nodes tells them so
        parts.append((homeless[0].spec.accelerator or "", _part(view, "", Cluster(()), homeless)))
    return parts


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


def _part(view: Snapshot, name: str, cluster: Cluster, jobs: list[Job]) -> Snapshot:
    prefix = f"{name}/"
    values = {key.removeprefix(prefix): value for key, value in view.memory.values.items() if key.startswith(prefix)}
    last_s = values.pop(_LAST_ACTION, None)
    memory = PolicyMemory(view.memory.jobs, values, last_s)
    return replace(view, cluster=cluster, jobs=tuple(jobs), memory=memory)


def _home(view: Snapshot, job: Job) -> str | None:
    """The pool in which the job has workers, be they leaving; None if in none."""
    for worker in job.workers + job.leaving:
        if (node := view.cluster.by_id.get(worker.node)) is not None:
            return node.accelerator
    return None


def _note_strangers(view: Snapshot, job: Job, pool: str, strangers: dict[NodeId, list[Guest]]) -> None:
    """Workers on nodes of another pool than the job's, as its owner named another one meanwhile: guests there."""
    for worker in job.workers + job.leaving:
        node = view.cluster.by_id.get(worker.node)
        if node is not None and node.accelerator != pool:
            guest = Guest(
                f"{job.id}/{worker.role}/{worker.ordinal}", job.spec.request_of(worker.role), devices=worker.devices
            )
            strangers.setdefault(node.id, []).append(guest)


def _with_guests(cluster: Cluster, guests: dict[NodeId, list[Guest]]) -> Cluster:
    if not any(node.id in guests for node in cluster.nodes):
        return cluster
    return Cluster(tuple(replace(node, guests=(*node.guests, *guests.get(node.id, ()))) for node in cluster.nodes))


def _pool_name(view: Snapshot, job: Job, clusters: dict[str, Cluster], free: dict[str, int]) -> str:
    spec = job.spec
    if spec.accelerator is not None:
        return spec.accelerator
    if (home := _home(view, job)) is not None:
        return home
    if not spec.request.gpu_milli and "" in clusters:
        return ""  # no GPU asked for, and there are nodes without one: leave the GPUs to those who need them
    fitting = [name for name in clusters if spec.min_request[clusters[name].currency] <= clusters[name].capacity]
    return max(fitting or list(clusters), key=lambda name: (free[name], name), default="")
