"""A day in the life of a cluster, as a script: jobs come, share, fail, are moved, suspended and deleted.

Every line waits until what it asked for is true and everything is at rest, so that the day is the same whenever and
however often the operator dies in it. What is left in the evening, and how often every pod was made, is the result.
"""

import asyncio
from collections import Counter
from typing import NamedTuple

import msgspec

from tests.cluster.fake_kubelets import Pod
from tests.cluster.looping import LoopThread
from tests.cluster.requests import until
from tests.cluster.talking import Talk
from tests.kubernetes.jobs import elasticjob, mpijob, tfjob
from tests.kubernetes.lab import Lab


class Evening(NamedTuple):
    """What a day came to."""

    pods: tuple[str, ...]  # that are left, with their nodes
    states: tuple[tuple[str, str], ...]  # of the jobs that are left
    made: tuple[tuple[str, int], ...]  # how often each pod was made


class Register:
    """Notes every pod that ever was, by a watch: none lives too short a time to be seen, however busy a machine is."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._seen: dict[str, str] = {}  # name by uid
        self._thread = LoopThread("register")
        self._talk = self._thread.run(self._open())

    def close(self) -> tuple[tuple[str, int], ...]:
        present = {pod["metadata"]["uid"] for pod in self._lab.all_pods()}
        until(lambda: present <= self._seen.keys(), "the watch has come to the evening")
        self._thread.run(self._talk.close())
        self._thread.stop()
        return tuple(sorted(Counter(self._seen.values()).items()))

    async def _open(self) -> Talk:
        talk = Talk(self._lab.plane.access())
        self._following = asyncio.create_task(self._follow(talk))
        return talk

    async def _follow(self, talk: Talk) -> None:
        async for change in talk.follow(f"/api/v1/namespaces/{self._lab.namespace}/pods"):
            for raw in change.objects:
                pod = msgspec.json.decode(raw, type=Pod)
                self._seen[pod.metadata.uid] = pod.metadata.name


def live_through(lab: Lab) -> Evening:
    """Three nodes of two GPUs; the operator is started by whoever calls, under elastic-fifo."""
    register = Register(lab)
    node = lab.nodes.names
    at = lab.until_rest

    lab.submit(tfjob("served", workers=(1, 2, 4)))
    lab.until_pods("served", "served-ps-0", *(f"served-worker-{i}" for i in range(4)))
    at()
    lab.submit(elasticjob("gang", workers=(2, 2), policy="ExitCode"))
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    at()
    lab.submit(mpijob("hosts", workers=(1, 1, 1)))
    lab.until_pods("hosts", "hosts-launcher-0", "hosts-worker-0")
    lab.until_pods("served", "served-ps-0", *(f"served-worker-{i}" for i in range(3)))
    at()
    before = {pod["metadata"]["uid"] for pod in lab.pods("gang")}
    lab.nodes.exit("gang-worker-1", 137)  # tried again, and with it the whole gang
    lab.until(
        lambda: len([p for p in lab.pods("gang") if p["metadata"]["uid"] not in before]) == 2, "the gang begins anew"
    )
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    at()
    lab.nodes.exit("served-worker-0", 0)  # which ends the job
    lab.until_true("TFJob", "served", "Succeeded")
    lab.until_pods("served")
    at()
    lab.edit("MPIJob", "hosts", {"spec": {"runPolicy": {"suspend": True}}})
    lab.until_true("MPIJob", "hosts", "Suspended")
    lab.until_pods("hosts")
    at()
    lab.edit("MPIJob", "hosts", {"spec": {"runPolicy": {"suspend": False}}})
    lab.until_pods("hosts", "hosts-launcher-0", "hosts-worker-0")
    at()
    taken = next(pod["spec"]["nodeName"] for pod in lab.pods("gang"))
    lab.nodes.cordon(taken)
    lab.nodes.annotate(taken, {"sterna.dev/drain": "true"})
    lab.until(lambda: not any(pod["spec"]["nodeName"] == taken for pod in lab.all_pods()), f"{taken} is empty")
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    lab.until_pods("hosts", "hosts-launcher-0", "hosts-worker-0")
    at()
    lab.nodes.annotate(taken, {"sterna.dev/drain": None})
    lab.nodes.cordon(taken, on=False)
    lab.delete("ElasticJob", "gang")
    lab.until_pods("gang")
    at()
    lab.submit(elasticjob("late", workers=(4, 4)))
    lab.until_pods("late", *(f"late-worker-{i}" for i in range(4)))
    at()
    assert node == lab.nodes.names
    pods = tuple(f"{pod['metadata']['name']}" for pod in lab.pods())
    states = tuple((f"{kind}/{name}", lab.phase(kind, name)) for kind, name in LEFT)
    return Evening(pods, states, register.close())


LEFT = (("TFJob", "served"), ("MPIJob", "hosts"), ("ElasticJob", "late"))
