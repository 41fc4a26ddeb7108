"""Jobs of a storm: how each is written, how its programs run, and what they earn whatever happens to their pods.

A program that is killed, evicted or moved is no failure of its own and is tried again, so how it ends by itself decides
how its job ends.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.fake_kubelets import Pod, Run
from tests.cluster.pod_status import Ending
from tests.cluster.requests import Body

KINDS = ("ElasticJob", "TFJob", "MPIJob", "PyTorchJob")
ENDINGS = {"brief": "Succeeded", "stumbles": "Succeeded", "fails": "Failed", "endless": ""}
GRACE_S = 2
STUMBLES = 137  # killed by a signal: ExitCode tries that again
_ENDLESS_WORKERS = 2


@dataclass
class Errand:
    kind: str
    namespace: str
    name: str
    earns: str  # the condition that is true in the end. Empty: it runs on for ever
    policy: str  # restartPolicy of the role that ends
    backoff_limit: int | None
    sizes: tuple[int, int]  # workers, from and to
    cpu: int  # of each pod. 0: it does not say
    run_s: float
    clean_up: str  # cleanPodPolicy
    suspended: bool = False
    stumbled: bool = False

    @property
    def path(self) -> str:
        return f"{plural_path(self.kind, self.namespace)}/{self.name}"

    @property
    def leader(self) -> str:
        """The pod whose end is the job's."""
        return f"{self.name}-launcher-0" if self.kind == "MPIJob" else f"{self.name}-worker-0"

    def run(self, pod: str) -> Run | None:
        """What the program in this pod does. None: it runs on for ever."""
        sort, role = self.name.split("-")[0], pod.removeprefix(f"{self.name}-").split("-")[0]
        leads = pod == self.leader
        if sort == "endless" or role == "ps" or (self.kind == "MPIJob" and not leads):
            return None
        if sort == "fails":
            return Run(self.run_s, Ending(3)) if leads else None
        if sort == "stumbles" and leads and not self.stumbled:
            self.stumbled = True
            return Run(self.run_s, Ending(STUMBLES))
        return Run(self.run_s, Ending(0))

    # -- how it is written

    def body(self) -> Body:
        spec: dict[str, Any] = {**self.size_spec(*self.sizes), "runPolicy": self._run_policy()}
        if self.kind == "ElasticJob":
            spec |= {"restartPolicy": self.policy, "terminationGracePeriodSeconds": GRACE_S, **self._container()}
        else:
            spec = merged(spec, self._replicas())
        group = "sterna.dev/v1alpha1" if self.kind == "ElasticJob" else "kubeflow.org/v1"
        return {"apiVersion": group, "kind": self.kind, "metadata": {"name": self.name}, "spec": spec}

    def size_spec(self, low: int, high: int, initial: int | None = None) -> Body:
        """The part of the spec that says how many workers it has."""
        now = low if initial is None else initial
        match self.kind:
            case "ElasticJob":
                return {"workers": {"min": low, "max": high, "initial": now}}
            case "TFJob":
                sizes = {"min-instances": low, "max-instances": high}
                return {**sizes, "tfReplicaSpecs": {"Worker": {"replicas": now}}}
            case "PyTorchJob":
                elastic = {"minReplicas": low, "maxReplicas": high, "rdzvBackend": "c10d"}
                return {"elasticPolicy": elastic, "pytorchReplicaSpecs": {"Worker": {"replicas": now}}}
            case _:
                return {"mpiReplicaSpecs": {"Worker": {"replicas": now}}}

    def template_spec(self, **container: Any) -> Body:
        """The part of the spec that says what a worker is, with this in its container."""
        if self.kind == "ElasticJob":
            return {**self._container(), **container}
        template = self._template(_CONTAINERS[self.kind], gpus=1, **container)
        return {_REPLICAS[self.kind]: {"Worker": {"template": template}}}

    def _run_policy(self) -> Body:
        policy: Body = {"cleanPodPolicy": self.clean_up}
        return policy if self.backoff_limit is None else {**policy, "backoffLimit": self.backoff_limit}

    def _replicas(self) -> Body:
        worker = {"restartPolicy": self.policy, "template": self._template(_CONTAINERS[self.kind], gpus=1)}
        match self.kind:
            case "TFJob":
                ps = {"replicas": 1, "restartPolicy": self.policy, "template": self._template("tensorflow")}
                return {"tfReplicaSpecs": {"Worker": worker, "PS": ps}}
            case "PyTorchJob":
                return {"pytorchReplicaSpecs": {"Worker": worker}}
            case "MPIJob":
                low, high = self.sizes
                numbers = {"NUM_PROC": low, "MIN_NUM_PROC": low, "MAX_NUM_PROC": high, "EPOCHS": 3}
                env = [{"name": name, "value": str(value)} for name, value in numbers.items()]
                template = self._template("mpi", command=["horovodrun"], env=env)
                launcher = {"replicas": 1, "restartPolicy": self.policy, "template": template}
                worker.pop("restartPolicy")
                return {"slotsPerWorker": 1, "mpiReplicaSpecs": {"Worker": worker, "Launcher": launcher}}
            case _:
                return {}

    def _template(self, name: str, *, gpus: int = 0, **container: Any) -> Body:
        one = {"name": name, **self._container(gpus=gpus), **container}
        return {"spec": {"terminationGracePeriodSeconds": GRACE_S, "containers": [one]}}

    def _container(self, *, gpus: int = 1) -> Body:
        limits = {"memory": "1Gi", **({"nvidia.com/gpu": gpus} if gpus else {})}
        limits |= {"cpu": str(self.cpu)} if self.cpu else {}
        return {"image": "localhost/none:1", "command": ["train"], "resources": {"limits": limits}}


_CONTAINERS = {"TFJob": "tensorflow", "MPIJob": "mpi", "PyTorchJob": "pytorch"}
_REPLICAS = {"TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs"}


def drawn(chance: random.Random, number: int, namespace: str, *, run_s: tuple[float, float], endless: bool) -> Errand:
    """Any job. `run_s`: how long its programs run, from and to. `endless`: may it be one that never ends?"""
    sorts = ("brief", "stumbles", "fails", "endless") if endless else ("brief", "stumbles", "fails")
    (sort,) = chance.choices(sorts, (40, 20, 20, 20)[: len(sorts)])
    low = chance.choice((1, 1, 2))
    policy, limit = _tries(chance, sort)
    return Errand(
        kind=chance.choice(KINDS),
        namespace=namespace,
        name=f"{sort}-{number}",
        earns=ENDINGS[sort],
        policy=policy,
        backoff_limit=limit,
        sizes=(low, _ENDLESS_WORKERS if sort == "endless" else low + chance.choice((0, 1, 2))),
        cpu=chance.choice((0, 1, 2)),
        run_s=chance.uniform(*run_s),
        clean_up=chance.choice(("Running", "All")),
    )


def _tries(chance: random.Random, sort: str) -> tuple[str, int | None]:
    """Restart policy and backoffLimit, such that a program that fails by itself earns what `ENDINGS` says."""
    match sort:
        case "fails":
            return chance.choice((("Never", None), ("ExitCode", None), ("OnFailure", 1), ("OnFailure", 2)))
        case "stumbles":
            return "ExitCode", None
        case _:
            return chance.choice(("OnFailure", "ExitCode", "Never")), None


class Programs:
    """What runs in the pods of all jobs: what the played kubelets ask."""

    def __init__(self) -> None:
        self.errands: dict[tuple[str, str], Errand] = {}  # by namespace and name

    def run(self, pod: Pod, restarts: int) -> Run | None:
        job = pod.metadata.name.rsplit("-", 2)[0]
        errand = self.errands.get((pod.metadata.namespace, job))
        found = None if errand is None else errand.run(pod.metadata.name)
        return found if found is None else found._replace(for_s=found.for_s * 2.0 ** min(restarts, 4))


def plural_path(kind: str, namespace: str | None) -> str:
    """Of all jobs of a kind, in one namespace or in all."""
    group = "sterna.dev/v1alpha1" if kind == "ElasticJob" else "kubeflow.org/v1"
    where = "" if namespace is None else f"namespaces/{namespace}/"
    return f"/apis/{group}/{where}{kind.lower()}s"


def merged(left: Mapping[str, Any], right: Mapping[str, Any]) -> Body:
    """As a merge patch does it."""
    found = dict(left)
    for key, value in right.items():
        known = found.get(key)
        found[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return found
