"""SpeCon: work that has converged leaves the most contended node for a less contended one, one move in a round.

After Mao et al., "Speculative Container Scheduling for Deep Learning Applications in a Kubernetes Cluster" (2020).
Every round looks at the converged workers of the most contended node that has any; the best of them moves, the others
are reported as looked at. Contention is a weighted count, in which converged workers count little, or the CPU that
workers could use. A worker goes only where contention is lower even with it, so that undoing a move never pays.

Departures: the paper leaves the contention measure open; a target must have room and admit the worker; of the calmest
targets the one with the best net benefit is taken, unless the cost model is off, where it is the least contended. What
holds the state of its job (parameter server, chief, master, launcher) stays. A job of which no worker survives a move
goes as a whole, all roles, to one node that has none of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sterna.model.growth import Category
from sterna.model.ids import NodeId
from sterna.model.nodes import Node
from sterna.model.options import option
from sterna.model.why import Because, Why
from sterna.placement.rebalancers.cost import CostMode, CostOptions, pause_s, weight, weight_of
from sterna.placement.rebalancers.demand import Demands, cpu_milli
from sterna.placement.rebalancers.forecast import Forecast
from sterna.placement.rebalancers.rounds import Answer, Bundle, Move, Question, Stay, not_worth_it
from sterna.placement.rebalancers.scene import HeldSeat, Unit, category_of

_ROUND = "round_s"  # when the last round was that moved something or saw something new
_WEIGHED_MAX = 8  # targets of a candidate for which the future is worked out, the calmest


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
    weigh = _Weigher(Demands(scene), options, question.cost)
    load = {node.id: sum(weigh.part(node, seat) for seat in scene.residents[node.id]) for node in scene.nodes}
    source = min((node for unit in candidates for node in unit.leaves), key=lambda node: (-load[node], node))
    here = sorted((unit for unit in candidates if source in unit.leaves), key=_longest_converged)
    this = _Round(question, options, weigh, load, source, Forecast(scene, weigh.demands, question.cost))
    looks = [this.look(unit) for unit in here]
    bundles = [look for look in looks if isinstance(look, Bundle)]
    return Answer(
        bundles=sorted(bundles, key=lambda bundle: -bundle.net_s),  # stable: then the one that converged first
        stays=[look for look in looks if isinstance(look, Stay)],
        bundles_max=options.moves_per_round,
        stamps={_ROUND: scene.now_s},
        wake_s=next_s,
    )


@dataclass(frozen=True, slots=True)
class _Round:
    question: Question
    options: SpeconOptions
    weigh: "_Weigher"
    load: Mapping[NodeId, float]
    source: NodeId
    forecast: Forecast

    def look(self, unit: Unit) -> Bundle | Stay:
        """The best move of one candidate, or why it stays."""
        question, load = self.question, self.load
        if (why_not := question.ledger.why_not(unit, question.budget)) is not None:
            return Stay(unit, why_not)
        calmer = self._calmer(unit)
        if not calmer:
            elsewhere = min((load[node_id] for node_id in load if node_id not in unit.leaves), default=0.0)
            return Stay(unit, Because(Why.EVEN_LOAD, _numbers(load[self.source], elsewhere)))
        open_to_it = [
            node_id
            for node_id in question.scene.targets(unit)
            if node_id in calmer and question.ledger.may_go(unit, node_id, question.budget)
        ]
        if not open_to_it:
            least = min(load[node_id] for node_id in calmer)
            return Stay(unit, Because(Why.NO_TARGET, _numbers(load[self.source], least)))
        calmest = sorted(open_to_it, key=lambda node_id: (load[node_id], node_id))
        if question.cost.mode is CostMode.OFF:
            return self._relieving(unit, calmest[0])
        return self._best(unit, [self._weighed(unit, to) for to in calmest[:_WEIGHED_MAX]])

    def _calmer(self, unit: Unit) -> set[NodeId]:
        """Nodes that are less contended with the unit than its own is now."""
        load, nodes = self.load, self.question.scene.view.cluster.by_id
        return {
            node_id
            for node_id in load
            if node_id not in unit.leaves and load[node_id] + self.weigh.added(nodes[node_id], unit) < load[self.source]
        }

    def _relieving(self, unit: Unit, to: NodeId) -> Bundle:
        """Without a cost model every move that evens loads is worth it; its nominal benefit is one round's relief."""
        benefit_s = (self.load[self.source] - self.load[to]) * self.options.round_s
        return Bundle((Move(unit, to),), self._because(to), benefit_s, 0.0)

    def _weighed(self, unit: Unit, to: NodeId) -> Bundle:
        """The benefit is what jobs that end sooner gain; the cost is the pause and what jobs that end later lose."""
        cost, jobs = self.question.cost, self.question.scene.view.by_id
        pause = pause_s(unit.job, cost)
        effects = self.forecast.effects_s(unit, to)
        weighted_s = [weight(jobs[job_id], cost) * delay_s for job_id, delay_s in effects.items()]
        benefit_s = -sum(delay_s for delay_s in weighted_s if delay_s < 0)
        cost_s = pause + sum(delay_s for delay_s in weighted_s if delay_s > 0)
        effects[unit.job.id] += pause
        return Bundle((Move(unit, to),), self._because(to), benefit_s, cost_s, effects)

    def _best(self, unit: Unit, tried: Sequence[Bundle]) -> Bundle | Stay:
        best = max(tried, key=lambda bundle: (self._harms_nobody(bundle), bundle.net_s))  # the first of equal ones
        if best.net_s > 0 and self._harms_nobody(best):
            return best
        return Stay(unit, not_worth_it(best.benefit_s, best.cost_s), best.benefit_s, best.cost_s)

    def _harms_nobody(self, bundle: Bundle) -> bool:
        """Is no single job delayed beyond its share, all moves so far counted? Sums alone would hide such a job."""
        most, ledger, jobs = self.question.cost.harm_max, self.question.ledger, self.question.scene.view.by_id
        return not most or all(
            delay_s <= 0 or ledger.delayed_s(job_id) + delay_s <= most * self.forecast.whole_s(jobs[job_id])
            for job_id, delay_s in bundle.effects_s.items()
        )

    def _because(self, to: NodeId) -> Because:
        return Because(Why.CONVERGED, _numbers(self.load[self.source], self.load[to]))


@dataclass(frozen=True, slots=True)
class _Weigher:
    """What workers add to a node's contention."""

    demands: Demands
    options: SpeconOptions
    cost: CostOptions

    def part(self, node: Node, seat: HeldSeat) -> float:
        if self.options.contention is Contention.CPU:
            return self.demands.milli(node, seat) / cpu_milli(node)
        return weight_of(seat.category, self.cost)

    def added(self, node: Node, unit: Unit) -> float:
        return sum(self.part(node, HeldSeat(unit.job, worker)) for worker in unit.workers)


def _longest_converged(unit: Unit) -> tuple[object, ...]:
    growth = unit.job.growth
    return (0.0 if growth is None else growth.since_s, *unit.order)


def _numbers(here: float, there: float) -> tuple[tuple[str, float], ...]:
    return (("contention_here", round(float(here), 3)), ("contention_there", round(float(there), 3)))
