"""What rebalancers looked at, for people: an event on each job, and lines of `distribution.csv` where one is kept.

A rebalancer looks at the same workers round after round, so a job is told again only when something else came of it:
events are few, and a job that used its share up would be told nothing of what really happens to it. The file has every
round. It is written by a thread, since it may be on a share that does not answer, and nothing else may wait for that.
"""

import asyncio
import logging
from collections import OrderedDict

from sterna.engines.distribution import DistributionFile
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.status.event_recorder import About, Recorder
from sterna.engines.kubernetes.status.job_events import Reason
from sterna.engines.kubernetes.world.world import World
from sterna.model.considering import ConsideredMove
from sterna.model.ids import JobId, NodeId
from sterna.model.plan import Decision

log = logging.getLogger(__name__)

ROUNDS_MAX = 256  # in line for the file; when it does not answer for that long, what comes then is lost
REMEMBERED_MAX = 4096  # jobs of which it is known what they were told last

_Round = tuple[float, tuple[ConsideredMove, ...]]
_Sort = tuple[str, NodeId | None, str]  # by which rebalancer, to which node, why


class Considering:
    def __init__(self, world: World, recorder: Recorder, timeline: Timeline, config: OperatorConfig) -> None:
        self._world = world
        self._recorder = recorder
        self._timeline = timeline
        path = config.distribution_file
        self._file = None if path is None else DistributionFile(path)
        self._line: asyncio.Queue[_Round] = asyncio.Queue(ROUNDS_MAX)
        self._told: OrderedDict[JobId, frozenset[_Sort]] = OrderedDict()

    def note(self, decision: Decision) -> None:
        """A decision that was taken; nothing waits here."""
        by_job: dict[JobId, dict[_Sort, list[ConsideredMove]]] = {}
        for move in decision.considered:
            sort = (move.by, move.to, str(move.because.why))
            by_job.setdefault(move.job_id, {}).setdefault(sort, []).append(move)
        for job_id, sorts in by_job.items():
            self._tell(job_id, sorts)
        if self._file is None:
            return
        try:
            self._line.put_nowait((self._timeline.now(), decision.considered))
        except asyncio.QueueFull:
            log.warning("the distribution file does not keep up", extra={"lost": len(decision.considered)})

    async def run(self) -> None:
        """Until the term ends: write lines."""
        while True:
            at_s, considered = await self._line.get()
            if self._file is not None:
                await asyncio.to_thread(self._file.write, at_s, considered)

    def _tell(self, job_id: JobId, sorts: dict[_Sort, list[ConsideredMove]]) -> None:
        job = self._world.owner(job_id)
        before, now = self._told.pop(job_id, None), frozenset(sorts)
        self._told[job_id] = now
        if len(self._told) > REMEMBERED_MAX:
            self._told.popitem(last=False)
        if job is None or before == now:
            return
        meta = job.object.metadata
        about = About(job.resource.api_version, job.resource.kind, meta.namespace, meta.name, meta.uid)
        for sort, moves in sorts.items():
            self._recorder.record(
                about, reason=Reason.CONSIDERED, message=sentence(moves), alike="/".join(map(str, sort))
            )


def sentence(moves: list[ConsideredMove]) -> str:
    """Of workers of one job that the same came of."""
    first = moves[0]
    who = ", ".join(f"{move.worker.role} {move.worker.ordinal}" for move in moves[:5])
    who += f" and {len(moves) - 5} more" if len(moves) > 5 else ""
    nodes = ", ".join(sorted({move.worker.node for move in moves}))
    what = f"should leave {nodes} for {first.to}" if first.to is not None else f"may stay on {nodes}"
    return f"{first.by}: {who} {what}: {first.because.sentence}"
