"""An operator on a thread of its own, before the real API server, and the jobs that tests give it.

    with lab.operator() as operator: ...    # ends in good order
    operator.kill()                         # as a crash does: nothing is finished, nothing is given back

Nodes are fake: pods run there by status alone. Everything is looked at through the API, as a user would.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from sterna.engines.kubernetes.apiserver.client import connect, from_kubeconfig
from sterna.engines.kubernetes.apiserver.port import Api as Door
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.wire.manifests import read_migration, workload_of_object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.looping import LoopThread
from tests.cluster.requests import Body, until

PLURALS = {
    "TFJob": "/apis/kubeflow.org/v1/namespaces/{}/tfjobs",
    "PyTorchJob": "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs",
    "MPIJob": "/apis/kubeflow.org/v1/namespaces/{}/mpijobs",
    "ElasticJob": "/apis/sterna.dev/v1alpha1/namespaces/{}/elasticjobs",
    "Migration": "/apis/sterna.dev/v1alpha1/namespaces/{}/migrations",
}
ELECTION: dict[str, Any] = {"elect": True, "lease_s": 6.0, "renew_s": 1.0, "retry_s": 0.5}
Wrap = Callable[[Door], Any]  # what comes out is a door as well, if perhaps by delegation


class RunningOperator:
    """`wrap`: another door before the real one, to see or disturb what passes."""

    def __init__(self, plane: ControlPlane, config: OperatorConfig, *, wrap: Wrap | None = None) -> None:
        self._thread = LoopThread(f"operator-{config.identity}")
        self._started = threading.Event()
        self._plane = plane
        self._config = config
        self._wrap = wrap or (lambda door: door)
        self._operator: Operator | None = None
        self._ended: Future[None] = asyncio.run_coroutine_threadsafe(self._run(), self._thread.loop)

    async def _run(self) -> None:
        async with connect(from_kubeconfig([self._plane.kubeconfig()])) as api:
            self._operator = Operator(
                self._config, self._wrap(api), parse=workload_of_object, read_migration=read_migration
            )
            self._started.set()
            await self._operator.run()

    @property
    def operator(self) -> Operator:
        assert self._started.wait(60), "it never began"
        assert self._operator is not None
        return self._operator

    @property
    def running(self) -> bool:
        return not self._ended.done()

    def ask(self, question: Callable[[Operator], Any]) -> Any:
        """In its own thread, so that nothing changes meanwhile."""

        async def asked() -> Any:
            return question(self.operator)

        return self._thread.run(asked())

    def until_leads(self) -> Self:
        until(lambda: self.operator.leads, "it leads", story=lambda: self.operator.health())
        return self

    def kill(self) -> None:
        """Cancelled wherever it is."""
        if self._thread.loop.is_closed():
            return  # it ended before
        self._ended.cancel()
        with suppress(BaseException):
            self._ended.result(60)
        self._thread.stop()

    def stop(self) -> None:
        """As SIGTERM does it; whatever went wrong in there is raised here."""
        self._thread.loop.call_soon_threadsafe(self.operator.stop)
        try:
            self._ended.result(60)
        finally:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None and self.running:
            self.stop()
        else:
            self.kill()


class Lab:
    def __init__(self, plane: ControlPlane, namespace: str, nodes: FakeNodes) -> None:
        self.api = plane.api()
        self.namespace = namespace
        self.nodes = nodes
        self.kubeconfig = plane.kubeconfig()
        self._plane = plane
        self._operators: list[RunningOperator] = []

    def operator(self, *, wrap: Wrap | None = None, **settings: Any) -> RunningOperator:
        """One that looks after this namespace, and leads unless it is told to take part in an election."""
        defaults = {
            "namespace": self.namespace,
            "watch": (self.namespace,),
            "elect": False,
            "rate_limit_s": 0.0,
            "retry_s": 0.2,
        }
        running = RunningOperator(self._plane, OperatorConfig(**{**defaults, **settings}), wrap=wrap)
        self._operators.append(running)
        return running

    def close(self) -> None:
        for running in self._operators:
            running.kill()

    # -- objects ------------------------------------------------------------------------------------------------------

    def path(self, kind: str, name: str = "") -> str:
        return PLURALS[kind].format(self.namespace) + (f"/{name}" if name else "")

    def create(self, body: Body) -> Body:
        return self.api.create(self.path(body["kind"]), body)

    def job(self, kind: str, name: str) -> Body:
        return self.api.get(self.path(kind, name))

    def edit(self, kind: str, name: str, body: Body) -> Body:
        return self.api.patch(self.path(kind, name), body)

    def delete(self, kind: str, name: str) -> None:
        self.api.delete(self.path(kind, name))

    def pods(self) -> dict[str, Body]:
        items = self.api.items(f"/api/v1/namespaces/{self.namespace}/pods")
        return {pod["metadata"]["name"]: pod for pod in items}

    def config_map(self, name: str, data: Mapping[str, str]) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        existing = {found["metadata"]["name"] for found in self.api.items(path)}
        body = {"metadata": {"name": name}, "data": dict(data)}
        if name in existing:
            self.api.replace(f"{path}/{name}", body)
        else:
            self.api.create(path, body)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of all events about an object of this name."""
        found = self.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [(e["reason"], e["message"]) for e in found if e["involvedObject"]["name"] == name]

    # -- waiting ------------------------------------------------------------------------------------------------------

    def until_pods(self, *names: str, phase: str = "Running") -> dict[str, Body]:
        """Exactly these, all in this phase, and none on its way out."""

        def there() -> bool:
            pods = self.pods()
            return pods.keys() == set(names) and all(
                pod["status"]["phase"] == phase and "deletionTimestamp" not in pod["metadata"] for pod in pods.values()
            )

        until(there, f"pods {', '.join(names)} are {phase}", story=self.story)
        return self.pods()

    def until_state(self, kind: str, name: str, state: str) -> Body:
        until(lambda: state_of(self.job(kind, name)) == state, f"{name} is {state}", story=self.story)
        return self.job(kind, name)

    def until_phase(self, migration: str, *phases: str) -> Body:
        def status() -> Body:
            found: Body = self.job("Migration", migration).get("status", {})
            return found

        until(lambda: status().get("phase") in phases, f"{migration} is {phases}", story=self.story)
        return status()

    def until_condition(self, kind: str, name: str, condition: str) -> Body:
        until(lambda: condition in conditions_of(self.job(kind, name)), f"{name} is {condition}", story=self.story)
        return self.job(kind, name)

    def story(self) -> str:
        """What a failure shows."""
        pods = [
            f"{name} {pod['spec'].get('nodeName')} {pod['status']['phase']} "
            f"{'terminating' if 'deletionTimestamp' in pod['metadata'] else ''}"
            for name, pod in self.pods().items()
        ]
        jobs = [
            f"{kind} {job['metadata']['name']}: {job.get('status', {})}"
            for kind in PLURALS
            for job in self.api.items(self.path(kind))
        ]
        health = [running.operator.health() for running in self._operators if running.running]
        return "\n".join([*pods, *jobs, *map(str, health)])


def state_of(job: Body) -> str:
    return str(job.get("status", {}).get("scheduling", {}).get("state", ""))


def conditions_of(job: Body) -> dict[str, str]:
    """Those that are true, with their reasons."""
    found = job.get("status", {}).get("conditions", [])
    return {each["type"]: each["reason"] for each in found if each["status"] == "True"}


def tf_job(name: str, *, workers: int = 2, low: int = 1, high: int = 4, ps: int = 1, gpus: int = 1) -> Body:
    def replica(container: Mapping[str, Any], replicas: int) -> Body:
        spec = {"terminationGracePeriodSeconds": 2, "containers": [dict(container)]}
        return {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": spec}}

    image = {"name": "tensorflow", "image": "localhost/none:1"}
    worker = {**image, "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": gpus} if gpus else {"cpu": "1"}}}
    replicas = {"Worker": replica(worker, workers)}
    if ps:
        replicas["PS"] = replica({**image, "resources": {"limits": {"cpu": "1"}}}, ps)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"min-instances": low, "max-instances": high, "cleanPodPolicy": "Running", "tfReplicaSpecs": replicas},
    }


def elastic_job(name: str, *, low: int = 1, high: int = 2, gpus: int = 1, grace_s: int = 2) -> Body:
    """One whose workers all start anew at every change."""
    return {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {
            "workers": {"min": low, "max": high, "initial": low},
            "image": "localhost/none:1",
            "command": ["sleep", "1000"],
            "resources": {"limits": {"cpu": "1", **({"nvidia.com/gpu": gpus} if gpus else {})}},
            "terminationGracePeriodSeconds": grace_s,
        },
    }


def torch_job(name: str, *, low: int = 1, high: int = 2) -> Body:
    """One whose members come and go."""
    container = {
        "name": "pytorch",
        "image": "localhost/none:1",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "command": ["sleep", "1000"],
    }
    spec = {"terminationGracePeriodSeconds": 2, "containers": [container]}
    worker = {"replicas": low, "restartPolicy": "OnFailure", "template": {"spec": spec}}
    elastic = {"minReplicas": low, "maxReplicas": high, "rdzvBackend": "c10d"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"elasticPolicy": elastic, "pytorchReplicaSpecs": {"Worker": worker}},
    }


def migration(name: str, **spec: Any) -> Body:
    kind = {"apiVersion": "sterna.dev/v1alpha1", "kind": "Migration"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def nodes_of(pods: Mapping[str, Body]) -> dict[str, str]:
    return {name: pod["spec"]["nodeName"] for name, pod in pods.items()}


def uids_of(pods: Mapping[str, Body]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def same(names: Sequence[str], before: Mapping[str, Body], after: Mapping[str, Body]) -> bool:
    """Are these the very pods that they were?"""
    return all(uids_of(before)[name] == uids_of(after)[name] for name in names)
