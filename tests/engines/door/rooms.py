"""A household that lives in memory, and a door to it: what an engine has to do for the door, in fifty lines."""

from collections.abc import Mapping
from typing import Any

from sterna.engines.door import Answer, Door, FoundPod, Taken
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.protocol.reports import Batch, Refusal
from sterna.protocol.tokens import TokenOwner
from tests.worlds import GIB, cluster, job, node

SECRET = "an-installation-s-own-secret"
KEY = f"Bearer {SECRET}"


def limited(name: str, *, on: list[str], cpus: int = 4, **more: Any) -> Job:
    """A job whose workers may use so many CPUs each, and ask for a quarter of one."""
    spec = {"limit": Resources(cpus * 1000, 8 * GIB)}
    return job(name, at_most=max(1, len(on)), gpus_each=0, cpus_each=0.25, on=on, spec=spec, **more)


class Rooms:
    """Implements `Household`. Three nodes; job1 has a worker on n1, beside two others' workers and its own server."""

    def __init__(self, *jobs: Job, nodes: int = 3, cpus: int = 4) -> None:
        crowd = [limited("job1", on=["n1"]), limited("job2", on=["n1"]), limited("job3", on=["n1"])]
        self.jobs = list(jobs) or crowd
        self.nodes = [node(f"n{index}", cpus=cpus, memory_gib=16) for index in range(1, nodes + 1)]
        self.facts: dict[str, FoundPod] = {}  # what is known of a worker beside where it is, by its pod's name
        self.asked: list[tuple[str, str]] = []  # pod's uid, target
        self.batches: list[Batch] = []
        self.bound: list[bool] = []  # of each batch: may its sender speak for its own node only?
        self.strangers: list[FoundPod] = []  # that are in no job of the snapshot
        self.trouble: Exception | None = None  # what asking for a move meets
        self.away = ""
        self.odd = ""  # reports of this pod make it stumble
        self.time_s = 1000.0
        self.instance = "first"

    def now_s(self) -> float:
        return self.time_s

    def absence(self) -> str:
        return self.away

    def snapshot(self) -> Snapshot:
        return cluster(nodes=self.nodes, jobs=self.jobs, now_s=self.time_s)

    def limits(self) -> Mapping[NodeId, Resources] | None:
        return None

    def find(self, pod: str, *, namespace: str | None) -> list[FoundPod]:
        known = [self.facts.get(name, found) for name, found in self.pods() if name == pod]
        known += [found for found in self.strangers if found.name == pod]
        return [found for found in known if namespace in (None, found.namespace)]

    def pods(self) -> list[tuple[str, FoundPod]]:
        return [(found.name, found) for job in self.jobs for found in (pod_of(job, worker) for worker in job.workers)]

    async def ask(self, pod: FoundPod, to: NodeId) -> bool:
        if self.trouble is not None:
            raise self.trouble
        if any(uid == pod.uid for uid, _ in self.asked):
            return False
        self.asked.append((pod.uid, to))
        return True

    def take_reports(self, batch: Batch, *, only_here: bool = False) -> Taken:
        self.batches.append(batch)
        self.bound.append(only_here)
        odd = [Refusal(place, it.pod, "odd") for place, it in enumerate(batch.reports) if it.pod == self.odd]
        known = sum(report.pod == "default/job1-worker-0" for report in batch.reports)
        return Taken(known - len(odd), tuple(odd))

    def follow(self, node: str) -> Mapping[str, str]:
        return {"default/job1-worker-0": "loss=(.*)"} if node == "n1" else {}

    def tenants(self, node: str) -> list[TokenOwner]:
        jobs = [job for job in self.jobs if any(worker.node == node for worker in job.workers)]
        return [TokenOwner("default", str(job.id), f"uid-{job.id}") for job in jobs]

    def know(self, pod: str, **facts: Any) -> None:
        found = dict(self.pods())[pod]
        self.facts[pod] = found._replace(**facts)


def pod_of(job: Job, worker: Worker) -> FoundPod:
    name = f"{job.id}-{worker.role}-{worker.ordinal}"
    return FoundPod(name=name, namespace="default", uid=f"uid-{name}-{worker.node}", job_id=job.id, worker=worker)


def server_of(name: str, on: str) -> Job:
    """A job with a parameter server and a worker on one node."""
    held = (Worker(Role.PS, 0, NodeId(on)), Worker(Role.WORKER, 0, NodeId(on)))
    return job(JobId(name), ps=1, gpus_each=0, cpus_each=0.25, holds=held, spec={"limit": Resources(4000, 8 * GIB)})


def door_to(household: Rooms) -> Door:
    return Door(household, lambda: [SECRET])


async def asked(
    household: Rooms, body: bytes | str, *, path: str = "/migrate", method: str = "POST", key: str | None = KEY
) -> Answer:
    sent = body.encode() if isinstance(body, str) else body
    return await door_to(household).answer(method, path, authorization=key, body=sent)
