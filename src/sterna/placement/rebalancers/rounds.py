"""What a rebalancer is asked and what it answers, and how its answers become moves: all through `with_proposals`.

A bundle is made as a whole or not at all. Whatever is looked at is reported, with the reason why it moves or stays.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from sterna.model.considering import ConsideredMove
from sterna.model.ids import JobId, NodeId
from sterna.model.layout import Layout
from sterna.model.why import Because, Why
from sterna.placement.rebalancers.budget import BudgetOptions, Ledger
from sterna.placement.rebalancers.cost import CostOptions
from sterna.placement.rebalancers.scene import Scene, Unit
from sterna.placement.rebalancing import Proposal, with_proposals

_SEEN = "seen"  # the fingerprint of what was last looked at


@dataclass(frozen=True, slots=True)
class Question:
    """All that a rebalancer may look at."""

    scene: Scene
    cost: CostOptions
    budget: BudgetOptions
    ledger: Ledger  # read by rebalancers; written once a move is let in
    values: Mapping[str, float]  # what this rebalancer remembers of its last rounds


class Move(NamedTuple):
    unit: Unit
    to: NodeId


class Bundle(NamedTuple):
    moves: tuple[Move, ...]
    because: Because
    benefit_s: float  # of all moves together
    cost_s: float
    effects_s: Mapping[JobId, float] = {}  # by how much which job is expected to end later; below 0: sooner

    @property
    def net_s(self) -> float:
        return self.benefit_s - self.cost_s


class Stay(NamedTuple):
    """A unit that was looked at and is left where it is."""

    unit: Unit
    because: Because
    benefit_s: float = 0.0
    cost_s: float = 0.0


class Answer(NamedTuple):
    bundles: Sequence[Bundle] = ()  # the one that should be tried first stands first
    stays: Sequence[Stay] = ()
    bundles_max: int = 1  # how many of them may be made now
    values: Mapping[str, float] = {}  # to remember
    stamps: Mapping[str, float] = {}  # to remember if anything is new: an idle scheduler has nothing to write down
    wake_s: float | None = None  # the answer changes at this moment even if nothing happens. None: it does not


class Made(NamedTuple):
    layout: Layout
    considered: tuple[ConsideredMove, ...]
    values: Mapping[str, float]  # for the rebalancer to find in the next cycle


def made(question: Question, answer: Answer, *, by: str) -> Made:
    """The layout with the bundles that are let in, and a line for everything that was looked at.

    Where all stay, for the reasons for which they stayed when last looked at, nothing is reported or stamped again.
    """
    layout, considered, done = question.scene.layout, list[ConsideredMove](), list[Bundle]()
    for bundle in answer.bundles:
        waits = len(done) >= answer.bundles_max or _in_each_others_way([*done, bundle])
        why_not = Because(Why.ANOTHER_MOVED) if waits else _too_often(question, bundle)
        after = layout if why_not is not None else _with_bundle(question, layout, bundle)
        if after is layout:
            because = why_not or _refused(bundle)
            considered += [_line(by, move.unit, None, because, *_each(bundle)) for move in bundle.moves]
            continue
        layout = after
        done.append(bundle)
        question.ledger.note_effects(bundle.effects_s)
        for move in bundle.moves:
            question.ledger.note(move.unit)
            considered.append(_line(by, move.unit, move.to, bundle.because, *_each(bundle)))
    considered += [_line(by, stay.unit, None, stay.because, stay.benefit_s, stay.cost_s) for stay in answer.stays]
    if done or not considered:
        return Made(layout, tuple(considered), {**answer.values, **answer.stamps})
    seen, before = _fingerprint(considered), question.values
    if before.get(_SEEN) == seen:
        stamps = {key: before[key] for key in answer.stamps if key in before}
        return Made(layout, (), {**answer.values, **stamps, _SEEN: seen})
    return Made(layout, tuple(considered), {**answer.values, **answer.stamps, _SEEN: seen})


def _fingerprint(considered: Sequence[ConsideredMove]) -> float:
    """A number for which workers stay where and why, without the numbers behind a reason: those change all the time."""
    lines = [f"{move.job_id} {move.worker} {move.to} {move.because.why}" for move in considered]
    return float(crc32("\n".join(lines).encode()))


def _in_each_others_way(bundles: Sequence[Bundle]) -> bool:
    """Does one go where another leaves? It would have to wait for the room, and by then placement decides again."""
    moves = [move for bundle in bundles for move in bundle.moves]
    left = {node for move in moves for node in move.unit.leaves}
    return any(move.to in left for move in moves)


def _too_often(question: Question, bundle: Bundle) -> Because | None:
    earlier: Counter[JobId] = Counter()
    for unit, to in bundle.moves:
        why_not = question.ledger.why_not(unit, question.budget, beside=earlier[unit.job.id])
        if why_not is not None:
            return why_not
        if not question.ledger.may_go(unit, to, question.budget):
            return Because(Why.RESTING, (("left_recently", to),))
        earlier[unit.job.id] += 1
    return None


def _with_bundle(question: Question, layout: Layout, bundle: Bundle) -> Layout:
    """The layout with all of the bundle, or the very same one."""
    benefit_s, cost_s = _each(bundle)
    proposals = [
        Proposal(unit.job.id, worker, to, bundle.because, benefit_s, cost_s)
        for unit, to in bundle.moves
        for worker in unit.workers
    ]
    after = with_proposals(question.scene.view, layout, proposals, moves_max=len(proposals))
    if any(proposal.worker in after.workers_of(proposal.job_id) for proposal in proposals):
        return layout
    return after


def _each(bundle: Bundle) -> tuple[float, float]:
    """Benefit and cost, shared out evenly, so that every move of a bundle that pays is one that pays."""
    return bundle.benefit_s / len(bundle.moves), bundle.cost_s / len(bundle.moves)


def _refused(bundle: Bundle) -> Because:
    if bundle.net_s <= 0:
        return not_worth_it(bundle.benefit_s, bundle.cost_s)
    return Because(Why.NO_TARGET, (("wanted", bundle.moves[0].to),))


def not_worth_it(benefit_s: float, cost_s: float) -> Because:
    return Because(Why.NOT_WORTH_IT, (("benefit_s", round(benefit_s, 1)), ("cost_s", round(cost_s, 1))))


def _line(by: str, unit: Unit, to: NodeId | None, because: Because, benefit_s: float, cost_s: float) -> ConsideredMove:
    return ConsideredMove(by, unit.job.id, unit.workers[0], to, because, benefit_s, cost_s)
