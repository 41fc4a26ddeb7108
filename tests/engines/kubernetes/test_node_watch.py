"""Nodes in doubt while time passes by the operator's clock, and what is told of those that flap."""

import asyncio

import pytest

from sterna.engines.kubernetes.apiserver.port import EVENTS, NODES, EventType
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.model.ids import NodeId
from sterna.model.nodes import Doubt, Node
from sterna.wire.manifests import read_migration, workload_of_object
from tests.engines.kubernetes.client.clocks import SteppedClock
from tests.engines.kubernetes.memory_api import Body, MemoryCluster, memory_api
from tests.waiting import until_async

HOME = "sterna-system"


class Scene:
    """An operator before one node in memory, on a clock that stands still."""

    def __init__(self, watch: tuple[str, ...] | None) -> None:
        self.cluster, self.clock = MemoryCluster(), SteppedClock()
        config = OperatorConfig(namespace=HOME, watch=watch, elect=False, rate_limit_s=0.0)
        self.operator = Operator(
            config, memory_api(self.cluster), parse=workload_of_object, read_migration=read_migration, clock=self.clock
        )
        self._put("True", EventType.ADDED)

    async def set_ready(self, ready: bool) -> None:
        body = self._put("True" if ready else "Unknown", EventType.MODIFIED)
        version = body["metadata"]["resourceVersion"]

        def is_known() -> bool:
            found = self.operator.cache.nodes.get("n1")
            return found is not None and found.metadata.resource_version == version

        await until_async(is_known, "the operator knows")

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.operator.look_again()

    @property
    def node(self) -> Node:
        return self.operator.world.roster.cluster.by_id[NodeId("n1")]

    async def until_told(self, reason: str) -> Body:
        def told() -> Body | None:
            events = self.cluster.objects[EVENTS].values()
            return next((event for event in events if event["reason"] == reason), None)

        found: Body = await until_async(told, f"there is an event {reason}")
        return found

    def _put(self, status: str, event: EventType) -> Body:
        body: Body = {
            "metadata": {"name": "n1", "uid": "node-uid"},
            "status": {
                "allocatable": {"cpu": "8", "nvidia.com/gpu": "2"},
                "conditions": [{"type": "Ready", "status": status}],
            },
        }
        return self.cluster.put(NODES, body, event)


@pytest.mark.parametrize(
    ("watch", "namespace", "of"),
    [
        pytest.param(None, "default", None, id="of the whole cluster: where events of nodes live"),
        pytest.param(("team-a",), HOME, HOME, id="of named namespaces: in its own, where it may write"),
    ],
)
def test_a_node_that_flaps_is_told_of_on_the_node_and_so_is_the_end_of_it(watch, namespace, of):
    async def story() -> None:
        scene = Scene(watch)
        running = asyncio.create_task(scene.operator.run())
        try:
            await until_async(lambda: scene.operator.leads, "it leads")
            for _ in range(3):
                await scene.set_ready(False)
                assert (scene.node.ready, scene.node.doubt is not None) == (True, True)
                scene.pass_time(1.0)
                await scene.set_ready(True)
            assert scene.node.doubt is Doubt.FLAPPING
            event = await scene.until_told("NodeFlapping")
            about = event["involvedObject"]
            assert (event["metadata"]["namespace"], about.get("namespace")) == (namespace, of)
            assert (about["kind"], about["name"], about["uid"], event["type"]) == ("Node", "n1", "node-uid", "Warning")
            scene.pass_time(299.0)
            assert scene.node.doubt is Doubt.FLAPPING
            scene.pass_time(1.0)
            assert scene.node.schedulable
            await scene.until_told("NodeSteady")
            assert event["count"] == 1
        finally:
            scene.operator.stop()
            await running

    asyncio.run(asyncio.wait_for(story(), 120))


def test_r8_a_silent_node_is_lost_by_the_operators_clock_whatever_the_wall_clock_does():
    async def story() -> None:
        scene = Scene(None)
        running = asyncio.create_task(scene.operator.run())
        try:
            await until_async(lambda: scene.operator.leads, "it leads")
            await scene.set_ready(False)
            scene.clock.jump(86_400.0)
            scene.pass_time(29.0)
            assert (scene.node.ready, scene.node.doubt) == (True, Doubt.NOT_READY)
            scene.clock.jump(-2 * 86_400.0)
            scene.pass_time(1.0)
            assert (scene.node.ready, scene.node.doubt) == (False, None)
            await scene.set_ready(True)
            assert scene.node.schedulable
        finally:
            scene.operator.stop()
            await running

    asyncio.run(asyncio.wait_for(story(), 120))
