"""Defragment: the fewest moves that make room for the largest gang that waits, or that empty a node.

With `goal=gang`, room is sought for the waiting job with the largest least request for which the pool has enough in
total. Node by node the smallest sets of units are tried whose leaving gives it another slot, until its minimum fits;
no unit goes where another one leaves. For a gang that lacks one slot the answer has the fewest moves there are; for one
that lacks several, each next slot is the cheapest.

With `goal=empty`, the node with fewest units is emptied into room on nodes that hold something already, so that whole
nodes become free. Either way all moves are made or none, and only if what is won is longer than all pauses together:
the wait that the gang is spared, which would end by itself once those that had to move have finished.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from sterna.model.ids import NodeId
from sterna.model.jobs import Job
from sterna.model.options import option
from sterna.model.resources import NOTHING, Resources
from sterna.model.snapshot import arrival_order
from sterna.model.target import Grant
from sterna.model.why import KEPT, Because, Why
from sterna.placement.packing import seated
from sterna.placement.rebalancers.cost import CostMode, pause_s, time_left_s
from sterna.placement.rebalancers.rounds import Answer, Bundle, Move, Question
from sterna.placement.rebalancers.scene import Scene, Unit
from sterna.placement.room import Room

_ROUND = "round_s"  # when something was last moved


class Goal(StrEnum):
    GANG = "gang"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class DefragmentOptions:
    goal: Goal = option(Goal.GANG, "make room for the largest waiting job (gang), or whole nodes free (empty)")
    moves_max: int = option(3, "how many moves may serve one goal; sets of more are not searched", at_least=1)
    round_s: float = option(60.0, "seconds from one such change to the next", at_least=0.1, at_most=1e9)


def defragment(question: Question, options: DefragmentOptions) -> Answer:
    scene, last_s = question.scene, question.values.get(_ROUND)
    if last_s is not None and last_s <= scene.now_s < last_s + options.round_s:
        return Answer(values=question.values, wake_s=last_s + options.round_s)
    movable = tuple(unit for unit in scene.units if question.ledger.why_not(unit, question.budget) is None)
    if options.goal is Goal.EMPTY:
        found = _emptying(question, options, movable)
    else:
        gang = _largest_waiting(scene)
        found = None if gang is None else _room_for(question, options, movable, gang)
    if found is None:
        return Answer()
    return Answer(bundles=(found,), values={_ROUND: scene.now_s}, wake_s=scene.now_s + options.round_s)


def _largest_waiting(scene: Scene) -> Job | None:
    """Of the jobs that got nothing, the one with the largest least request that the free room would hold in sum."""
    currency, room = scene.view.currency, scene.room
    waiting = [job for job in scene.view.wanting if not job.workers and not scene.layout.workers_of(job.id)]
    fitting = [job for job in waiting if _fits_in_sum(room, job)]
    return min(fitting, key=lambda job: (-job.spec.min_request[currency], arrival_order(job)), default=None)


def _fits_in_sum(room: Room, job: Job) -> bool:
    needs, frame = job.spec.min_request, room.frame
    open_nodes = [at for at in range(len(frame.nodes)) if frame.admits(at, job.spec)]
    free = [sum(max(0, amounts[at]) for at in open_nodes) for amounts in (room.cpu, room.memory, room.gpus)]
    return (
        needs.cpu_milli <= free[0]
        and needs.memory_bytes <= free[1]
        and needs.gpu_milli <= 1000 * free[2] + (1000 if needs.shares_gpu else 0)
    )


def _room_for(question: Question, options: DefragmentOptions, movable: Sequence[Unit], gang: Job) -> Bundle | None:
    """The moves after which the gang's minimum fits; None if too few moves are allowed, or it fits as it is."""
    room, moves = question.scene.room.copy(), tuple[Move, ...]()
    while not _fits(room, gang):
        gone = [move.unit for move in moves]
        rest = [unit for unit in movable if unit not in gone]
        step = _one_more_slot(question, room, rest, gang, moves_max=options.moves_max - len(moves))
        if not step:
            return None
        moves += step
        room = _after(room, step)
    if not moves:
        return None  # it is the policy that keeps it waiting
    return _if_worth_it(question, moves, Because(Why.DEFRAGMENTED, (("makes_room_for", gang.id),)))


def _one_more_slot(
    question: Question, room: Room, movable: Sequence[Unit], gang: Job, *, moves_max: int
) -> tuple[Move, ...]:
    """The fewest moves that give the gang at least one more slot; of equal ones the cheapest, then by order."""
    frame, before = room.frame, _slots(room, gang)
    for count in range(1, moves_max + 1):
        found: list[tuple[float, int, int, tuple[Move, ...]]] = []
        for at, node in enumerate(frame.nodes):
            if not frame.admits(at, gang.spec):
                continue
            here = sorted((unit for unit in movable if unit.leaves == {node.id}), key=lambda unit: unit.order)
            for rank, leavers in enumerate(combinations(here, count)):
                moves = _elsewhere(question, room, leavers, avoid={at})
                if moves and _slots(_after(room, moves), gang) > before:
                    found.append((_pauses_s(question, moves), at, rank, moves))
        if found:
            return min(found, key=lambda entry: entry[:3])[3]
    return ()


def _elsewhere(question: Question, room: Room, leavers: Sequence[Unit], *, avoid: set[int]) -> tuple[Move, ...]:
    """A node for each, the largest first: the tightest that has room, those to avoid aside. Empty, if one has none."""
    tried, moves = room.copy(), list[Move]()
    for unit in sorted(leavers, key=lambda unit: [-amount for amount in _sum(unit)]):
        offers = [
            (_free(tried, node, unit), node)
            for node in question.scene.targets(unit, tried)
            if tried.frame.index[node] not in avoid and question.ledger.may_go(unit, node, question.budget)
        ]
        if not offers:
            return ()
        _, to = min(offers)
        unit.moved(tried, to)
        moves.append(Move(unit, to))
    return tuple(moves)


def _emptying(question: Question, options: DefragmentOptions, movable: Sequence[Unit]) -> Bundle | None:
    """The node with fewest units that all fit on other nodes in use; None, if there is none."""
    scene = question.scene
    index = scene.frame.index
    idle = {index[node] for node, seats in scene.residents.items() if not seats}
    light = [node for node, seats in scene.residents.items() if seats]
    for node in sorted(light, key=lambda node: (len(scene.residents[node]), node)):
        units = [unit for unit in movable if unit.leaves == {node}]
        stays = sum(len(unit.workers) for unit in units) != len(scene.residents[node])
        if stays or len(units) > options.moves_max:
            continue  # it would not be empty afterwards, or at too high a price
        moves = _elsewhere(question, scene.room, units, avoid=idle | {index[node]})
        found = _if_worth_it(question, moves, Because(Why.DEFRAGMENTED, (("empties", node),))) if moves else None
        if found is not None:
            return found
    return None


def _if_worth_it(question: Question, moves: tuple[Move, ...], because: Because) -> Bundle | None:
    """The moves, if the time until their jobs would have left by themselves is longer than all pauses."""
    cost, now_s = question.cost, question.scene.now_s
    benefit_s = max(time_left_s(move.unit.job, now_s, cost) for move in moves)
    if cost.mode is CostMode.OFF:
        benefit_s = cost.horizon_s
    cost_s = _pauses_s(question, moves)
    return Bundle(moves, because, benefit_s, cost_s) if benefit_s > cost_s else None


def _pauses_s(question: Question, moves: Sequence[Move]) -> float:
    return sum(pause_s(move.unit.job, question.cost) for move in moves)


def _fits(room: Room, gang: Job) -> bool:
    least = gang.spec.workers_min
    return seated(room.copy(), gang.spec, (), Grant(least, least, KEPT)) is not None


def _slots(room: Room, gang: Job) -> int:
    return int(room.slots(gang.spec.request, room.frame.admitting(gang.spec)).sum())


def _after(room: Room, moves: Sequence[Move]) -> Room:
    after = room.copy()
    for unit, to in moves:
        unit.moved(after, to)
    return after


def _free(room: Room, node: NodeId, unit: Unit) -> int:
    """What nodes are compared by: free cards where the unit needs some, else CPU."""
    at = room.frame.index[node]
    return room.gpus[at] if _sum(unit).gpu_milli else room.cpu[at]


def _sum(unit: Unit) -> Resources:
    total = NOTHING
    for request, count in unit.demand:
        total = total.plus(request.times(count))
    return total
