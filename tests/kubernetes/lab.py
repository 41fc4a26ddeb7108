"""An operator under test: in this process, on a thread of its own, before a real API server and nodes without kubelets.

It acts as the user `sterna`, who has the rights that deploy/ gives and no others. `kill` ends it as a power cut does:
whatever it was about to send is never sent, and nothing is tidied up.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sterna.engines.kubernetes.apiserver.client import connect, from_kubeconfig
from sterna.engines.kubernetes.apiserver.port import EVENTS, LEASES, Api, Resource
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import Binding, OperatorConfig
from sterna.wire.manifests import read_migration, workload_of_object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.looping import LoopThread
from tests.cluster.requests import ApiError, Body, until
from tests.journal.shapes import SHAPES

GROUPS = {
    "TFJob": "kubeflow.org/v1/{}/tfjobs",
    "PyTorchJob": "kubeflow.org/v1/{}/pytorchjobs",
    "MPIJob": "kubeflow.org/v1/{}/mpijobs",
    "ElasticJob": "sterna.dev/v1alpha1/{}/elasticjobs",
    "Migration": "sterna.dev/v1alpha1/{}/migrations",
}
WRITES = frozenset({"create", "patch", "replace", "delete", "bind"})
UNCOUNTED = frozenset({EVENTS, LEASES})  # how many events there are depends on time, and leases are renewed for ever


Fatal = Callable[[str, tuple[Any, ...], dict[str, Any]], bool]  # verb and what it was called with


class Killed(BaseException):
    """The operator's process is gone. Not an Exception: nothing in it may catch this and go on."""


class Mortal:
    """An `Api` that dies: before or after its n-th write or one that `dies_of` chooses, or when told to.

    Once dead, nothing more gets through.
    """

    def __init__(
        self, api: Api, *, dies_at: int | None = None, after: bool = False, dies_of: Fatal | None = None
    ) -> None:
        self._api = api
        self._fate = _Fate(dies_at, after, dies_of)

    @property
    def writes(self) -> int:
        return self._fate.writes

    @property
    def dead(self) -> bool:
        return self._fate.dead

    def die(self) -> None:
        self._fate.dead = True

    def guarded(self, gate: Any) -> "Mortal":
        """Another door to the same cluster, for the same operator: it shares its fate."""
        other = Mortal(self._api.guarded(gate))
        other._fate = self._fate
        return other

    def __getattr__(self, verb: str) -> Any:
        if verb in ("watch", "logs"):
            return lambda *given, **named: self._flow(getattr(self._api, verb)(*given, **named))
        return lambda *given, **named: self._call(verb, *given, **named)

    async def _call(self, verb: str, *given: Any, **named: Any) -> Any:
        fate = self._fate
        counts = verb in WRITES and not (isinstance(given[0], Resource) and given[0] in UNCOUNTED)
        if counts:
            fate.writes += 1
        fatal = counts and fate.writes == fate.dies_at
        fatal = fatal or (fate.dies_of is not None and fate.dies_of(verb, given, named))
        fate.meet(fatal and not fate.after)
        answer = await getattr(self._api, verb)(*given, **named)
        fate.meet(fatal)
        return answer

    async def _flow(self, flow: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for item in flow:
            self._fate.meet(False)
            yield item


@dataclass
class _Fate:
    dies_at: int | None
    after: bool
    dies_of: Fatal | None = None
    writes: int = 0
    dead: bool = False

    def meet(self, fatal: bool) -> None:
        """Once dead, nothing gets through."""
        self.dead = self.dead or fatal
        if self.dead:
            raise Killed


class Running:
    """One operator. `dies`: before or after which writes it dies, counted over all its lives; each time it is started
    again at once. `dies_of`: what its first life ends before."""

    def __init__(
        self,
        thread: LoopThread,
        kubeconfig: Path,
        config: OperatorConfig,
        dies: list[tuple[int, bool]],
        dies_of: Fatal | None = None,
    ) -> None:
        self.lives = 0
        self.writes = 0  # of all lives
        self.problem: BaseException | None = None  # what ended it, where nobody killed it
        self._thread = thread
        self._kubeconfig = kubeconfig
        self._config = config
        self._dies = dies
        self._dies_of = dies_of
        self._mortal: Mortal | None = None
        self._operator: Operator | None = None
        self._task = thread.run(self._begin())

    @property
    def writes_now(self) -> int:
        """Of all lives, the present one included."""
        return self.writes + (0 if self._mortal is None else self._mortal.writes)

    @property
    def at_rest(self) -> bool:
        self.check()
        return self._operator is not None and self._operator.at_rest

    def known(self, namespace: str) -> dict[str, str]:
        """Versions of what it knows of this namespace, by uid: of pods and of whatever is given to operators."""

        async def known() -> dict[str, str]:
            cache = self.operator.cache
            found = [*cache.pods, *cache.migrations, *(job for store in cache.jobs.values() for job in store)]
            mine = [each.metadata for each in found if each.metadata.namespace == namespace]
            return {meta.uid: meta.resource_version for meta in mine}

        return self._thread.run(known())

    @property
    def operator(self) -> Operator:
        assert self._operator is not None
        return self._operator

    def kill(self) -> None:
        """At once, wherever it is."""
        self._thread.run(self._end())

    def restart(self) -> None:
        self.kill()
        self._task = self._thread.run(self._begin())

    async def _begin(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self._live())

    async def _end(self) -> None:
        before = self.problem
        if self._mortal is not None:
            self._mortal.die()
        self._task.cancel()
        with suppress(BaseException):
            await self._task
        self.problem = before  # whatever it died of now is our doing

    async def _live(self) -> None:
        try:
            while True:
                point, after = self._dies[0] if self._dies else (None, False)
                left = None if point is None else max(1, point - self.writes)
                async with connect(from_kubeconfig([self._kubeconfig])) as client:
                    self._mortal = Mortal(client, dies_at=left, after=after, dies_of=self._dies_of)
                    self._operator = Operator(
                        self._config,
                        self._mortal,
                        parse=workload_of_object,
                        read_migration=read_migration,
                        shapes=SHAPES,
                    )
                    self.lives += 1
                    try:
                        await self._operator.run()
                        return
                    except BaseException:
                        if not self._mortal.dead or not (self._dies or self._dies_of):
                            raise
                        if self._dies_of is not None:
                            self._dies_of = None
                        else:
                            self._dies.pop(0)
                    finally:
                        self.writes += self._mortal.writes
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.problem = error

    def check(self) -> None:
        if self.problem is not None:
            raise AssertionError("the operator ended by itself") from self.problem


class Lab:
    """One namespace of a cluster, and the operator that looks after it."""

    def __init__(self, plane: ControlPlane, nodes: FakeNodes | None, namespace: str) -> None:
        self.plane = plane
        self._nodes = nodes
        self.namespace = namespace
        self.api = plane.api()
        self.operators: list[Running] = []
        self._thread = LoopThread("operator")

    def close(self) -> None:
        for running in self.operators:
            running.kill()
        self._thread.stop()

    def start(
        self,
        *,
        kubeconfig: Path | None = None,
        dies: list[tuple[int, bool]] | None = None,
        dies_of: Fatal | None = None,
        **settings: Any,
    ) -> Running:
        """An operator that has the namespace to itself and decides as soon as it is asked."""
        given: dict[str, Any] = {
            "namespace": self.namespace,
            "watch": (self.namespace,),
            "elect": False,
            "rate_limit_s": 0.0,
        }
        if "binding" in settings:
            settings["binding"] = Binding(settings["binding"])
        config = OperatorConfig(**(given | settings))
        where = kubeconfig or self.plane.kubeconfig("sterna")
        running = Running(self._thread, where, config, list(dies or []), dies_of)
        self.operators.append(running)
        return running

    @property
    def nodes(self) -> FakeNodes:
        assert self._nodes is not None
        return self._nodes

    # -- jobs

    def submit(self, text: str) -> list[Body]:
        return [self.api.create(self._path(body["kind"]), body) for body in yaml.safe_load_all(text) if body]

    def job(self, kind: str, name: str) -> Body:
        return self.api.get(f"{self._path(kind)}/{name}")

    def gone(self, kind: str, name: str) -> bool:
        try:
            self.job(kind, name)
        except ApiError as error:
            return error.status == 404
        return False

    def edit(self, kind: str, name: str, body: Body) -> Body:
        return self.api.patch(f"{self._path(kind)}/{name}", body)

    def delete(self, kind: str, name: str) -> None:
        self.api.delete(f"{self._path(kind)}/{name}", {"propagationPolicy": "Background"})

    def condition(self, kind: str, name: str, type_: str) -> Body | None:
        found = self.job(kind, name).get("status", {}).get("conditions", [])
        return next((condition for condition in found if condition["type"] == type_), None)

    def until_true(self, kind: str, name: str, type_: str) -> Body:
        """The condition, once it is true."""

        def holds() -> Body | None:
            self.check()
            found = self.condition(kind, name, type_)
            return found if found is not None and found["status"] == "True" else None

        found = until(holds, f"{kind} {name} is {type_}", story=self.story)
        assert found is not None
        return found

    def phase(self, kind: str, name: str) -> str:
        scheduling = self.job(kind, name).get("status", {}).get("scheduling", {})
        return str(scheduling.get("state", ""))

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        def checked() -> Any:
            self.check()
            return holds()

        return until(checked, what, story=self.story, every_s=0.05)

    # -- what belongs to them

    def pods(self, job: str | None = None) -> list[Body]:
        """Those that were not told to go, by name."""
        return [pod for pod in self.all_pods(job) if "deletionTimestamp" not in pod["metadata"]]

    def all_pods(self, job: str | None = None) -> list[Body]:
        found = self.api.items(f"/api/v1/namespaces/{self.namespace}/pods")
        mine = [pod for pod in found if job is None or _owner(pod) == job]
        return sorted(mine, key=lambda pod: str(pod["metadata"]["name"]))

    def names(self, job: str | None = None) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(job)]

    def until_pods(self, job: str, *names: str) -> dict[str, Body]:
        """Until the job has just these pods, they run, and none is on its way out. By name."""

        def holds() -> bool:
            found = self.all_pods(job)
            running = [pod["metadata"]["name"] for pod in found if pod["status"].get("phase") == "Running"]
            return running == sorted(names) and len(found) == len(names)

        self.until(holds, f"{job} has {names}")
        return {pod["metadata"]["name"]: pod for pod in self.all_pods(job)}

    def events(self, name: str) -> list[Body]:
        found = self.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        return [event for event in found if event["involvedObject"]["name"] == name]

    def reasons(self, name: str) -> set[str]:
        return {str(event["reason"]) for event in self.events(name)}

    def until_rest(self) -> None:
        """Until no operator has anything left to do, and all know of everything that has happened before: a watch that
        was cut, or a machine that has other things to do, may keep one from hearing of it for a while."""
        self.until(
            lambda: all(
                running.at_rest and running.known(self.namespace) == self._versions() for running in self.operators
            ),
            "everything is at rest",
        )

    def _versions(self) -> dict[str, str]:
        """As the API server has them, by uid: of pods and of whatever is given to operators."""
        paths = [f"/api/v1/namespaces/{self.namespace}/pods", *(self._path(kind) for kind in GROUPS)]
        metas = [found["metadata"] for path in paths for found in self.api.items(path)]
        return {str(meta["uid"]): str(meta["resourceVersion"]) for meta in metas}

    def story(self) -> str:
        """What a failure shows."""
        lines = []
        for kind in GROUPS:
            for job in self.api.items(self._path(kind)):
                said = {key: job.get("status", {}).get(key) for key in ("conditions", "scheduling", "replicaStatuses")}
                lines.append(f"{kind} {job['metadata']['name']}: {yaml.safe_dump(said, width=160)}")
        for pod in self.all_pods():
            meta, going = pod["metadata"], "deletionTimestamp" in pod["metadata"]
            where = pod["spec"].get("nodeName")
            lines.append(f"pod {meta['name']} {pod['status'].get('phase')} on {where}{' going' if going else ''}")
        events = self.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        told = [
            f"event {event['involvedObject']['name']} {event['reason']}: {event.get('message')}" for event in events
        ]
        return "\n".join(lines + told)

    def _path(self, kind: str) -> str:
        return "/apis/" + GROUPS[kind].replace("{}", f"namespaces/{self.namespace}")

    def check(self) -> None:
        """An operator that ended by itself is what a test should fail with."""
        for running in self.operators:
            running.check()


def _owner(pod: Body) -> str | None:
    return next((str(owner["name"]) for owner in pod["metadata"].get("ownerReferences", [])), None)
