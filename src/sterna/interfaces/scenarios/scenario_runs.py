"""Run the arms of a scenario and set them side by side: how much sooner, for which jobs, and which end later."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sterna.compose.simulation import pins_of, run_simulation
from sterna.engines.simulator.results import SimulationResult
from sterna.interfaces.scenarios.scenario_catalogue import Arm, Scenario


@dataclass(frozen=True, slots=True)
class JobChange:
    job: str
    category: str
    before_s: float  # completion time in the first arm
    after_s: float
    moves: int  # of its workers

    @property
    def change(self) -> float:
        """-0.2: a fifth sooner."""
        return self.after_s / self.before_s - 1.0


@dataclass(frozen=True, slots=True)
class ArmOutcome:
    arm: Arm
    result: SimulationResult
    jobs: tuple[JobChange, ...]
    makespan_change: float
    mean_change: float

    @property
    def makespan_s(self) -> float:
        return self.result.makespan_s

    @property
    def mean_s(self) -> float:
        return sum(job.after_s for job in self.jobs) / len(self.jobs)

    @property
    def moves(self) -> int:
        return sum(job.moves for job in self.jobs)

    @property
    def best(self) -> JobChange:
        return min(self.jobs, key=lambda job: (job.change, job.job))

    @property
    def worst(self) -> JobChange:
        return max(self.jobs, key=lambda job: (job.change, job.job))

    @property
    def losers(self) -> tuple[JobChange, ...]:
        """Jobs that took longer than in the first arm by more than a hundredth, those that lose most first."""
        later = [job for job in self.jobs if job.change > 0.01]
        return tuple(sorted(later, key=lambda job: (-job.change, job.job)))

    @property
    def winners(self) -> int:
        return sum(job.change < -0.01 for job in self.jobs)


def run_scenario(scenario: Scenario, *, seed: int | None = None) -> tuple[ArmOutcome, ...]:
    """All arms. Jobs of later ones start where they started in the first."""
    first = run_simulation(scenario.request(scenario.arms[0], seed=seed)).result
    pins = pins_of(first)
    others = [run_simulation(scenario.request(arm, seed=seed), pins=pins).result for arm in scenario.arms[1:]]
    return tuple(outcome(arm, result, first) for arm, result in zip(scenario.arms, (first, *others), strict=True))


def outcome(arm: Arm, result: SimulationResult, first: SimulationResult) -> ArmOutcome:
    before = {record.id: record.jct_s for record in first.records}
    moves = Counter(str(move.job_id) for _, move in result.considered if move.to is not None)
    jobs = tuple(
        JobChange(record.id, record.category, before[record.id] or 0.0, record.jct_s or 0.0, moves[record.id])
        for record in result.records
    )
    return ArmOutcome(
        arm,
        result,
        jobs,
        result.makespan_s / first.makespan_s - 1.0,
        _mean([job.after_s for job in jobs]) / _mean([job.before_s for job in jobs]) - 1.0,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
