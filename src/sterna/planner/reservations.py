"""Room kept for a job that has waited too long: nodes are set aside for it, so that smaller jobs cannot starve it.

The nodes set aside take nobody new but let everybody finish; the choice prefers nodes that are emptiest already, so it
stays the same from cycle to cycle while they drain.
"""

from dataclasses import replace

from sterna.model.feasibility import never_fits, slots_on
from sterna.model.ids import NodeId
from sterna.model.jobs import Job
from sterna.model.nodes import Cluster, Effect, Taint, Toleration
from sterna.model.resources import Currency
from sterna.model.snapshot import Snapshot, arrival_order

RESERVED = Taint("sterna.dev/reserved", "", Effect.NO_SCHEDULE)


def starving_head(view: Snapshot, starving_after_s: float) -> Job | None:
    """The job that has waited longest, if that is too long and it could start at all."""
    waiting = [
        job for job in view.jobs if not job.size and job.wants_workers and job.waited_s(view.now_s) >= starving_after_s
    ]
    waiting.sort(key=lambda job: (job.waiting_since_s, arrival_order(job)))
    return next((job for job in waiting if never_fits(view, job) is None), None)


def with_reservation(view: Snapshot, head: Job) -> Snapshot:
    """The same world with nodes set aside for `head`, which alone tolerates it."""
    aside = _nodes_for(view, head)
    nodes = tuple(replace(node, taints=(*node.taints, RESERVED)) if node.id in aside else node for node in view.nodes)
    pass_key = Toleration(RESERVED.key, RESERVED.value, RESERVED.effect)
    spec = replace(head.spec, tolerations=(*head.spec.tolerations, pass_key))
    jobs = tuple(job.but(spec=spec) if job is head else job for job in view.jobs)
    return replace(view, cluster=Cluster(nodes), jobs=jobs)


def _nodes_for(view: Snapshot, head: Job) -> set[NodeId]:
    """Fewest nodes that hold the head's minimum once they are empty, the emptiest first."""
    spec = head.spec
    held: dict[NodeId, int] = {}
    currency: Currency = view.currency
    for job in view.jobs:
        for worker in job.workers + job.leaving:
            held[worker.node] = held.get(worker.node, 0) + job.spec.request_of(worker.role)[currency]
    offers = [
        (held.get(node.id, 0), -slots, node.id)
        for node in view.nodes
        if node.admits(spec.tolerations, spec.selector) and (slots := slots_on(node, spec.request))
    ]
    aside: set[NodeId] = set()
    missing = spec.workers_min
    for _, slots, node_id in sorted(offers):
        if missing <= 0:
            break
        aside.add(node_id)
        missing += slots
    return aside
