"""Nodes without kubelets, for tests of everything but containers: fast, and as many as wanted.

with FakeNodes(control_plane.access(), namespace="jobs") as nodes:
    nodes.add(4, gpus=8)
    ...
    nodes.exit("train-worker-0", 1)

Commands may be given from any thread; they are done when they return. In a process of its own, for measurements:
python -m tests.cluster.fake_nodes --kubeconfig FILE --nodes 500 --gpus 8
"""

import argparse
import asyncio
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cluster.fake_kubelets import FakeKubelets, Habits, Pod
from tests.cluster.looping import LoopThread
from tests.cluster.pod_status import (
    Body,
    Ending,
    ended,
    now,
    restarted,
    restarts,
    with_readiness,
)
from tests.cluster.requests import PATIENCE_S, Access, ApiError
from tests.cluster.talking import Talk
from tests.waiting import until_async

UNREACHABLE = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class FakeNodes:
    """Registered nodes and the kubelets they seem to have. `habits` says how these behave."""

    def __init__(self, access: Access, *, namespace: str = "default") -> None:
        self.habits = Habits(on_stop=self._last_word)
        self.namespace = namespace
        self._access = access
        self._words: dict[tuple[str, str], Ending] = {}
        self._thread = LoopThread("fake-kubelets")
        self._added = 0
        self._bodies: dict[str, Body] = {}  # of registered nodes

    def __enter__(self) -> Self:
        self._thread.run(self._open())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The nodes go, and every pod on them."""
        self._thread.run(self._close())
        self._thread.stop()

    # -- nodes

    @property
    def names(self) -> list[str]:
        return sorted(self._kubelets.nodes)

    def add(
        self,
        count: int = 1,
        *,
        cpu: str = "64",
        memory: str = "256Gi",
        gpus: int = 0,
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        prefix: str = "node",
    ) -> list[str]:
        """Registers ready nodes, PREFIX-0 and so on, numbered through."""
        names = [f"{prefix}-{index}" for index in range(self._added, self._added + count)]
        self._added += count
        room = {"cpu": cpu, "memory": memory, "pods": str(pods), **({"nvidia.com/gpu": str(gpus)} if gpus else {})}

        async def register(name: str) -> None:
            body = self._bodies[name] = _node(name, room, labels or {}, taints)
            await self._talk.ask("POST", "/api/v1/nodes", body)
            self._kubelets.nodes.add(name)

        self._all(register(name) for name in names)
        return names

    def stop_kubelet(self, node: str, *, off: bool = False) -> None:
        """Nobody there answers: the node is not ready, its pods stay as they are and are no longer ready.

        `off`: and people say that the machine is off, so that there is nothing to wait for.
        """
        why = [UNREACHABLE, OUT_OF_SERVICE] if off else [UNREACHABLE]

        async def silence() -> None:
            self._kubelets.silent.add(node)
            await self._talk.ask("PATCH", f"/api/v1/nodes/{node}/status", _readiness("Unknown"))
            taints = [{"key": key, "effect": effect} for key in why for effect in ("NoSchedule", "NoExecute")]
            await self._retaint(node, taints)
            await asyncio.gather(*(self._set_ready(pod, False) for pod in self._kubelets.on(node)))

        self._thread.run(silence())

    def start_kubelet(self, node: str) -> None:
        """Back, and at work on what was asked for meanwhile."""

        async def speak() -> None:
            self._kubelets.silent.discard(node)
            await self._talk.ask("PATCH", f"/api/v1/nodes/{node}/status", _readiness("True"))
            await self._retaint(node, [])
            for pod in self._kubelets.on(node):
                if pod.metadata.deletionTimestamp is None:
                    await self._set_ready(pod, True)
                self._kubelets.consider(pod)

        self._thread.run(speak())

    def delete(self, node: str) -> None:
        """The machine is gone, and its Node object; its pods are not, until somebody removes them."""
        self._kubelets.silent.add(node)
        self._ask("DELETE", f"/api/v1/nodes/{node}")

    def register_again(self, node: str) -> None:
        """The Node object that was deleted is back, under its name, and its kubelet goes on with the pods it finds."""
        self._ask("POST", "/api/v1/nodes", self._bodies[node])
        self.start_kubelet(node)

    def cordon(self, node: str, on: bool = True) -> None:
        self._ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on or None}})

    def taint(self, node: str, *taints: Mapping[str, str]) -> None:
        """These taints and no others: {"key": ..., "value": ..., "effect": ...}."""
        self._ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [*taints]}})

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """None takes a label away."""
        self._ask("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": dict(labels)}})

    def annotate(self, node: str, annotations: Mapping[str, str | None]) -> None:
        self._ask("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": dict(annotations)}})

    # -- pods

    def pods(self, namespace: str | None = None) -> list[Body]:
        """As the API server has them now."""
        items: list[Body] = self._ask("GET", f"/api/v1/namespaces/{namespace or self.namespace}/pods")["items"]
        return items

    def exit(
        self,
        pod: str,
        code: int,
        *,
        message: str = "",
        reason: str = "",
        container: str | None = None,  # None: every container of the pod
        namespace: str | None = None,
    ) -> None:
        """Its program ends, once it has begun. Restarted in place if the pod's policy says so, else the pod is over."""
        ending = Ending(code, message, reason)

        def over(status: Body, policy: str) -> Body:
            if restarts(policy, code):
                return restarted(status, ending, container=container)
            return ended(status, ending, policy=policy, container=container)

        self._thread.run(self._change(namespace, pod, over))

    def ready(self, pod: str, ready: bool, *, namespace: str | None = None) -> None:
        self._thread.run(self._change(namespace, pod, lambda status, _: with_readiness(status, ready)))

    def start(self, pod: str, *, namespace: str | None = None) -> None:
        """One pod that `habits.hold_starts` kept from starting; returns when it runs."""

        async def begin() -> None:
            self._kubelets.consider(await self._known(namespace, pod), start_now=True)
            await self._begun(namespace, pod)

        self._thread.run(begin())

    def say(self, pod: str, message: str, *, code: int = 143, namespace: str | None = None) -> None:
        """What its termination message and exit code will be when it is deleted."""
        self._words[namespace or self.namespace, pod] = Ending(code, message)

    def let_go(self, pod: str, *, code: int = 143, message: str = "", namespace: str | None = None) -> None:
        """A deleted pod that `habits.on_stop` kept: its containers end now, and it is gone."""

        async def end() -> None:
            await self._kubelets.stop(await self._known(namespace, pod), Ending(code, message))

        self._thread.run(end())

    # -- how

    async def _open(self) -> None:
        self._talk = Talk(self._access)
        self._kubelets = FakeKubelets(self._talk, self.habits)
        self._playing = asyncio.create_task(self._kubelets.play())

    async def _close(self) -> None:
        self._playing.cancel()
        nodes = self._kubelets.nodes
        bound = "/api/v1/pods?fieldSelector=spec.nodeName!="
        pods = (await self._kubelets.insist(lambda: self._talk.ask("GET", bound)))["items"]
        mine = [pod["metadata"] for pod in pods if pod["spec"]["nodeName"] in nodes]
        paths = [f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}" for meta in mine]
        paths += [f"/api/v1/nodes/{node}" for node in nodes]
        await asyncio.gather(*(self._remove(path) for path in paths))
        await self._talk.close()

    async def _remove(self, path: str) -> None:
        """Insists: a node that is left behind has the name that the next test's first node wants."""
        try:
            await self._kubelets.insist(lambda: self._talk.ask("DELETE", path, {"gracePeriodSeconds": 0}))
        except ApiError as error:
            if error.status != 404:  # gone already
                raise

    def _last_word(self, pod: Pod) -> Ending:
        return self._words.get((pod.metadata.namespace, pod.metadata.name), Ending())

    async def _known(self, namespace: str | None, name: str) -> Pod:
        """As the kubelets know it; they hear of a pod a moment after it is created."""
        named = partial(self._kubelets.named, namespace or self.namespace, name)
        pod: Pod = await until_async(named, f"pod {name} on a fake node", patience_s=PATIENCE_S)
        return pod

    async def _begun(self, namespace: str | None, name: str) -> tuple[Pod, Body]:
        """A pod whose containers have been started, and its status."""

        async def looked() -> tuple[Pod, Body] | None:
            pod = await self._known(namespace, name)
            status: Body = (await self._talk.ask("GET", pod.path))["status"]
            return (pod, status) if status.get("containerStatuses") else None

        begun: tuple[Pod, Body] = await until_async(
            looked, f"pod {name} has started", patience_s=PATIENCE_S, every_s=0.05
        )
        return begun

    async def _change(self, namespace: str | None, name: str, change: Callable[[Body, str], Body]) -> None:
        pod, status = await self._begun(namespace, name)
        await self._kubelets.write_status(pod, change(status, pod.spec.restartPolicy))

    async def _set_ready(self, pod: Pod, ready: bool) -> None:
        with suppress(ApiError):  # gone meanwhile
            status = (await self._talk.ask("GET", pod.path))["status"]
            if status["phase"] == "Running":
                await self._kubelets.write_status(pod, with_readiness(status, ready))

    async def _retaint(self, node: str, silent: list[Body]) -> None:
        spec = (await self._talk.ask("GET", f"/api/v1/nodes/{node}"))["spec"]
        kept = [taint for taint in spec.get("taints", []) if taint["key"] not in (UNREACHABLE, OUT_OF_SERVICE)]
        await self._talk.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [*kept, *silent]}})

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return self._thread.run(self._talk.ask(method, path, body))

    def _all(self, works: Any) -> None:
        async def together() -> None:
            await asyncio.gather(*works)

        self._thread.run(together())


def _node(name: str, room: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]) -> Body:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}},
        "spec": {"taints": [*taints]},
        "status": {
            "capacity": dict(room),
            "allocatable": dict(room),
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            **_readiness("True")["status"],
        },
    }


def _readiness(status: str) -> Body:
    condition = {"type": "Ready", "status": status, "reason": "Fake", "lastHeartbeatTime": now()}
    return {"status": {"conditions": [{**condition, "lastTransitionTime": now()}]}}


def main() -> None:
    """Until it is told to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.fake_nodes", description=main.__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="one that ControlPlane.kubeconfig wrote")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--cpu", default="64")
    parser.add_argument("--memory", default="256Gi")
    parser.add_argument("--gpus", type=int, default=8)
    options = parser.parse_args()
    config = json.loads(options.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    access = Access(cluster["server"], user["token"], cluster.get("certificate-authority"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), FakeNodes(access) as nodes:
        nodes.add(options.nodes, cpu=options.cpu, memory=options.memory, gpus=options.gpus)
        print("ready", flush=True)  # noqa: T201
        signal.pause()


if __name__ == "__main__":
    main()
