"""Small worlds with everything in them: shares of GPUs, guests, taints, fixed roles, and nodes that come and go."""

from dataclasses import replace
from random import Random

from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import FixedRole, Job, JobSpec, Role
from sterna.model.layout import Layout
from sterna.model.node_affinity import NODE_NAME, LabelOperator, LabelRequirement, NodeWish
from sterna.model.nodes import Effect, Guest, Node, Taint, Toleration, cards
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import NEXT_IN_ORDER
from tests.worlds import GIB

TAINTS = (Taint("new"), Taint("out", effect=Effect.NO_EXECUTE), Taint("wish", effect=Effect.PREFER_NO_SCHEDULE))
NOT_SSD = (LabelRequirement("disk", LabelOperator.NOT_IN, ("ssd",)),)
N1 = (LabelRequirement(NODE_NAME, LabelOperator.IN, ("n1",)),)
HAS_DISK = (LabelRequirement("disk", LabelOperator.EXISTS), LabelRequirement("tape", LabelOperator.DOES_NOT_EXIST))
REQUESTS = (
    Resources(1000, GIB, 1000),
    Resources(500, 0, 2000),
    Resources(0, 0, 1000),
    Resources(100, 0, 500, 4 * GIB),
    Resources(0, 0, 334, 7 * GIB),
    Resources(2000, 2 * GIB),
    Resources(0, 0, 900),
)


def random_node(chance: Random, number: int) -> Node:
    gpus = chance.choice([0, 1, 2, 4, 4])
    allocatable = Resources(chance.choice([4, 16]) * 1000, chance.choice([8, 64]) * GIB, gpus * 1000)
    return Node(
        id=NodeId(f"n{number}"),
        allocatable=allocatable,
        accelerator=chance.choice(["a", "a", "b"]),
        labels=(("disk", chance.choice(["ssd", "tape"])),),
        taints=tuple(taint for taint in TAINTS if chance.random() < 0.08),
        ready=chance.random() > 0.06,
        cordoned=chance.random() < 0.06,
        devices=cards(gpus, memory_bytes=chance.choice([0, 8, 16]) * GIB),
        guests=tuple(_random_guest(chance, index, gpus) for index in range(chance.choice([0, 0, 0, 1, 2]))),
    )


def random_job(chance: Random, number: int) -> Job:
    least = chance.randint(1, 3)
    fixed = (FixedRole(Role.PS, chance.randint(1, 2), Resources(1000)),) if chance.random() < 0.25 else ()
    spec = JobSpec(
        id=JobId(f"j{number}"),
        submitted_s=float(number),
        request=chance.choice(REQUESTS),
        workers_min=least,
        workers_max=least + chance.choice([0, 2, 4]),
        workers_initial=least,
        workers_step=chance.choice([1, 1, 2]),
        fixed=fixed,
        accelerator=chance.choice([None, None, None, "a"]),
        selector=chance.choice([(), (), (), (("disk", "ssd"),)]),
        tolerations=chance.choice([(), (), (Toleration(),)]),
        node_terms=chance.choice([(), (), (), (NOT_SSD, N1), (HAS_DISK,)]),
        node_wishes=chance.choice([(), (), (NodeWish(3, NOT_SSD), NodeWish(1, N1))]),
        node_preference=chance.choice([None, NodeId("n1"), NodeId("never")]),
    )
    return Job(spec=spec)


def random_target(chance: Random, view: Snapshot) -> Target:
    """Sizes that jobs may have, in any order, promising more than there is about as often as not."""
    grants: dict[JobId, Grant] = {}
    for job in chance.sample(view.jobs, len(view.jobs)):
        if chance.random() < 0.8:
            size = job.spec.allowed_size(chance.randint(job.spec.workers_min, job.spec.workers_max))
            keeps = job.size if job.size and chance.random() < 0.5 else size
            floor = job.spec.workers_min if chance.random() < 0.7 else keeps
            grants[job.id] = Grant(keeps, floor, NEXT_IN_ORDER)
    return Target(grants)


def random_world(chance: Random) -> Snapshot:
    nodes = [random_node(chance, number) for number in range(chance.randint(1, 5))]
    return Snapshot.of(
        now_s=0.0, nodes=nodes, jobs=[random_job(chance, number) for number in range(chance.randint(1, 8))]
    )


def next_world(chance: Random, view: Snapshot, layout: Layout) -> Snapshot:
    """The layout came true, perhaps without anybody knowing cards; then nodes were lost, changed or added."""
    jobs = []
    for job in view.jobs:
        workers = layout.workers_of(job.id)
        if chance.random() < 0.15:
            workers = tuple(worker._replace(devices=()) for worker in workers)
        jobs.append(job.but(workers=workers))
    nodes = [node for node in view.nodes if chance.random() > 0.1]
    nodes = [_changed(chance, node) if chance.random() < 0.25 else node for node in nodes]
    if chance.random() < 0.3:
        number = 1 + max((int(node.id[1:]) for node in view.nodes), default=0)
        nodes.append(random_node(chance, number))
    return Snapshot.of(now_s=view.now_s + 60, nodes=nodes, jobs=jobs)


def _changed(chance: Random, node: Node) -> Node:
    other = random_node(chance, int(node.id[1:]))
    return replace(other, allocatable=node.allocatable, devices=node.devices, guests=other.guests or node.guests)


def _random_guest(chance: Random, index: int, gpus: int) -> Guest:
    request = chance.choice(
        [Resources(500, GIB), Resources(0, 0, 1000), Resources(0, 0, 400, 2 * GIB), Resources(9000, 0, 0)]
    )
    named = gpus and request.gpu_milli and chance.random() < 0.6
    return Guest(f"g{index}", request, devices=(DeviceId(str(chance.randrange(gpus))),) if named else ())
