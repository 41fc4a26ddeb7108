"""What holds of every layout, worked out plainly and without the code under test."""

from sterna.model.ids import DeviceId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Node
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target


def assert_no_node_is_overfull(view: Snapshot, layout: Layout) -> None:
    specs = {job.id: job.spec for job in view.jobs}
    for node in view.nodes:
        here = [
            (specs[job_id].request_of(worker.role), worker.devices)
            for job_id, workers in layout.workers.items()
            for worker in workers
            if worker.node == node.id
        ]
        if here:  # guests may overbook a node; then we must not be there, or ask for nothing of what is short
            _assert_amounts_fit(node, here)
            _assert_cards_fit(node, here)


def assert_jobs_are_whole(view: Snapshot, target: Target, layout: Layout) -> None:
    """Known jobs only, in allowed numbers, with all fixed roles, each ordinal once, on nodes that have them."""
    specs = {job.id: job.spec for job in view.jobs}
    for job_id, workers in layout.workers.items():
        spec, grant = specs[job_id], target.grants[job_id]
        elastic = [worker for worker in workers if not spec.fixed or worker.role is Role.WORKER]
        assert max(1, grant.floor) <= len(elastic) <= grant.workers
        assert len(workers) - len(elastic) == spec.fixed_count
        assert len({(worker.role, worker.ordinal) for worker in workers}) == len(workers)
        assert list(workers) == sorted(workers, key=lambda worker: (_rank(spec, worker), worker.ordinal))
        assert {worker.node for worker in workers} <= {node.id for node in view.nodes}


def assert_everybody_is_let_in(view: Snapshot, layout: Layout) -> None:
    nodes = {node.id: node for node in view.nodes}
    for job in view.jobs:
        for worker in layout.workers_of(job.id):
            node = nodes[worker.node]
            was_here = any(worker[:3] == old[:3] for old in job.workers)
            if was_here:
                assert node.keeps(job.spec.tolerations)
            else:
                assert node.admits(job.spec.demands)
                assert job.spec.accelerator in (None, node.accelerator)


def moved_workers(view: Snapshot, layout: Layout) -> int:
    """Workers that exist before and after, in different places."""
    moved = 0
    for job in view.jobs:
        was = {worker[:2]: worker.node for worker in job.workers}
        moved += sum(was.get(worker[:2], worker.node) != worker.node for worker in layout.workers_of(job.id))
    return moved


def _rank(spec: JobSpec, worker: Worker) -> int:
    roles = [fixed.role for fixed in spec.fixed]
    return roles.index(worker.role) if worker.role in roles else len(roles)


def _assert_amounts_fit(node: Node, here: list[tuple[Resources, tuple[DeviceId, ...]]]) -> None:
    free = node.free_of_guests
    for what in (0, 1, 2):
        asked = sum(request[what] for request, _ in here)
        assert asked == 0 or asked <= free[what]


def _assert_cards_fit(node: Node, here: list[tuple[Resources, tuple[DeviceId, ...]]]) -> None:
    sizes = {device.id: device.memory_bytes for device in node.devices}
    shares: dict[DeviceId, list[int]] = {}
    for request, devices in [*here, *((guest.request, guest.devices) for guest in node.guests)]:
        for card in devices:
            milli = request.gpu_milli if request.shares_gpu else 1000
            share = shares.setdefault(card, [0, 0])
            share[0] += milli
            share[1] += request.gpu_bytes if request.shares_gpu else 0
    for card in {card for _, devices in here for card in devices}:
        milli, memory = shares[card]
        assert milli <= 1000, f"card {card} of {node.id} is given out {milli} thousandths"
        assert not sizes.get(card) or memory <= sizes[card]
