"""A day in the life of a cluster, as a script: jobs come, share, fail, are moved, suspended and deleted.

Every line waits until what it asked for is true and everything is at rest, so that the day is the same whenever and
however often the operator dies in it. What is left in the evening, and how often every pod was made, is the result.
"""

import threading
from collections import Counter
from typing import NamedTuple

from tests.cluster.requests import ApiError
from tests.kubernetes.jobs import elasticjob, mpijob, tfjob
from tests.kubernetes.lab import Lab


class Evening(NamedTuple):
    """What a day came to."""

    pods: tuple[str, ...]  # that are left, with their nodes
    states: tuple[tuple[str, str], ...]  # of the jobs that are left
    made: tuple[tuple[str, int], ...]  # how often each pod was made


class Register:
    """Notes every pod that ever was, by looking often; a pod that lives for one look is none that counts."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._seen: dict[str, str] = {}  # name by uid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> tuple[tuple[str, int], ...]:
        self._over.set()
        self._thread.join()
        return tuple(sorted(Counter(self._seen.values()).items()))

    def look(self) -> None:
        for pod in self._lab.all_pods():
            self._seen[pod["metadata"]["uid"]] = pod["metadata"]["name"]

    def _look(self) -> None:
        while not self._over.wait(0.1):
            try:
                self.look()
            except (ApiError, OSError):
                continue


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
    register.look()
    pods = tuple(f"{pod['metadata']['name']}" for pod in lab.pods())
    states = tuple((f"{kind}/{name}", lab.phase(kind, name)) for kind, name in LEFT)
    return Evening(pods, states, register.close())


LEFT = (("TFJob", "served"), ("MPIJob", "hosts"), ("ElasticJob", "late"))
