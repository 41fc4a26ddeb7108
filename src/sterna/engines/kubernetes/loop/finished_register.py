"""Ends of jobs written into a ConfigMap of the operator's namespace: soon after they happened, several at once.

What is lost if the operator is killed before a write is found in the statuses of the jobs when the next term begins.
"""

import asyncio
import logging
import math

from sterna.engines.kubernetes.apiserver.own_configmaps import own_data, write_data
from sterna.engines.kubernetes.apiserver.port import Api, NotLeader
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.process.settings import ENDS, OperatorConfig
from sterna.engines.kubernetes.process.time_limit import wait_for
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.finished_jobs import ended_of, finished_data, finished_of, latest
from sterna.engines.kubernetes.world.job_index import KnownJob, KnownJobs
from sterna.model.errors import SternaError

log = logging.getLogger(__name__)

APART_S = 0.5  # between two writes, so that ends that come together are written together


class FinishedRegister:
    def __init__(self, api: Api, cache: Cache, jobs: KnownJobs, config: OperatorConfig) -> None:
        self._api = api
        self._cache = cache
        self._jobs = jobs
        self._config = config
        self._work = asyncio.Event()
        self._writing = False

    def begin_term(self) -> None:
        """Take over what earlier leaders wrote, and what they had no time to write."""
        self._jobs.ended.clear()
        self._jobs.ended.update(finished_of(own_data(self._cache, ENDS, namespace=self._config.namespace)))
        self._work.clear()
        for job in self._jobs:
            self.written(job, job.status.recorded)

    def written(self, job: KnownJob, standing: Standing) -> None:
        """This is what the status of a job says now."""
        ended = ended_of(standing)
        if ended is not None and job.uid not in self._jobs.ended:
            self._jobs.ended[job.uid] = ended
            self._work.set()

    @property
    def at_rest(self) -> bool:
        return not self._work.is_set() and not self._writing

    async def run(self) -> None:
        """Until the term ends."""
        while True:
            await wait_for(self._work, math.inf)
            self._work.clear()  # first: what ends while this is written is written next
            self._writing = True
            try:
                if not await self._write():
                    return
            finally:
                self._writing = False
            await asyncio.sleep(APART_S)

    async def _write(self) -> bool:
        """Those that are still there. False: the term is over."""
        ended = self._jobs.ended
        for uid in ended.keys() - latest((uid, end) for uid, end in ended.items() if uid in self._jobs.by_uid).keys():
            del ended[uid]
        try:
            await write_data(self._api, self._cache, ENDS, finished_data(ended), namespace=self._config.namespace)
        except NotLeader:
            return False
        except SternaError as error:
            log.info("ends of jobs could not be written", extra={"why": str(error)})
            self._work.set()
        return True
