"""What every plan obeys. These checks stay on in production: a decision that breaks one is never applied.

They look only at what the plan touches, so their cost is that of the change and not that of the cluster.
"""

from collections.abc import Mapping

from sterna.model.errors import InvariantBroken
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.plan import Grow, Shrink, Step
from sterna.model.resources import NOTHING, WHOLE_GPU_MILLI, Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.rule_check import unlawful


def require_sound(view: Snapshot, steps: tuple[Step, ...], *, counted: bool) -> None:
    """Raise `InvariantBroken` unless the plan keeps every promise. With `counted` only sums matter, not nodes."""
    after = _what_is_held(view.by_id, steps)
    for job_id, workers in after.items():
        if workers:
            _require_allowed(view.by_id[job_id].spec, workers, counted=counted)
    if counted:
        _pool_is_not_overfull(view, after)
    else:
        _nodes_are_not_overfull(view, view.by_id, steps)
        _rules_are_kept(view, after)


def _what_is_held(jobs: Mapping[JobId, Job], steps: tuple[Step, ...]) -> dict[JobId, tuple[Worker, ...]]:
    """What every job that the plan changes holds in the end; growth must keep what survived."""
    after: dict[JobId, tuple[Worker, ...]] = {}
    for step in steps:
        for action in step.actions:
            job = jobs.get(action.job_id)
            if job is None:
                raise InvariantBroken(f"the plan changes job {action.job_id}, which the snapshot does not have")
            before = after.get(action.job_id, job.workers)
            if before and isinstance(action, Grow) and not set(before) <= set(action.to):
                raise InvariantBroken(f"growing job {action.job_id} would drop a worker that was to survive")
            after[action.job_id] = action.to
    return after


def _require_allowed(spec: JobSpec, workers: tuple[Worker, ...], *, counted: bool) -> None:
    """A job that holds anything holds a size on its own grid of steps, all its fixed roles, and nothing twice."""
    elastic = sum(worker.role is Role.WORKER for worker in workers) if spec.fixed else len(workers)
    if elastic < 1 or spec.allowed_size(elastic) != elastic:
        bounds = f"{spec.workers_min} to {spec.workers_max} by {spec.workers_step}"
        raise InvariantBroken(f"job {spec.id} would hold {elastic} workers; it may hold none, or {bounds}")
    if counted:
        return
    if spec.fixed and len(workers) - elastic != spec.fixed_count:
        raise InvariantBroken(f"job {spec.id} would train without all of its fixed roles")
    if len({worker[:2] for worker in workers}) != len(workers):  # role and ordinal
        raise InvariantBroken(f"job {spec.id} would hold two workers of one role and ordinal")


def _pool_is_not_overfull(view: Snapshot, after: Mapping[JobId, tuple[Worker, ...]]) -> None:
    """Where nodes do not matter, the pool as a whole still does."""
    currency, jobs = view.currency, view.by_id
    used = view.held[currency]
    for job_id, workers in after.items():
        job = jobs[job_id]
        used += job.spec.request[currency] * (len(workers) - len(job.workers))
    if used > view.cluster.capacity:
        raise InvariantBroken(f"the plan needs {used} milli of {view.cluster.capacity} in the pool")


def _rules_are_kept(view: Snapshot, after: Mapping[JobId, tuple[Worker, ...]]) -> None:
    """No new worker is put where a rule between pods does not let it; what is there may stay."""
    if view.neighbourhood is None:
        return
    broken = unlawful(view, {**{job.spec.id: job.workers for job in view.holding}, **after})
    if broken:
        raise InvariantBroken(f"new workers of {', '.join(sorted(broken))} would break a rule between pods")


def _nodes_are_not_overfull(view: Snapshot, jobs: Mapping[JobId, Job], steps: tuple[Step, ...]) -> None:
    """After no step does any node that gained a worker hold more than it has, workers that are leaving included.

    Nodes that gain nothing are not asked: guests may have overfilled them, and that is not the plan's doing.
    """
    holding = {job.spec.id: job.workers for job in view.holding}
    leaving = {job.spec.id: job.leaving for job in view.leaving}
    gained: set[NodeId] = set()
    for step in steps:
        if step.after_release:
            leaving = {}
        for action in step.actions:
            before = holding.get(action.job_id, ())
            if isinstance(action, Shrink):
                gone = tuple(worker for worker in before if worker not in action.to)
                leaving[action.job_id] = leaving.get(action.job_id, ()) + gone
            else:
                gained.update(worker.node for worker in action.to if worker not in before)
            holding[action.job_id] = action.to
        if gained:
            _require_room(view, jobs, gained, (holding, leaving))


def _require_room(
    view: Snapshot,
    jobs: Mapping[JobId, Job],
    nodes: set[NodeId],
    taken: tuple[Mapping[JobId, tuple[Worker, ...]], ...],
) -> None:
    used: dict[NodeId, Resources] = {}
    shares: dict[tuple[NodeId, str], int] = {}
    for workers_by_job in taken:
        for job_id, workers in workers_by_job.items():
            spec = jobs[job_id].spec
            for worker in workers:
                if worker.node in nodes:
                    request = spec.request_of(worker.role) if spec.fixed else spec.request
                    used[worker.node] = used.get(worker.node, NOTHING).plus(request)
                    if request.shares_gpu and worker.devices:
                        card = (worker.node, worker.devices[0])
                        shares[card] = shares.get(card, 0) + request.gpu_milli
    for node_id, request in used.items():
        node = view.cluster.by_id.get(node_id)
        if node is None:
            raise InvariantBroken(f"the plan puts a worker on node {node_id}, which the snapshot does not have")
        room = node.free_of_guests
        for have, take, what in zip(room[:3], request[:3], Resources._fields, strict=False):
            if take > have:
                raise InvariantBroken(f"node {node_id} would hold {take} of {have} {what}")
    for (node_id, device), milli in shares.items():
        if milli > WHOLE_GPU_MILLI:
            raise InvariantBroken(f"GPU {device} of node {node_id} would be shared out {milli} thousandths")
