"""All scenarios by name: on which cluster, which jobs, and what each arm does differently.

The first arm is what the others are compared with; every job of the others starts on the node on which it started in
the first, so that arms differ in what was moved and in nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sterna.compose.simulation_requests import (
    ClusterRequest,
    CostsRequest,
    ModelRequest,
    RebalanceRequest,
    RulesRequest,
    SimulationRequest,
    TraceRequest,
)
from sterna.model.errors import InvalidRequest
from sterna.wire.traces.shipped import trace_path

REWARM_S = 5.0  # until a moved training program has loaded its libraries and its state again; not published
DELETE_AND_CREATE_S = 1.1  # as SpeCon's log shows


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    says: str  # one line
    rebalance: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    says: str  # one line
    trace: str  # shipped
    arms: tuple[Arm, ...]
    shared: SimulationRequest  # what all arms have in common
    generator: str = ""  # a pattern that makes other jobs of the same kind from a seed. Empty: there are no others
    jobs: int = 0

    def request(self, arm: Arm, *, seed: int | None = None) -> SimulationRequest:
        """What the simulator is asked for this arm. With a seed, on jobs that are drawn anew."""
        moving = RebalanceRequest(names=arm.rebalance, settings=dict(arm.settings))
        request = replace(self.shared, rules=replace(self.shared.rules, rebalance=moving))
        if seed is None:
            return replace(request, trace=TraceRequest(file=trace_path(self.trace)))
        if not self.generator:
            raise InvalidRequest(field="seed", value=seed, expected=f"none: the jobs of {self.name} are fixed")
        return replace(request, trace=TraceRequest(generate=self.generator, jobs=self.jobs), seed=seed)


_SPECON_ARMS = (
    Arm("spread", "spread by pod count, nothing is moved"),
    Arm("specon", "SpeCon as published", ("specon",), {"mode": "off", "contention": "cpu"}),
    Arm("specon+cost", "moves that pay and harm no job much", ("specon",)),
)
_SPECON = SimulationRequest(
    rules=RulesRequest(policy="fifo", placement="spread"),
    model=ModelRequest(name="fixed", contention="cpu"),
    cluster=ClusterRequest(nodes=4, gpus_per_node=0, cpus_per_node=8),
    costs=CostsRequest(migrate_s=DELETE_AND_CREATE_S + REWARM_S, rescale_s=DELETE_AND_CREATE_S + REWARM_S),
)
_CONTAINER_MIGRATION = SimulationRequest(
    rules=RulesRequest(policy="dragon"),
    model=ModelRequest(name="linear", sizing="request", contention="cpu"),
    cluster=ClusterRequest(nodes=3, gpus_per_node=0, cpus_per_node=4, memory_gib_per_node=16),
    costs=CostsRequest(migrate_s=REWARM_S, rescale_s=REWARM_S),
)

_PILES = {
    "a": "3 jobs of one worker, all on one node",
    "b": "2, 1 and 1 workers, two jobs on one node",
    "c": "3 jobs of one worker, one on each node",
    "d": "3 jobs of three workers, all on one node",
    "e": "3 jobs of three workers, one on each node",
}

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="specon-50",
        says="SpeCon's experiment: 50 trainings without requests on 4 nodes, times nearest to the published ones",
        trace="specon-50",
        arms=_SPECON_ARMS,
        shared=_SPECON,
    ),
    Scenario(
        name="specon-50-uneven",
        says="the same with a few large trainings, a mix that leaves more to gain; other draws of it: --seeds 40",
        trace="specon-50-uneven",
        generator="specon",
        jobs=50,
        arms=_SPECON_ARMS,
        shared=_SPECON,
    ),
    *(
        Scenario(
            name=f"container-migration-{letter}",
            says=f"container-migration's experiment {letter}: {pile}",
            trace=f"container-migration-{letter}",
            arms=(
                Arm("dragon", "DRAGON, nothing is moved"),
                Arm("imbalance", "work leaves overloaded nodes", ("imbalance",)),
            ),
            shared=_CONTAINER_MIGRATION,
        )
        for letter, pile in _PILES.items()
    ),
)


def scenario_named(name: str) -> Scenario:
    for scenario in SCENARIOS:
        if scenario.name == name.strip().lower():
            return scenario
    expected = "one of: " + ", ".join(scenario.name for scenario in SCENARIOS)
    raise InvalidRequest(field="scenario", value=name, expected=expected)
