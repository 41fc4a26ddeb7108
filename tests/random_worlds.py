"""Random worlds for property tests: pools, guests, taints, lost nodes, GPU shares, fixed roles, workers on the move.

A world is made from one seed, so that a failure is one number. Whatever holds workers holds them legally: no node is
overfull at the start, so any overfull node afterwards is the plan's doing.
"""

import random

from sterna.model.curves import SpeedupCurve
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import FixedRole, Job, JobSpec, Role, Worker
from sterna.model.nodes import Effect, Guest, GuestKind, Node, Taint, Toleration, cards
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import KEPT
from sterna.placement.packed import packed

GIB = 1 << 30


def random_world(seed: int) -> Snapshot:
    """A cluster in the middle of its life."""
    chance = random.Random(seed)
    nodes = [_node(chance, number) for number in range(chance.randint(1, 7))]
    jobs = [_job(chance, number) for number in range(chance.randint(0, 12))]
    now_s = chance.choice([0.0, 100.0, 5_000.0])
    healthy = [_healthy(node) for node in nodes]
    running = _holding(chance, healthy, jobs, now_s)
    memory = PolicyMemory(last_action_s=chance.choice([None, 0.0, now_s]))
    return Snapshot.of(now_s=now_s, nodes=nodes, jobs=running, memory=memory, revision=1)


def churned(view: Snapshot, seed: int) -> Snapshot:
    """The same cluster a while later: nodes lost, drained, added or back, a job gone, a new one come."""
    chance = random.Random(seed)
    nodes = {node.id: node for node in view.nodes}
    for name in list(nodes):
        match chance.randrange(8):
            case 0:
                del nodes[name]
            case 1:
                nodes[name] = _with(nodes[name], cordoned=not nodes[name].cordoned)
            case 2:
                nodes[name] = _with(nodes[name], ready=not nodes[name].ready)
            case 3:
                nodes[name] = _with(nodes[name], guests=())
    if chance.random() < 0.5:
        newcomer = _node(chance, 90 + chance.randrange(9))
        nodes[newcomer.id] = newcomer
    jobs = [job for job in view.jobs if chance.random() > 0.15]
    newest = _job(chance, 50 + chance.randrange(40))
    if all(job.id != newest.id for job in jobs):
        jobs.append(newest)
    return Snapshot.of(now_s=view.now_s + 61, nodes=nodes.values(), jobs=jobs, memory=view.memory, revision=2)


def _node(chance: random.Random, number: int) -> Node:
    gpus = chance.choice([0, 0, 2, 4, 8])
    accelerator = chance.choice(["a100", "t4"]) if gpus else ""
    guests = tuple(
        Guest(f"guest-{number}-{position}", Resources(chance.randrange(3) * 1000, GIB), chance.choice(list(GuestKind)))
        for position in range(chance.randrange(3))
    )
    taints = (Taint("team", "x", chance.choice(list(Effect))),) if chance.random() < 0.2 else ()
    return Node(
        id=NodeId(f"n{number:02}"),
        allocatable=Resources(chance.choice([4, 16, 64]) * 1000, chance.choice([16, 256]) * GIB, gpus * 1000),
        accelerator=accelerator,
        labels=(("zone", chance.choice("ab")),),
        taints=taints,
        ready=chance.random() > 0.1,
        cordoned=chance.random() < 0.1,
        devices=cards(gpus, memory_bytes=chance.choice([0, 16]) * GIB),
        guests=guests,
    )


def _job(chance: random.Random, number: int) -> Job:
    least = chance.randint(1, 4)
    step = chance.choice([1, 1, 2])
    most = least + step * chance.randint(0, 4)
    kind = chance.randrange(4)
    if kind == 0:
        request = Resources(chance.randint(1, 4) * 1000, GIB)
    elif kind == 1:
        request = Resources(500, GIB, chance.choice([250, 334, 500]), chance.choice([0, 4]) * GIB)
    else:
        request = Resources(1000, GIB, chance.choice([1000, 1000, 2000]))
    fixed = (FixedRole(Role.PS, chance.randint(1, 2), Resources(1000, GIB)),) if chance.random() < 0.3 else ()
    spec = JobSpec(
        id=JobId(f"j{number:02}"),
        submitted_s=float(chance.randrange(50)),
        request=request,
        workers_min=least,
        workers_max=most,
        workers_initial=least + step * chance.randint(0, (most - least) // step),
        workers_step=step,
        fixed=fixed,
        accelerator=chance.choice([None, None, "a100", "t4", "tpu"]) if request.gpu_milli else None,
        priority=chance.randrange(3),
        selector=(("zone", "a"),) if chance.random() < 0.15 else (),
        tolerations=(Toleration("team"),) if chance.random() < 0.4 else (),
        node_preference=NodeId("n01") if chance.random() < 0.2 else None,
        restarts_on_resize=chance.random() < 0.3,
    )
    speedups = [1.0]
    for _ in range(most - 1):
        speedups.append(speedups[-1] + chance.random())
    return Job(
        spec=spec,
        phase=Phase.SUSPENDED if chance.random() < 0.05 else Phase.WAITING,
        waiting_since_s=spec.submitted_s,
        units_left=chance.choice([None, 10.0, 500.0, 500.0]),
        curve=SpeedupCurve.from_speedups(speedups),
        last_ran_s=chance.choice([0.0, 10.0]),
    )


def _holding(chance: random.Random, nodes: list[Node], jobs: list[Job], now_s: float) -> list[Job]:
    """Let some of the jobs hold workers, as many as fit, some of them leaving; the planner then finds them so."""
    chosen = {job.id for job in jobs if job.phase is Phase.WAITING and chance.random() < 0.6}
    grants = {job.id: Grant(job.spec.workers_initial, job.spec.workers_min, KEPT) for job in jobs if job.id in chosen}
    layout = packed(Snapshot.of(now_s=0, nodes=nodes, jobs=jobs), Target(grants))
    placed: list[Job] = []
    for job in jobs:
        workers = layout.workers_of(job.id)
        if not workers:
            placed.append(job)
        elif chance.random() < 0.15:
            placed.append(job.but(leaving=workers))
        else:
            started_s = float(chance.randrange(50))
            placed.append(
                job.but(
                    phase=Phase.RUNNING,
                    workers=workers,
                    waiting_since_s=None,
                    started_s=started_s,
                    first_started_s=started_s,
                    as_of_s=now_s,
                    gpu_s=float(chance.randrange(9000)),
                    gpu_s_since_start=float(chance.randrange(9000)),
                )
            )
    return placed


def _healthy(node: Node) -> Node:
    return _with(node, ready=True, cordoned=False, taints=())


def _with(node: Node, **changes: object) -> Node:
    from dataclasses import replace

    return replace(node, **changes)  # type: ignore[arg-type]


def used_by_node(jobs: tuple[Job, ...]) -> dict[NodeId, Resources]:
    """A sum by hand, against which plans are checked; workers that are leaving count."""
    used: dict[NodeId, Resources] = {}
    for job in jobs:
        for worker in job.workers + job.leaving:
            used[worker.node] = used.get(worker.node, Resources()).plus(job.spec.request_of(worker.role))
    return used


def shares_by_card(jobs: tuple[Job, ...]) -> dict[tuple[NodeId, DeviceId], int]:
    used: dict[tuple[NodeId, DeviceId], int] = {}
    for job in jobs:
        for worker in job.workers + job.leaving:
            milli = job.spec.request_of(worker.role).gpu_milli
            for device in worker.devices:
                part = milli if milli % 1000 else 1000
                used[worker.node, device] = used.get((worker.node, device), 0) + part
    return used


def changed(view: Snapshot, holds: dict[JobId, tuple[Worker, ...]]) -> tuple[Job, ...]:
    """The jobs, each holding what `holds` says; what is let go of is gone."""
    return tuple(job.but(workers=holds.get(job.id, job.workers)) for job in view.jobs)
