"""When each job will end if no other comes, and how a move changes that. Nothing is chosen here.

Workers of a node share its CPU fairly: all get the same, none more than it could use, and what one leaves is shared by
the others, also once it has ended. So which workers share a node, and for how long, decides when each of them ends. A
job ends with the last of its workers.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job
from sterna.placement.rebalancers.cost import CostOptions, time_left_s
from sterna.placement.rebalancers.demand import Demands, cpu_milli
from sterna.placement.rebalancers.scene import HeldSeat, Scene, Unit

_Ends = dict[JobId, float]  # seconds from now until the last worker of a job on some node ends


class Forecast:
    """Of one scene. Nodes are worked out when they are first asked for."""

    def __init__(self, scene: Scene, demands: Demands, options: CostOptions) -> None:
        self._scene = scene
        self._demands = demands
        self._options = options
        self._as_they_are: dict[NodeId, _Ends] = {}

    def effects_s(self, unit: Unit, to: NodeId) -> dict[JobId, float]:
        """By how many seconds each job ends later (below 0: sooner) if the unit goes there, its pause not counted."""
        residents = self._scene.residents
        changed = {
            node: self._ends(node, [seat for seat in residents[node] if not _is_of(seat, unit)])
            for node in sorted(unit.leaves)  # in a fixed order, so that sums are the same everywhere
        }
        changed[to] = self._ends(to, [*residents[to], *(HeldSeat(unit.job, worker) for worker in unit.workers)])
        touched = {seat.job.id: seat.job for node in changed for seat in residents[node]}
        return {job_id: self._end_s(job, changed) - self._end_s(job, {}) for job_id, job in touched.items()}

    def whole_s(self, job: Job) -> float:
        """From the job's submission to its end."""
        return self._scene.now_s - job.spec.submitted_s + self._end_s(job, {})

    def _end_s(self, job: Job, changed: dict[NodeId, _Ends]) -> float:
        nodes = {worker.node for worker in self._scene.layout.workers_of(job.id)} | changed.keys()
        ends = (changed[node] if node in changed else self._as_it_is(node) for node in nodes)
        return max((of_node[job.id] for of_node in ends if job.id in of_node), default=0.0)

    def _as_it_is(self, node: NodeId) -> _Ends:
        """Empty for nodes of other pools, or that are gone: no job there ends later or sooner by what happens here."""
        if node not in self._as_they_are:
            residents = self._scene.residents.get(node)
            self._as_they_are[node] = {} if residents is None else self._ends(node, residents)
        return self._as_they_are[node]

    def _ends(self, node_id: NodeId, seats: Sequence[HeldSeat]) -> _Ends:
        scene, node = self._scene, self._scene.view.cluster.by_id[node_id]
        demands = [self._demands.milli(node, seat) for seat in seats]
        times_s = [time_left_s(seat.job, scene.now_s, self._options) for seat in seats]
        ends: _Ends = {}
        for seat, end_s in zip(seats, ends_s(cpu_milli(node), demands, times_s), strict=True):
            ends[seat.job.id] = max(end_s, ends.get(seat.job.id, 0.0))
        return ends


def _is_of(seat: HeldSeat, unit: Unit) -> bool:
    return seat.job is unit.job and seat.worker in unit.workers


def ends_s(capacity: float, demands: Sequence[float], times_s: Sequence[float]) -> list[float]:
    """When each of these ends; `times_s` is what it takes with all it could use. One that uses nothing is not slowed.

    Workers short of CPU all get the same, the level, so of them the one with the least work ends next. The level only
    rises, as others end; a worker whose demand it reaches has all it wants from then on, and a known end.
    """
    ends = list(times_s)
    short = {at for at, demand in enumerate(demands) if demand > 0 and times_s[at] > 0}
    work = [demand * time_s for demand, time_s in zip(demands, times_s, strict=True)]
    by_demand = sorted(short, key=lambda at: (demands[at], at), reverse=True)  # the next one stands last, as below
    by_work = sorted(short, key=lambda at: (work[at], at), reverse=True)
    content: list[tuple[float, int]] = []  # a heap: workers that have all they want, by their end
    left, now_s, served = max(capacity, 0.0), 0.0, 0.0  # `left` for the short ones; `served`: what each has got
    while short or content:
        level = left / len(short) if short else inf
        while by_demand and (by_demand[-1] not in short or demands[by_demand[-1]] <= level):
            at = by_demand.pop()
            if at in short:
                short.remove(at)
                heappush(content, (now_s + (work[at] - served) / demands[at], at))
                left = max(0.0, left - demands[at])
                level = left / len(short) if short else inf
        while by_work and by_work[-1] not in short:
            by_work.pop()
        next_short_s = now_s + (work[by_work[-1]] - served) / level if by_work and level > 0 else inf
        if content and content[0][0] <= next_short_s:
            end_s, at = heappop(content)
            left += demands[at]
        else:
            end_s, at = next_short_s, by_work.pop()
            short.remove(at)
        served += level * (end_s - now_s) if short else 0.0
        ends[at] = now_s = end_s
    return ends


def fair_shares(capacity: float, demands: Sequence[float]) -> list[float]:
    """Equal shares up to what each one demands; what smaller demands leave is shared among the rest."""
    shares = [0.0] * len(demands)
    left, waiting = max(capacity, 0.0), len(demands)
    for position in sorted(range(len(demands)), key=demands.__getitem__):
        shares[position] = min(demands[position], left / waiting)
        left -= shares[position]
        waiting -= 1
    return shares
