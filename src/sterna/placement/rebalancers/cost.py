"""What a move is worth and what it costs, in seconds. Nothing is chosen here.

The pause of a move is what the job measured: saving its state, stopping and starting again. What crowding costs follows
from how processors are shared: two workers that share a saturated node delay each other, each by the shorter of their
times left (and by nothing where there is enough for both). So leaving a node saves what the worker costs its
neighbours and they cost it, coming to one costs the same there, and neither reaches beyond the end of either job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from sterna.model.growth import Category
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.nodes import Node
from sterna.model.options import option
from sterna.placement.rebalancers.demand import cpu_milli, demand_milli
from sterna.placement.rebalancers.scene import Scene, Seat, Unit, category_of


class CostMode(StrEnum):
    FULL = "full"
    GROWTH = "growth"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CostOptions:
    mode: CostMode = option(
        CostMode.FULL,
        "whose seconds count: those of all jobs alike (full), those of converged jobs by their small weight (growth), "
        "or nobody's, so that every move that evens loads is made (off: SpeCon as published)",
    )
    horizon_s: float = option(
        600.0,
        "how far into the future a move is weighed, and the time left of jobs that tell nobody",
        at_least=0,
        at_most=1e9,
    )
    pause_s: float = option(
        5.0, "the pause of a move of a job whose pauses nobody has measured", at_least=0, at_most=1e9
    )
    harm_max: float = option(
        0.05,
        "by which share of its whole time any one job may be delayed by moves, its own and others'; 0: by any",
        at_least=0,
        at_most=1e9,
    )
    converged_weight: float = option(
        0.1,
        "what a converged worker counts beside 1 for others: in contention, and in seconds where mode=growth",
        at_least=0,
        at_most=1e9,
    )


def pause_s(job: Job, options: CostOptions) -> float:
    """What one move costs the job itself."""
    if options.mode is CostMode.OFF:
        return 0.0
    return job.checkpoint_s + job.restart_s or options.pause_s


def time_left_s(job: Job, now_s: float, options: CostOptions) -> float:
    """Until the job ends, as far as anybody knows, and not beyond the horizon."""
    left = job.remaining_s(job.size, now_s)
    return min(options.horizon_s, left) if left != inf else options.horizon_s


def crowding_s(scene: Scene, unit: Unit, node: Node, options: CostOptions) -> float:
    """Seconds that the unit and its neighbours cost each other while it is on this node, both sides counted."""
    mine = weight(unit.job, options)
    return sum((mine + weight(seat.job, options)) * delay_s for seat, delay_s in delays_s(scene, unit, node, options))


def delays_s(scene: Scene, unit: Unit, node: Node, options: CostOptions) -> list[tuple[Seat, float]]:
    """By how much each neighbour of the unit ends later because the unit is, or would be, on this node.

    The unit itself is delayed by the sum of them: of two that share, each waits for the other equally long.
    """
    mine_s = time_left_s(unit.job, scene.now_s, options)
    others = [seat for seat in scene.residents[node.id] if seat.job is not unit.job or seat.worker not in unit.workers]
    movers = [Seat(unit.job, worker) for worker in unit.workers if node.id not in unit.leaves or worker.node == node.id]
    alone, together = slowdowns(scene, node, others), slowdowns(scene, node, [*others, *movers])
    return [
        (seat, (after - before) * min(mine_s, time_left_s(seat.job, scene.now_s, options)))
        for seat, before, after in zip(others, alone, together, strict=False)  # the movers stand last
    ]


def effects_s(scene: Scene, unit: Unit, to: Node, options: CostOptions) -> dict[JobId, float]:
    """By how many seconds each job is expected to end later (or, below 0, sooner) if the unit goes there."""
    nodes = scene.view.cluster.by_id
    left = [entry for node in sorted(unit.leaves) for entry in delays_s(scene, unit, nodes[node], options)]
    met = delays_s(scene, unit, to, options)
    effects: dict[JobId, float] = {}
    for seat, delay_s in met:  # a job waits for its slowest worker
        effects[seat.job.id] = max(effects.get(seat.job.id, 0.0), delay_s)
    for seat, delay_s in left:
        effects.setdefault(seat.job.id, -delay_s)
    own_s = sum(delay_s for _, delay_s in met) - sum(delay_s for _, delay_s in left)
    effects[unit.job.id] = pause_s(unit.job, options) + own_s
    return effects


def slowdowns(scene: Scene, node: Node, seats: Sequence[Seat]) -> list[float]:
    """How many times longer each of these takes on this node than with all the CPU that it could use."""
    capacity = cpu_milli(node)
    demands = [demand_milli(scene, node, seat) for seat in seats]
    shares = fair_shares(capacity, demands)
    return [demand / share if share > 0 else 1.0 for demand, share in zip(demands, shares, strict=True)]


def fair_shares(capacity: float, demands: Sequence[float]) -> list[float]:
    """Equal shares up to what each one demands; what the modest leave is shared among the rest."""
    shares = [0.0] * len(demands)
    left, waiting = max(capacity, 0.0), len(demands)
    for position in sorted(range(len(demands)), key=demands.__getitem__):
        shares[position] = min(demands[position], left / waiting)
        left -= shares[position]
        waiting -= 1
    return shares


def expected_s(scene: Scene, job: Job, options: CostOptions) -> float:
    """From submission to the expected end, at the pace that its nodes allow now."""
    slowest = 1.0
    for node_id in {worker.node for worker in scene.layout.workers_of(job.id)}:
        seats = scene.residents.get(node_id, ())
        if seats:
            paces = slowdowns(scene, scene.view.cluster.by_id[node_id], seats)
            slowest = max(slowest, *(pace for seat, pace in zip(seats, paces, strict=True) if seat.job is job))
    return scene.now_s - job.spec.submitted_s + slowest * time_left_s(job, scene.now_s, options)


def weight_of(category: Category, options: CostOptions) -> float:
    """What a worker counts where growth matters: those that still learn count wholly."""
    return options.converged_weight if category is Category.CONVERGED else 1.0


def weight(job: Job, options: CostOptions) -> float:
    return weight_of(category_of(job), options) if options.mode is CostMode.GROWTH else 1.0
