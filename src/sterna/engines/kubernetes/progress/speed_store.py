"""What was learned of how fast jobs train, in a ConfigMap: read when a term begins, written when there is much more.

Losing it costs knowledge, never a job: a write that fails is tried again, and nothing waits for it.
"""

import asyncio
import logging
import math

from sterna.engines.kubernetes.apiserver.own_configmaps import own_data, write_data
from sterna.engines.kubernetes.apiserver.port import Api, NotLeader
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.process.settings import KNOWLEDGE, OperatorConfig
from sterna.engines.kubernetes.process.time_limit import wait_for
from sterna.engines.kubernetes.progress.speed_codec import knowledge_data, knowledge_of
from sterna.engines.kubernetes.progress.training_facts import Lessons
from sterna.model.errors import InvalidRequest, SternaError
from sterna.model.learning import Knowledge

log = logging.getLogger(__name__)


class Keeper:
    def __init__(self, api: Api, cache: Cache, lessons: Lessons, config: OperatorConfig) -> None:
        self._api = api
        self._cache = cache
        self._lessons = lessons
        self._config = config
        self._work = asyncio.Event()
        self._writing = False

    def begin_term(self) -> None:
        """Go on from what earlier leaders learned."""
        found = own_data(self._cache, KNOWLEDGE, namespace=self._config.namespace)
        try:
            self._lessons.begin(knowledge_of(found))
        except InvalidRequest as error:
            log.error("what was learned cannot be read", extra={"why": str(error)})
            self._lessons.begin(Knowledge())
        self._work.clear()

    def learned(self) -> None:
        """There is so much more that it is worth a write."""
        self._work.set()

    @property
    def at_rest(self) -> bool:
        return not self._work.is_set() and not self._writing

    async def run(self) -> None:
        """Until the term ends."""
        while True:
            await wait_for(self._work, math.inf)
            self._work.clear()  # first: what is learned while this is written is written next
            self._writing = True
            try:
                if not await self._write(self._lessons.knowledge):
                    return
            finally:
                self._writing = False

    async def _write(self, knowledge: Knowledge) -> bool:
        """False: the term is over."""
        try:
            data = knowledge_data(knowledge)
            await write_data(self._api, self._cache, KNOWLEDGE, data, namespace=self._config.namespace)
            self._lessons.kept = knowledge
        except NotLeader:
            return False
        except SternaError as error:
            log.info("what was learned could not be written", extra={"why": str(error)})
            self._work.set()
            await asyncio.sleep(self._config.retry_s)
        return True
