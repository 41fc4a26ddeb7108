"""Drain: work leaves nodes that take no new workers, as long as there is room elsewhere.

A node that is being drained (`cordoned` in a snapshot: `sterna drain`) is emptied by placement: what is there goes
at once, to other nodes or back into the queue. A node that is merely closed to newcomers (`kubectl cordon`, or a taint
`NoSchedule` that a job does not tolerate) keeps what it has until that ends. This rebalancer empties such nodes too:
it moves what fits elsewhere, within the budget of its job, and leaves alone what would have to stop or ends soon.
"""

from dataclasses import dataclass

from sterna.model.ids import NodeId
from sterna.model.options import option
from sterna.model.why import Because, Why
from sterna.placement.rebalancers.cost import CostMode, pause_s, time_left_s
from sterna.placement.rebalancers.rounds import Answer, Bundle, Move, Question, Stay, not_worth_it
from sterna.placement.rebalancers.scene import Unit
from sterna.placement.room import Room


@dataclass(frozen=True, slots=True)
class DrainOptions:
    moves_per_pass: int = option(4, "how many moves one decision may make in a pool", at_least=0)
    again_s: float = option(30.0, "seconds until what had to stay is looked at again", at_least=0.1, at_most=1e9)


def drain(question: Question, options: DrainOptions) -> Answer:
    scene = question.scene
    room, bundles, stays = scene.room.copy(), list[Bundle](), list[Stay]()
    for unit in sorted((unit for unit in scene.units if _is_closed_in(question, unit)), key=lambda unit: unit.order):
        look = _look(question, room, unit)
        if isinstance(look, Stay):
            stays.append(look)
        else:
            bundles.append(look)
            unit.moved(room, look.moves[0].to)
    return Answer(
        bundles=bundles,
        stays=stays,
        bundles_max=options.moves_per_pass,
        wake_s=scene.now_s + options.again_s if bundles or stays else None,
    )


def _is_closed_in(question: Question, unit: Unit) -> bool:
    """Would one of its nodes not admit it if it were new? One that is in doubt may yet, and what is there stays."""
    frame, spec = question.scene.frame, unit.job.spec
    places = [frame.index[node] for node in unit.leaves if node in frame.index]
    return any(frame.nodes[at].doubt is None and not frame.admits(at, spec) for at in places)


def _look(question: Question, room: Room, unit: Unit) -> Bundle | Stay:
    scene, cost = question.scene, question.cost
    left = Because(Why.NODE_CLOSED, (("node", unit.workers[0].node),))
    if (why_not := question.ledger.why_not(unit, question.budget)) is not None:
        return Stay(unit, why_not)
    open_to_it = [node for node in scene.targets(unit, room) if question.ledger.may_go(unit, node, question.budget)]
    if not open_to_it:
        return Stay(unit, Because(Why.NO_TARGET, left.numbers))
    relieved_s = cost.horizon_s if cost.mode is CostMode.OFF else time_left_s(unit.job, scene.now_s, cost)
    benefit_s, cost_s = relieved_s, pause_s(unit.job, cost)
    if benefit_s <= cost_s:
        return Stay(unit, not_worth_it(benefit_s, cost_s), benefit_s, cost_s)
    return Bundle((Move(unit, _nearest(unit, open_to_it)),), left, benefit_s, cost_s)


def _nearest(unit: Unit, nodes: list[NodeId]) -> NodeId:
    """With the rest of its job if there is room, else the first by id."""
    beside = {worker.node for worker in unit.job.workers}
    return min(nodes, key=lambda node: (node not in beside, node))
