"""Policy, placement and rebalancers of a request, looked up and checked against each other."""

from typing import NamedTuple

from sterna.compose.simulation_requests import RulesRequest
from sterna.lifecycle.rule_names import placement_for, rebalancers, split_settings
from sterna.model.errors import InvalidRequest
from sterna.model.judging import Judge
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.placement.strategies import Placement, placement
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import Policy
from sterna.policies.registry import policy as policy_named

_COUNT = "count"  # the placement that knows no nodes, only sums


class ChosenRules(NamedTuple):
    policy: Policy
    place: Placement
    settings: Settings
    judge: Judge | None  # of how jobs grow. None: nothing is moved for it

    @property
    def knows_nodes(self) -> bool:
        return not self.settings.counted

    def decide(self, view: Snapshot) -> Decision:
        return decide(view, self.policy, self.place, self.settings)


def chosen_rules(request: RulesRequest) -> ChosenRules:
    """`InvalidRequest`: a name or a setting does not exist, or two of them do not go together."""
    chosen = policy_named(request.policy, request.settings)
    where = placement_for(chosen, request.placement)
    moving = rebalancers(request.rebalance.names, request.rebalance.settings)
    if where == _COUNT and moving is not None:  # there is nothing to move from and to
        expected = "one that knows nodes, as rebalancers move work"
        raise InvalidRequest(field="placement", value=where, expected=expected)
    settings = Settings(
        counted=where == _COUNT,
        starving_after_s=request.starving_after_s,
        rebalance=moving,
        idle_cpu_share=request.idle_cpu_share,
    )
    judging, _ = split_settings(request.rebalance.settings)
    return ChosenRules(chosen, placement(where), settings, None if moving is None else Judge.of(judging))
