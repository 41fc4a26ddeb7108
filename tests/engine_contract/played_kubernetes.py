"""The Kubernetes engine before a real API server, with nodes and pods that a story plays.

The operator's clock is the story's. What the API server and the played kubelets do takes real time, which `settle`
waits out: until the operator's caches have all that the server has, no pod is on its way, and nothing is left to do.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from sterna.engines.kubernetes.apiserver.objects import KubeObject, Pod
from sterna.engines.kubernetes.process.settings import ENDS, KNOWLEDGE, MEMORY, OperatorConfig
from sterna.engines.kubernetes.world.job_index import KnownJob, status_of
from sterna.engines.kubernetes.world.node_objects import DRAIN, SERVING
from sterna.model.ids import JobId
from sterna.model.plan import Step
from sterna.protocol import Status, WorkerPhase
from sterna.protocol.reports import Batch, Report
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.pod_status import Ending
from tests.engine_contract.facts import Declared, Says, Seen
from tests.engine_contract.played_world import POLICY, PlayedWorld, seen_of, until
from tests.engine_contract.worlds import WAIT_S, KubernetesWorld, delete_leftovers, played_nodes, running_operator
from tests.engines.kubernetes.operator.lab import PLURALS

_NAMESPACE = "default"
_HOME = f"/api/v1/namespaces/{_NAMESPACE}"
_AGAIN_S = 0.3  # a try that failed is due again at a moment of the story's clock, which stands still
_GONE = Ending()


class PlayedKubernetes(PlayedWorld):
    @classmethod
    @asynccontextmanager
    async def begun(cls) -> AsyncIterator[PlayedWorld]:
        async with played_nodes(KubernetesWorld.control_plane) as nodes:
            world = cls(nodes)
            await world.open()
            try:
                yield world
            finally:
                await world.close()

    def __init__(self, nodes: FakeNodes) -> None:
        super().__init__()
        self._nodes = nodes
        self._api = KubernetesWorld.control_plane.api()
        self._uids: dict[str, str] = {}
        self._words: dict[str, Status] = {}  # by job: the last that its program said
        self._moves = 0
        self._silent: set[str] = set()  # nodes whose kubelets do nothing
        self._starts_held = self._stops_held = False
        self._serving: list[str] = []

    async def open(self) -> None:
        self._doors = AsyncExitStack()
        config = OperatorConfig(
            namespace=_NAMESPACE, watch=(_NAMESPACE,), elect=False, policy=POLICY, rate_limit_s=0.0, retry_s=0.2
        )
        begun = running_operator(KubernetesWorld.control_plane, config, self.clock)
        self._operator, self._running = await self._doors.enter_async_context(begun)

    async def close(self) -> None:
        await self._doors.aclose()
        paths = [self._path(job) for job in self.jobs]
        paths += [f"{PLURALS['Migration'].format(_NAMESPACE)}/move-{number + 1}" for number in range(self._moves)]
        paths += [f"{_HOME}/pods/{name}" for name in self._serving]
        paths += [f"{_HOME}/configmaps/{name}" for name in (MEMORY, KNOWLEDGE, ENDS)]
        await asyncio.to_thread(delete_leftovers, self._api, paths)

    # -- facts --------------------------------------------------------------------------------------------------------

    async def submit(self, job: Declared) -> None:
        path = PLURALS[job.kind].format(_NAMESPACE)
        made = await asyncio.to_thread(self._api.create, path, job.manifest())
        self._uids[job.name] = made["metadata"]["uid"]
        await self._until(lambda: self._known(job.name) is not None, f"{job.name} is known")

    async def end(self, job: str, worker: str, code: int) -> None:
        word = self._words.get(job)
        message = "" if word is None else word.to_compact_json(bytes_max=4000)
        await asyncio.to_thread(partial(self._nodes.exit, f"{job}-{worker}", code, message=message))

    async def say(self, said: Says) -> None:
        self._words[said.job] = Status(
            pid=1,
            phase=WorkerPhase.TRAINING,
            step=int(said.done),
            epoch=said.epoch,
            units_done=said.done,
            units_total=said.total,
        )
        now_s = self.clock.mono()
        report = Report(
            pod=f"{_NAMESPACE}/{said.job}-worker-0",
            seq=int(now_s * 1e6) + int(said.done) + 1,
            at_s=now_s,
            units_done=said.done,
            units_total=said.total,
            epoch=said.epoch or None,
            value=said.loss,
            metric="" if said.loss is None else "loss",
        )
        taken = self._operator.reporting.take(Batch((report,)))
        assert taken.new == 1, taken

    async def time_passed(self) -> None:
        self._operator.look_again()

    async def set_node_ready(self, node: str, *, ready: bool) -> None:
        (self._silent.discard if ready else self._silent.add)(node)
        if ready:
            await asyncio.to_thread(self._nodes.start_kubelet, node)
        else:
            await asyncio.to_thread(partial(self._nodes.stop_kubelet, node, off=True))

    async def silence_node(self, node: str) -> None:
        self._silent.add(node)
        await asyncio.to_thread(self._nodes.stop_kubelet, node)

    async def cordon(self, node: str) -> None:
        await asyncio.to_thread(self._nodes.cordon, node)

    async def drain(self, node: str) -> None:
        await asyncio.to_thread(self._nodes.annotate, node, {DRAIN: "true"})
        await asyncio.to_thread(self._nodes.cordon, node)

    async def suspend(self, job: str, *, suspended: bool) -> None:
        await self._edit(job, {"runPolicy": {"suspend": suspended}})

    async def scale(self, job: str, at_least: int, at_most: int) -> None:
        if self.jobs[job].kind == "ElasticJob":
            await self._edit(job, {"workers": {"min": at_least, "max": at_most, "initial": at_least}})
        else:
            replicas = {"Worker": {"replicas": at_least}}
            bounds = {"minReplicas": at_least, "maxReplicas": at_most}
            await self._edit(job, {"elasticPolicy": bounds, "pytorchReplicaSpecs": replicas})

    async def delete(self, job: str) -> None:
        await asyncio.to_thread(self._api.delete, self._path(job))
        await self._until(lambda: self._known(job) is None, f"{job} is gone")

    async def ask_move(self, job: str, to: str) -> None:
        self._moves += 1
        kind = {"apiVersion": "sterna.dev/v1alpha1", "kind": "Migration"}
        body = {**kind, "metadata": {"name": f"move-{self._moves}"}, "spec": {"job": job, "to": to}}
        await asyncio.to_thread(self._api.create, PLURALS["Migration"].format(_NAMESPACE), body)

    async def hold_starts(self, *, held: bool) -> None:
        self._starts_held = self._nodes.habits.hold_starts = held
        if not held:
            for pod in [pod for pod in self._operator.cache.pods if pod.status.phase == "Pending"]:
                if not pod.terminating:
                    await asyncio.to_thread(self._nodes.start, pod.metadata.name)

    async def hold_stops(self, *, held: bool) -> None:
        self._stops_held = held
        self._nodes.habits.on_stop = (lambda _: None) if held else (lambda _: _GONE)
        if not held:
            for pod in [pod for pod in self._operator.cache.pods if pod.terminating]:
                await asyncio.to_thread(self._nodes.let_go, pod.metadata.name)

    async def end_scheduler(self) -> None:
        await self._doors.aclose()

    async def begin_scheduler(self) -> None:
        await self.open()

    async def serve(self, name: str, gpus: int) -> None:
        resources = {"limits": {"nvidia.com/gpu": gpus}}
        container = {"name": "main", "image": "localhost/none:1", "resources": resources}
        meta = {"name": name, "annotations": {SERVING: "true"}}
        self._serving.append(name)
        body = {"metadata": meta, "spec": {"containers": [container]}}
        await asyncio.to_thread(self._api.create, f"{_HOME}/pods", body)

    # -- coming to rest -----------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        while not (await self._is_up_to_date() and self._is_settled()):
            await self._until(self._is_settled, "nothing is left to do")

    def _is_settled(self) -> bool:
        operator = self._operator
        parts = (operator.carrier, operator.decider, operator.keeper)
        at_rest = operator.leads and all(part.at_rest for part in parts)
        written = not operator.migrations._verdicts  # a move that is asked for is open until a cycle answers it
        return at_rest and written and not any(self._is_on_its_way(pod) for pod in operator.cache.pods)

    def _is_on_its_way(self, pod: Pod) -> bool:
        """Will its kubelet do something to it that nothing holds back?"""
        if pod.spec.node_name in self._silent or not pod.spec.node_name or self._is_orphan(pod):
            return False
        if pod.terminating:
            return not self._stops_held
        return pod.status.phase == "Pending" and not self._starts_held

    def _is_orphan(self, pod: Pod) -> bool:
        """Its job is gone, and the garbage collector comes when it comes."""
        return self._operator.world.jobs.owner_of(pod) is None

    async def _is_up_to_date(self) -> bool:
        """Have the caches what the API server has?"""
        cache = self._operator.cache
        kinds = {kind.kind: store for kind, store in cache.jobs.items()}
        stores: dict[str, Iterable[KubeObject]] = {
            f"{_HOME}/pods": cache.pods,
            "/api/v1/nodes": cache.nodes,
            PLURALS["Migration"].format(_NAMESPACE): cache.migrations,
            PLURALS["ElasticJob"].format(_NAMESPACE): kinds["ElasticJob"],
            PLURALS["PyTorchJob"].format(_NAMESPACE): kinds["PyTorchJob"],
        }
        served = await asyncio.to_thread(self._versions, list(stores))
        kept = [each.metadata for store in stores.values() for each in store]
        return served == {(meta.uid, meta.resource_version) for meta in kept}

    def _versions(self, paths: list[str]) -> set[tuple[str, str]]:
        found = [each["metadata"] for path in paths for each in self._api.items(path)]
        return {(str(meta["uid"]), str(meta["resourceVersion"])) for meta in found}

    async def cycle(self) -> tuple[Step, ...]:
        await self._operator.decider.cycle()
        if self._operator.decider.problem:
            raise RuntimeError(self._operator.decider.problem)
        decision = self._operator.engine.decision
        return () if decision is None else decision.steps

    # -- what is seen -------------------------------------------------------------------------------------------------

    async def seen(self, job: str) -> Seen:
        await self._until(lambda: self._operator.carrier.has_told_all, "every event is recorded")
        events = await asyncio.to_thread(self._events, job)
        found = self._known(job)
        if found is None:
            return Seen(events=tuple(events))
        view, value = self._operator.world.jobs.view(found), self._operator.world.value(found.id)
        assert view.spec is not None
        assert view.workload is not None
        return seen_of(
            status_of(found.object).recorded,
            view.spec,
            view.workload,
            view.status.conditions,
            clock=self.clock,
            units_left=None if value is None else value.units_left,
            events=events,
            refusal=self._refusal(job),
        )

    def _refusal(self, job: str) -> str:
        found = self._api.items(PLURALS["Migration"].format(_NAMESPACE))
        said = [
            f"{move['status']['reason']}: {move['status']['message']}"
            for move in found
            if move["spec"]["job"] == job and move.get("status", {}).get("phase") == "Refused"
        ]
        return next(iter(said), "")

    def _events(self, job: str) -> dict[str, str]:
        found, uid = self._api.items(f"{_HOME}/events"), self._uids.get(job)
        return {str(e["reason"]): str(e["message"]) for e in found if e["involvedObject"].get("uid") == uid}

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _path(self, job: str) -> str:
        return f"{PLURALS[self.jobs[job].kind].format(_NAMESPACE)}/{job}"

    async def _edit(self, job: str, spec: dict[str, Any]) -> None:
        await asyncio.to_thread(self._api.patch, self._path(job), {"spec": spec})

    def _known(self, job: str) -> KnownJob | None:
        found = self._operator.world.jobs.by_uid.get(self._uids.get(job, ""))
        taken_in = found is not None and status_of(found.object).recorded.enqueued_s is not None
        return found if taken_in and found is not None and found.id == JobId(f"{_NAMESPACE}/{job}") else None

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        clock = asyncio.get_running_loop()
        again_s = clock.time() + _AGAIN_S

        def is_so() -> bool:
            nonlocal again_s
            if self._running.done():
                self._running.result()
            if clock.time() >= again_s:
                again_s = clock.time() + _AGAIN_S
                self._operator.look_again()
            return holds()

        await until(is_so, f"{what}; {self._operator.health()}", patience_s=WAIT_S)
