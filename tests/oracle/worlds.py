"""Small worlds for the oracle, each from one seed: 1 to 4 nodes, 1 to 6 jobs, and everything that a cluster mixes.

Half of the clusters mix CPU nodes with GPU nodes or have two types of GPU; CPU, memory, GPUs and the memory of cards
all bind somewhere; a quarter of the nodes with GPUs have cards of differing memory; a quarter of the jobs have fixed
roles, a quarter a step of 2; half of the jobs hold workers, some of which are leaving or were lost. Whatever holds
workers holds them legally. `features` says what a world has in it, so that a test can count.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sterna.model.curves import SpeedupCurve
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import FixedRole, Job, JobSpec, Role, Worker
from sterna.model.node_affinity import LabelOperator, LabelRequirement
from sterna.model.nodes import Device, Doubt, Effect, Guest, GuestKind, Node, Taint, Toleration
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import KEPT
from sterna.placement.packed import packed

GIB = 1 << 30
NOW_S = 1000.0


def small_world(seed: int) -> Snapshot:
    chance = random.Random(seed)
    kinds = chance.choice([("a100",), ("",), ("", "a100"), ("a100", "t4"), ("", "a100", "t4"), ("a100",)])
    count = chance.randint(len(kinds), 4)
    of_each = [*kinds, *(chance.choice(kinds) for _ in range(count - len(kinds)))]
    nodes = [_node(chance, number, kind) for number, kind in enumerate(chance.sample(of_each, count))]
    jobs = [_job(chance, number, kinds) for number in range(chance.randint(1, 6))]
    seated = _seated(chance, nodes, jobs)
    if seed % 7 == 3:  # drawn last, so that all other worlds are what they are without doubts
        nodes = [replace(node, doubt=chance.choice([None, None, *Doubt])) for node in nodes]
    return Snapshot.of(now_s=NOW_S, nodes=nodes, jobs=seated, revision=1)


def features(view: Snapshot) -> Iterator[str]:
    """What this world has in it, each name once."""
    nodes, specs = view.nodes, [job.spec for job in view.jobs]
    accelerators = view.cluster.accelerators
    having = {
        "CPU nodes beside GPU nodes": "" in accelerators and len(accelerators) > 1,
        "two types of GPU": len({name for name in accelerators if name}) > 1,
        "CPU nodes only": accelerators == ("",),
        "cards of differing memory": any(len({card.memory_bytes for card in node.devices}) > 1 for node in nodes),
        "a cordon or a node not ready": any(not node.schedulable for node in nodes),
        "a node in doubt": any(node.doubt is not None for node in nodes),
        "a taint": any(node.taints for node in nodes),
        "a guest": any(node.guests for node in nodes),
        "a guest on a card": any(guest.devices for node in nodes for guest in node.guests),
        "a job without GPUs": any(not spec.min_request.gpu_milli for spec in specs),
        "a job for any accelerator": any(spec.accelerator is None for spec in specs),
        "a share of a card": any(spec.request.shares_gpu for spec in specs),
        "a share with memory": any(spec.request.shares_gpu and spec.request.gpu_bytes for spec in specs),
        "two GPUs a worker": any(spec.request.gpu_milli > 1000 for spec in specs),
        "CPU and GPU in one request": any(spec.request.gpu_milli and spec.request.cpu_milli > 1000 for spec in specs),
        "a fixed role": any(spec.fixed for spec in specs),
        "a fixed role with a GPU": any(role.request.gpu_milli for spec in specs for role in spec.fixed),
        "a step": any(spec.workers_step > 1 for spec in specs),
        "a rigid job": any(spec.workers_min == spec.workers_max for spec in specs),
        "a selector": any(spec.selector for spec in specs),
        "a toleration": any(spec.tolerations for spec in specs),
        "a running job": any(job.size for job in view.jobs),
        "a running job above its minimum": any(job.size > job.spec.workers_min for job in view.jobs),
        "a waiting job": any(not job.size for job in view.jobs),
        "leaving workers": any(job.leaving for job in view.jobs),
        "a size off its grid": any(job.size and job.spec.allowed_size(job.size) != job.size for job in view.jobs),
        "a suspended job": any(job.phase is Phase.SUSPENDED for job in view.jobs),
    }
    return (name for name, present in having.items() if present)


def _node(chance: random.Random, number: int, accelerator: str) -> Node:
    sizes = _card_sizes(chance) if accelerator else ()
    room = Resources(chance.choice([4, 8, 16]) * 1000, chance.choice([8, 32]) * GIB, len(sizes) * 1000)
    taint = Taint("team", "x", chance.choice([Effect.NO_SCHEDULE, Effect.NO_EXECUTE, Effect.PREFER_NO_SCHEDULE]))
    return Node(
        id=NodeId(f"n{number}"),
        allocatable=room,
        accelerator=accelerator,
        labels=(("zone", chance.choice("ab")),),
        taints=(taint,) if chance.random() < 0.12 else (),
        ready=chance.random() > 0.04,
        cordoned=chance.random() < 0.06,
        devices=tuple(Device(DeviceId(str(each)), size * GIB) for each, size in enumerate(sizes)),
        guests=tuple(_guests(chance, number, len(sizes))),
    )


def _card_sizes(chance: random.Random) -> list[int]:
    """GiB of each card; 0 where nobody knows."""
    count = chance.choice([1, 2, 2, 4])
    if chance.random() < 0.25:
        return [chance.choice([8, 16, 24]) for _ in range(count)]
    return [chance.choice([0, 16])] * count


def _guests(chance: random.Random, number: int, cards: int) -> Iterator[Guest]:
    if chance.random() < 0.2:
        request = Resources(chance.choice([1, 2]) * 1000, chance.choice([0, 2]) * GIB)
        yield Guest(f"guest-{number}", request, chance.choice(list(GuestKind)))
    if cards and chance.random() < 0.1:
        yield Guest(f"gpu-guest-{number}", Resources(500, GIB, 1000), devices=(DeviceId(str(chance.randrange(cards))),))


def _zone(chance: random.Random, *, as_term: bool) -> dict[str, Any]:
    """Some jobs may go to one zone only. Said in one of two ways that mean the same."""
    if chance.random() >= 0.15:
        return {}
    zone = chance.choice("ab")
    term = (LabelRequirement("zone", LabelOperator.IN, (zone,)),)
    return {"node_terms": (term,)} if as_term else {"selector": (("zone", zone),)}


def _job(chance: random.Random, number: int, kinds: tuple[str, ...]) -> Job:
    least, step = chance.choice([1, 1, 2, 3]), chance.choice([1, 1, 1, 2])
    most = least + step * chance.choice([0, 1, 2, 3])
    gpus = chance.random() < (0.8 if any(kinds) else 0.05)
    request = _request(chance) if gpus else Resources(chance.choice([1, 2, 3]) * 1000, chance.choice([0, 1, 6]) * GIB)
    spec = JobSpec(
        id=JobId(f"j{number}"),
        submitted_s=float(chance.randrange(50)),
        request=request,
        workers_min=least,
        workers_max=most,
        workers_initial=least + step * chance.randint(0, (most - least) // step),
        workers_step=step,
        fixed=tuple(_fixed(chance, gpus=gpus)),
        accelerator=chance.choice([None, None, chance.choice(kinds) or None]) if gpus else None,
        priority=chance.randrange(3),
        **_zone(chance, as_term=number % 2 == 1),
        tolerations=(Toleration("team"),) if chance.random() < 0.4 else (),
        restarts_on_resize=chance.random() < 0.2,
    )
    speedups = [1.0]
    for _ in range(most - 1):
        speedups.append(speedups[-1] + chance.uniform(0.1, 1.0))
    return Job(
        spec=spec,
        phase=Phase.SUSPENDED if chance.random() < 0.03 else Phase.WAITING,
        waiting_since_s=spec.submitted_s,
        units_left=chance.choice([None, 10.0, 500.0, 5000.0]),
        curve=SpeedupCurve.from_speedups(speedups),
    )


def _request(chance: random.Random) -> Resources:
    cpu, memory = chance.choice([0, 500, 1000, 2000, 4000]), chance.choice([0, 1, 4]) * GIB
    if chance.random() < 0.3:
        return Resources(cpu, memory, chance.choice([250, 334, 500, 600]), chance.choice([0, 4, 6, 12]) * GIB)
    return Resources(cpu, memory, chance.choice([1000, 1000, 1000, 2000]))


def _fixed(chance: random.Random, *, gpus: bool) -> Iterator[FixedRole]:
    if chance.random() < 0.2:
        yield FixedRole(Role.PS, chance.randint(1, 2), Resources(chance.choice([1, 2, 4]) * 1000, GIB))
    if gpus and chance.random() < 0.08:
        yield FixedRole(Role.CHIEF, 1, Resources(1000, GIB, 1000))


def _seated(chance: random.Random, nodes: list[Node], jobs: list[Job]) -> list[Job]:
    """Let half of the jobs hold workers in some pool; some of those are leaving, others have lost one or two."""
    healthy = [replace(node, ready=True, cordoned=False, taints=()) for node in nodes]
    homes = {job.id: _home(chance, nodes, job) for job in jobs}
    asking = [job for job in jobs if job.phase is Phase.WAITING and homes[job.id] is not None and chance.random() < 0.5]
    sizes = {job.id: chance.choice([job.spec.size_asked, job.spec.size_largest]) for job in asking}
    grants = {job.id: Grant(sizes[job.id], job.spec.workers_min, KEPT) for job in asking}
    at_home = [job.but(spec=replace(job.spec, accelerator=homes[job.id])) for job in asking]
    layout = packed(Snapshot.of(now_s=0, nodes=healthy, jobs=at_home), Target(grants))
    return [_holding(chance, job, layout.workers_of(job.id)) for job in jobs]


def _home(chance: random.Random, nodes: list[Node], job: Job) -> str | None:
    """The pool in which it started; None: in none. Jobs without GPUs start on nodes without GPUs."""
    pools = sorted({node.accelerator for node in nodes})
    if not job.spec.min_request.gpu_milli:
        return "" if "" in pools else None
    return job.spec.accelerator or chance.choice([name for name in pools if name] or [None])


def _holding(chance: random.Random, job: Job, workers: tuple[Worker, ...]) -> Job:
    if not workers:
        return job
    if chance.random() < 0.12:
        return job.but(leaving=workers)
    started_s = float(chance.randrange(50, 900))
    lost = chance.choice([0, 0, 1, 2] if job.spec.workers_step == 1 else [0, 1])
    size = sum(worker.role is Role.WORKER for worker in workers)
    lost = min(lost, size - job.spec.workers_min)  # with fewer than its minimum it would not be running
    workers = workers[: len(workers) - lost]
    return job.but(
        phase=Phase.RUNNING,
        workers=workers,
        waiting_since_s=None,
        started_s=started_s,
        first_started_s=started_s,
        as_of_s=NOW_S,
        gpu_s=float(chance.randrange(9000)),
        gpu_s_since_start=float(chance.randrange(9000)),
    )
