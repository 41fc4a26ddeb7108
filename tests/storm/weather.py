"""The state of a storm: what there is to be disturbed, and which disturbances last. Nothing here disturbs anything."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.cluster.fake_kubelets import Pod
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.pod_status import Rejection
from tests.cluster.requests import Api, Body
from tests.storm.errands import Errand, Programs
from tests.storm.operator_process import OperatorProcess


@dataclass
class Weather:
    api: Api
    nodes: FakeNodes
    operator: OperatorProcess
    programs: Programs
    namespaces: Sequence[str]
    chance: random.Random
    eviction_version: str  # policy/v1 where the API server has it
    cordoned: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)  # nodes that are not ready
    deleted: set[str] = field(default_factory=set)  # nodes whose objects are gone
    sick: dict[str, Rejection] = field(default_factory=dict)  # nodes that refuse pods
    quotas: set[str] = field(default_factory=set)  # namespaces that have one
    ended: set[tuple[str, str]] = field(default_factory=set)  # namespaces and names of jobs
    ownerless: set[str] = field(default_factory=set)  # paths of pods that were taken from their jobs

    def refusal(self, pod: Pod) -> Rejection | None:
        """What a node says of a pod that comes there. None: it is let in."""
        return self.sick.get(pod.spec.nodeName)

    def some_job(self, *kinds: str) -> Errand | None:
        """Any of these kinds, and seldom one that has ended."""
        there = [key for key, errand in self.programs.errands.items() if not kinds or errand.kind in kinds]
        if self.chance.random() < 0.9:
            there = [key for key in there if key not in self.ended]
        return self.programs.errands[self.chance.choice(there)] if there else None

    def some_pod(self, *phases: str) -> Body | None:
        """Any that is not on its way out, of any namespace of the storm."""
        namespace = self.chance.choice(self.namespaces)
        found = self.api.items(f"/api/v1/namespaces/{namespace}/pods")
        there = [pod for pod in found if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName")]
        there = [pod for pod in there if not phases or pod["status"].get("phase") in phases]
        return self.chance.choice(sorted(there, key=lambda pod: str(pod["metadata"]["name"]))) if there else None

    def some_node(self) -> str:
        """One that is there, and answers."""
        return self.chance.choice([name for name in self.nodes.names if name not in self.deleted | self.silent])

    def forget(self, errand: Errand) -> None:
        """It is not looked after any more."""
        del self.programs.errands[errand.namespace, errand.name]

    def pass_s(self, seconds: float) -> None:
        """A part of the storm in which nothing new happens."""
        time.sleep(max(0.0, seconds))
