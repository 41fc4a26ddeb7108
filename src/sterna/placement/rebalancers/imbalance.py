"""Imbalance: workers leave nodes that are loaded far above the mean, each for the node with the lowest score.

The rule of container-migration, as it was meant: a node is overloaded if its score (`loads.py`) is above the mean of
all nodes by more than a threshold of standard deviations; its workers are credited back to it, and each goes to the
node with the lowest score then. Where that is the node it is on, it stays; where the best has no room, the next best is
taken. A node that was overloaded counts as such until it is clearly below the threshold.

Departures: squared deviations are summed over all nodes, so the answer does not depend on their order; a score must
also be above the mean by a small gap, because a deviation alone has no size and would call one part in a thousand an
imbalance; a target must have room; and a move must pay by the cost model, which keeps jobs that end soon in place.
"""

from dataclasses import dataclass

from sterna.model.ids import NodeId
from sterna.model.options import option
from sterna.model.why import Because, Why
from sterna.placement.rebalancers.cost import CostMode, pause_s, time_left_s
from sterna.placement.rebalancers.loads import By, Loads, overloaded
from sterna.placement.rebalancers.rounds import Answer, Bundle, Move, Question, Stay, not_worth_it
from sterna.placement.rebalancers.scene import Unit
from sterna.placement.room import Room

_OVER = "over/"  # and a node's id: it was overloaded when last looked at


@dataclass(frozen=True, slots=True)
class ImbalanceOptions:
    threshold: float = option(
        1.0,
        "how many standard deviations above the mean a node's score must be; more than sqrt(n - 1) of n nodes never "
        "happens",
        at_least=0,
        at_most=1e9,
    )
    hysteresis: float = option(
        0.1,
        "a node that was overloaded is so until its score is below the threshold by this much",
        at_least=0,
        at_most=1e9,
    )
    gap: float = option(
        0.05, "how far above the mean a score must be whatever the deviation is", at_least=0, at_most=1e9
    )
    two_nodes_gap: float = option(
        0.0,
        "with two nodes, how far one score must be above the other; 0: two nodes are left alone",
        at_least=0,
        at_most=1e9,
    )
    by: By = option(
        By.LIMITS, "what loads a node: the limits of its workers, their requests, or what is measured (usage)"
    )
    moves_per_pass: int = option(8, "how many moves one decision may make in a pool", at_least=0)
    check_s: float = option(
        10.0, "seconds until an imbalance that is left is looked at again", at_least=0.1, at_most=1e9
    )


def imbalance(question: Question, options: ImbalanceOptions) -> Answer:
    scene, loads = question.scene, Loads(question.scene, options.by)
    scores = loads.scores()
    over = _overloaded(scores, question, options)
    room, bundles, stays = scene.room.copy(), list[Bundle](), list[Stay]()
    for node_id in sorted(over, key=lambda node_id: (-scores[node_id], node_id)):
        for unit in sorted(scene.units_on(node_id), key=lambda unit: unit.order):
            if node_id not in _overloaded(loads.scores(), question, options) or len(bundles) >= options.moves_per_pass:
                break
            look = _look(question, loads, room, unit, node_id)
            if isinstance(look, Stay):
                stays.append(look)
            else:  # the next one is weighed as if this one had gone
                bundles.append(look)
                loads = loads.moved(unit, look.moves[0].to)
                unit.moved(room, look.moves[0].to)
    looks_again = bool(over) or (options.by is By.USAGE and bool(scene.units))
    return Answer(
        bundles=bundles,
        stays=stays,
        bundles_max=options.moves_per_pass,
        values={_OVER + node_id: 1.0 for node_id in sorted(over)},
        wake_s=scene.now_s + options.check_s if looks_again else None,
    )


def _overloaded(scores: dict[NodeId, float], question: Question, options: ImbalanceOptions) -> set[NodeId]:
    """With hysteresis: those that were overloaded are measured by the lower bound."""
    enter = overloaded(scores, threshold=options.threshold, gap=options.gap, two_nodes_gap=options.two_nodes_gap)
    lower = max(0.0, options.threshold - options.hysteresis)
    keep = overloaded(scores, threshold=lower, gap=options.gap, two_nodes_gap=options.two_nodes_gap)
    return enter | {node_id for node_id in keep if _OVER + node_id in question.values}


def _look(question: Question, loads: Loads, room: Room, unit: Unit, source: NodeId) -> Bundle | Stay:
    """The unit's move, or why it stays."""
    scene, cost = question.scene, question.cost
    if (why_not := question.ledger.why_not(unit, question.budget)) is not None:
        return Stay(unit, why_not)
    allowed = frozenset(
        node_id for node_id in scene.targets(unit, room) if question.ledger.may_go(unit, node_id, question.budget)
    )
    here = loads.score(source)
    to = _best(loads, unit, source, allowed=allowed)
    if to is None or to == source:
        why = Why.NO_TARGET if to is None else Why.EVEN_LOAD
        return Stay(unit, Because(why, (("score_here", round(here, 3)),)))
    there = loads.moved(unit, to).score(to)
    relieved_s = cost.horizon_s if cost.mode is CostMode.OFF else time_left_s(unit.job, scene.now_s, cost)
    benefit_s, cost_s = (here - there) * relieved_s, pause_s(unit.job, cost)
    if benefit_s <= cost_s:
        return Stay(unit, not_worth_it(benefit_s, cost_s), benefit_s, cost_s)
    because = Because(Why.NODE_OVERLOADED, (("score_here", round(here, 3)), ("score_there", round(there, 3))))
    return Bundle((Move(unit, to),), because, benefit_s, cost_s)


def _best(loads: Loads, unit: Unit, source: NodeId, *, allowed: frozenset[NodeId]) -> NodeId | None:
    """The node with the lowest score once the unit's load is credited to where it is: `source` wins ties.

    None, if there is a better one and none of those is allowed.
    """
    scores = loads.moved(unit, None).scores()
    better = [node_id for node_id in scores if scores[node_id] < scores[source]]
    if not better:
        return source
    return min((node_id for node_id in better if node_id in allowed), key=lambda n: (scores[n], n), default=None)
