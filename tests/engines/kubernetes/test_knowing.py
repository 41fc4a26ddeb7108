"""What is learned while it is being written down is written down next."""

import asyncio
from typing import Any

from benchmarks.scaling import NAMESPACE

from sterna.engines.kubernetes.apiserver.port import CONFIG_MAPS
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.process.clock import SystemClock
from sterna.engines.kubernetes.process.settings import KNOWLEDGE, OperatorConfig
from sterna.engines.kubernetes.progress.speed_codec import knowledge_of
from sterna.engines.kubernetes.progress.speed_store import Keeper
from sterna.engines.kubernetes.progress.training_facts import Lessons
from sterna.model.learning import Knowledge, ThroughputModel
from tests.engines.kubernetes.memory_api import MemoryApi, MemoryCluster
from tests.waiting import until_async


class Slow(MemoryApi):
    """A write that waits until it may go on."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self.began, self.may_end = asyncio.Event(), asyncio.Event()

    async def create(self, *given: Any, **named: Any) -> Any:
        self.began.set()
        await self.may_end.wait()
        return await super().create(*given, **named)


def learned(workers: int) -> Knowledge:
    return Knowledge({("resnet", "a100"): ThroughputModel().observed(workers, 1.0)})


async def written() -> Knowledge:
    cluster, config = MemoryCluster(), OperatorConfig(namespace=NAMESPACE, watch=(NAMESPACE,), elect=False)
    api: Any = Slow(cluster)
    lessons = Lessons(lambda _: "a100")
    keeper = Keeper(api, Cache(api, config, SystemClock()), lessons, config)
    keeper.begin_term()
    running = asyncio.create_task(keeper.run())
    lessons.knowledge = learned(1)
    keeper.learned()
    await api.began.wait()
    lessons.knowledge = learned(2)
    keeper.learned()
    api.may_end.set()
    await until_async(lambda: keeper.at_rest, "it is at rest")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    found = cluster.find(CONFIG_MAPS, KNOWLEDGE, NAMESPACE)
    assert found is not None
    return knowledge_of(found["data"])


def test_what_is_learned_during_a_write_is_written_next():
    assert asyncio.run(asyncio.wait_for(written(), 60)) == learned(2)
