"""When everybody will be done if nobody else comes, and how a move changes that. Nothing is chosen here.

Workers of a node share its CPU fairly: all get the same, none more than it could use, and what one leaves is shared by
the others, also once it has ended. So who shares a node with whom, and for how long, decides when each of them ends. A
job ends with the last of its workers.
"""

from collections.abc import Sequence
from math import inf

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job
from sterna.placement.rebalancers.cost import CostOptions, time_left_s
from sterna.placement.rebalancers.demand import cpu_milli, demand_milli
from sterna.placement.rebalancers.scene import Scene, Seat, Unit

_Ends = dict[JobId, float]  # seconds from now until the last worker of a job on some node ends


class Forecast:
    """Of one scene. Nodes are worked out when they are first asked for."""

    def __init__(self, scene: Scene, options: CostOptions) -> None:
        self._scene = scene
        self._options = options
        self._as_they_are: dict[NodeId, _Ends] = {}

    def effects_s(self, unit: Unit, to: NodeId) -> dict[JobId, float]:
        """By how many seconds each job ends later (below 0: sooner) if the unit goes there, its pause not counted."""
        residents = self._scene.residents
        changed = {
            node: self._ends(node, [seat for seat in residents[node] if not _is_of(seat, unit)])
            for node in sorted(unit.leaves)  # in a fixed order, so that sums are the same everywhere
        }
        changed[to] = self._ends(to, [*residents[to], *(Seat(unit.job, worker) for worker in unit.workers)])
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
        if node not in self._as_they_are:
            self._as_they_are[node] = self._ends(node, self._scene.residents.get(node, ()))
        return self._as_they_are[node]

    def _ends(self, node_id: NodeId, seats: Sequence[Seat]) -> _Ends:
        scene, node = self._scene, self._scene.view.cluster.by_id[node_id]
        demands = [demand_milli(scene, node, seat) for seat in seats]
        times_s = [time_left_s(seat.job, scene.now_s, self._options) for seat in seats]
        ends: _Ends = {}
        for seat, end_s in zip(seats, ends_s(cpu_milli(node), demands, times_s), strict=True):
            ends[seat.job.id] = max(end_s, ends.get(seat.job.id, 0.0))
        return ends


def _is_of(seat: Seat, unit: Unit) -> bool:
    return seat.job is unit.job and seat.worker in unit.workers


def ends_s(capacity: float, demands: Sequence[float], times_s: Sequence[float]) -> list[float]:
    """When each of these ends; `times_s` is what it takes with all it could use. Who uses nothing is not slowed."""
    ends, left_s = list(times_s), list(times_s)
    there = [at for at, demand in enumerate(demands) if demand > 0 and left_s[at] > 0]
    now_s = 0.0
    while there:
        shares = fair_shares(capacity, [demands[at] for at in there])
        paces = [share / demands[at] for at, share in zip(there, shares, strict=True)]
        lasts_s = [left_s[at] / pace if pace > 0 else inf for at, pace in zip(there, paces, strict=True)]
        step_s = min(lasts_s)
        now_s += step_s
        staying = []
        for at, pace, last_s in zip(there, paces, lasts_s, strict=True):
            if last_s <= step_s:
                ends[at] = now_s
            else:
                left_s[at] -= pace * step_s
                staying.append(at)
        there = staying
    return ends


def fair_shares(capacity: float, demands: Sequence[float]) -> list[float]:
    """Equal shares up to what each one demands; what the modest leave is shared among the rest."""
    shares = [0.0] * len(demands)
    left, waiting = max(capacity, 0.0), len(demands)
    for position in sorted(range(len(demands)), key=demands.__getitem__):
        shares[position] = min(demands[position], left / waiting)
        left -= shares[position]
        waiting -= 1
    return shares
