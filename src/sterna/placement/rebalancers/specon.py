"""SpeCon: work that has converged leaves the most contended node for a less contended one, one move in a round.

After Mao et al., "Speculative Container Scheduling for Deep Learning Applications in a Kubernetes Cluster" (2020).
Every round looks at the converged workers of the most contended node that has any; the best of them moves, the others
are reported as looked at. Contention is a weighted count, in which converged workers count little, or the CPU that
workers could use. A worker goes only where contention is lower even with it, so that no move can be worth its undoing.

Departures: the paper leaves the contention measure open; a target must have room and admit the worker; of several
targets the one with the best net benefit is taken, unless the cost model is off, where it is the least contended. What
holds the state of its job (parameter server, chief, master, launcher) stays. A job of which no worker survives a move
goes as a whole, all roles, to one node that has none of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sterna.model.growth import Category
from sterna.model.ids import NodeId
from sterna.model.nodes import Node
from sterna.model.options import option
from sterna.model.why import Because, Why
from sterna.placement.rebalancers.cost import (
    CostMode,
    CostOptions,
    crowding_s,
    effects_s,
    expected_s,
    pause_s,
    weight_of,
)
from sterna.placement.rebalancers.demand import cpu_milli, demand_milli
from sterna.placement.rebalancers.rounds import Answer, Bundle, Move, Question, Stay, not_worth_it
from sterna.placement.rebalancers.scene import Scene, Seat, Unit, category_of

_ROUND = "round_s"  # when the last round was that moved something or saw something new


class Contention(StrEnum):
    COUNT = "count"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class SpeconOptions:
    round_s: float = option(30.0, "seconds from one round to the next", at_least=0.1, at_most=1e9)
    moves_per_round: int = option(1, "how many moves a round may make in a pool", at_least=0)
    contention: Contention = option(
        Contention.COUNT, "what a node is judged by: its workers, counted by category (count), or their demand (cpu)"
    )


def specon(question: Question, options: SpeconOptions) -> Answer:
    scene = question.scene
    last_s = question.values.get(_ROUND)
    if last_s is not None and last_s <= scene.now_s < last_s + options.round_s:
        return Answer(values=question.values, wake_s=last_s + options.round_s)
    next_s = scene.now_s + options.round_s
    candidates = [unit for unit in scene.units if category_of(unit.job) is Category.CONVERGED]
    if not candidates:
        return Answer(wake_s=next_s if scene.units else None)
    load = _contention(scene, options, question.cost)
    source = min((node for unit in candidates for node in unit.leaves), key=lambda node: (-load[node], node))
    here = sorted((unit for unit in candidates if source in unit.leaves), key=_longest_converged)
    looks = [_look(question, options, load, source, unit) for unit in here]
    bundles = [look for look in looks if isinstance(look, Bundle)]
    return Answer(
        bundles=sorted(bundles, key=lambda bundle: -bundle.net_s),  # stable: then who converged first
        stays=[look for look in looks if isinstance(look, Stay)],
        bundles_max=options.moves_per_round,
        stamps={_ROUND: scene.now_s},
        wake_s=next_s,
    )


def _look(
    question: Question, options: SpeconOptions, load: Mapping[NodeId, float], source: NodeId, unit: Unit
) -> Bundle | Stay:
    """The best move of one candidate, or why it stays."""
    scene = question.scene
    if (why_not := question.ledger.why_not(unit, question.budget)) is not None:
        return Stay(unit, why_not)
    nodes = scene.view.cluster.by_id
    own = {node_id: _added(scene, node, unit, options, question.cost) for node_id, node in nodes.items()}
    calmer = {node_id for node_id in load if node_id not in unit.leaves and load[node_id] + own[node_id] < load[source]}
    if not calmer:
        elsewhere = min((load[node_id] for node_id in load if node_id not in unit.leaves), default=0.0)
        return Stay(unit, Because(Why.EVEN_LOAD, _numbers(load[source], elsewhere)))
    open_to_it = [
        node_id
        for node_id in scene.targets(unit)
        if node_id in calmer and question.ledger.may_go(unit, node_id, question.budget)
    ]
    if not open_to_it:
        return Stay(unit, Because(Why.NO_TARGET, _numbers(load[source], min(load[node_id] for node_id in calmer))))
    tried = [
        _move(question, options, load, source, unit, to)
        for to in sorted(open_to_it, key=lambda node_id: (load[node_id], node_id))
    ]
    if question.cost.mode is CostMode.OFF:
        return tried[0]
    best = max(tried, key=lambda bundle: (_harms_nobody(question, bundle), bundle.net_s))  # the first of equal ones
    if best.net_s > 0 and _harms_nobody(question, best):
        return best
    return Stay(unit, not_worth_it(best.benefit_s, best.cost_s), best.benefit_s, best.cost_s)


def _move(
    question: Question, options: SpeconOptions, load: Mapping[NodeId, float], source: NodeId, unit: Unit, to: NodeId
) -> Bundle:
    benefit_s, cost_s = _worth(question, options, load, source, unit, to)
    because = Because(Why.CONVERGED, _numbers(load[source], load[to]))
    if question.cost.mode is CostMode.OFF:
        return Bundle((Move(unit, to),), because, benefit_s, cost_s)
    effects = effects_s(question.scene, unit, question.scene.view.cluster.by_id[to], question.cost)
    return Bundle((Move(unit, to),), because, benefit_s, cost_s, effects)


def _harms_nobody(question: Question, bundle: Bundle) -> bool:
    """Sums hide those who lose: no single job may be delayed beyond its share, all moves so far counted."""
    most, jobs = question.cost.harm_max, question.scene.view.by_id
    return not most or all(
        delay_s <= 0
        or question.ledger.delayed_s(job_id) + delay_s <= most * expected_s(question.scene, jobs[job_id], question.cost)
        for job_id, delay_s in bundle.effects_s.items()
    )


def _worth(
    question: Question,
    options: SpeconOptions,
    load: Mapping[NodeId, float],
    source: NodeId,
    unit: Unit,
    to: NodeId,
) -> tuple[float, float]:
    """Benefit and cost: what leaving saves, and the pause with what coming there costs.

    Without a cost model every move that evens loads is worth it; its nominal benefit is one round's relief.
    """
    scene, cost, nodes = question.scene, question.cost, question.scene.view.cluster.by_id
    if cost.mode is CostMode.OFF:
        return (load[source] - load[to]) * options.round_s, 0.0
    saved_s = sum(crowding_s(scene, unit, nodes[node], cost) for node in sorted(unit.leaves))
    return saved_s, pause_s(unit.job, cost) + crowding_s(scene, unit, nodes[to], cost)


def _contention(scene: Scene, options: SpeconOptions, cost: CostOptions) -> dict[NodeId, float]:
    return {
        node.id: sum(_part(scene, node, seat, options, cost) for seat in scene.residents[node.id])
        for node in scene.nodes
    }


def _added(scene: Scene, node: Node, unit: Unit, options: SpeconOptions, cost: CostOptions) -> float:
    return sum(_part(scene, node, Seat(unit.job, worker), options, cost) for worker in unit.workers)


def _part(scene: Scene, node: Node, seat: Seat, options: SpeconOptions, cost: CostOptions) -> float:
    """What one worker adds to a node's contention."""
    if options.contention is Contention.CPU:
        return demand_milli(scene, node, seat) / cpu_milli(node)
    return weight_of(seat.category, cost)


def _longest_converged(unit: Unit) -> tuple[object, ...]:
    growth = unit.job.growth
    return (0.0 if growth is None else growth.since_s, *unit.order)


def _numbers(here: float, there: float) -> tuple[tuple[str, float], ...]:
    return (("contention_here", round(float(here), 3)), ("contention_there", round(float(there), 3)))
