"""A job as the scheduling core sees it: from the state an engine keeps and from how the job trains. Pure.

An engine gathers facts: the state it keeps (`ValuedState`), how the job trains (`TrainingFacts`), and which workers
still take room. What the next snapshot says about the job follows from these here, in the same way in every engine.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from sterna.lifecycle.counters import CostOfStart, settled
from sterna.lifecycle.job_state import JobState
from sterna.lifecycle.work_left import work_left, work_total
from sterna.model.curves import SpeedupCurve
from sterna.model.growth import Growth
from sterna.model.jobs import Disruption, Job, JobSpec, ProgressPoint, Worker


class Costs(CostOfStart, Protocol):
    """What saving and starting again cost the job, as far as it ever showed it."""

    @property
    def save_s(self) -> float | None: ...


class ValuedState(JobState, Protocol):
    """A job's state with what only the core wants to know. `assigned` is in the order of the decision."""

    @property
    def resumes_s(self) -> float: ...

    @property
    def waiting_since_s(self) -> float | None: ...

    @property
    def last_ran_s(self) -> float: ...

    @property
    def progress(self) -> Costs | None: ...


class TrainingFacts(NamedTuple):
    """How a job trains: as its program or its monitors told last, and as jobs like it do."""

    curve: SpeedupCurve = SpeedupCurve((1.0,))
    units_done: float = 0.0
    units_total: float | None = None  # as the program says. None: it does not
    epoch: int = 0
    epochs_declared: float | None = None  # by the owner. None: nothing was declared
    units_usual: float | None = None  # that jobs like it took. None: there were none
    told_s: float = 0.0  # when `units_done` was told
    remaining_s: float | None = None  # as the program itself expects it. None: it does not say
    points: tuple[ProgressPoint, ...] = ()  # the latest measurements
    growth: Growth | None = None  # as it was last judged. None: it was not

    @property
    def work_total(self) -> float | None:
        """All of its work, in the units that the program counts. None: neither program nor owner says."""
        return work_total(
            done=self.units_done, told=self.units_total, epoch=self.epoch, declared_epochs=self.epochs_declared
        )

    @property
    def work_left(self) -> float | None:
        """Where nothing says how much work there is, a program may still tell how long it will take. None: unknown."""
        left = work_left(total=self.work_total, done=self.units_done, usual=self.units_usual)
        if left is None and self.remaining_s is not None and self.points:
            return self.remaining_s / self.points[-1].unit_s
        return left


def job_value(
    spec: JobSpec,
    state: ValuedState,
    training: TrainingFacts,
    *,
    leaving: tuple[Worker, ...] = (),
    disruptions: tuple[Disruption, ...] = (),
) -> Job:
    """The job as the next snapshot shows it.

    Its counters are exact at one moment: when what it holds last changed, or when its progress was told, if that was
    later. Work left is told for that moment, so service and time are brought there with it.
    """
    costs = state.progress
    counters: Mapping[str, float] = {}
    if training.told_s > state.as_of_s:
        counters = settled(state, spec, training.told_s)
    return Job(
        spec=spec,
        phase=state.phase,
        workers=state.assigned,
        leaving=leaving,
        as_of_s=counters.get("as_of_s", state.as_of_s),
        resumes_s=state.resumes_s,
        waiting_since_s=state.waiting_since_s,
        first_started_s=state.first_started_s,
        started_s=state.started_s,
        gpu_s=counters.get("gpu_s", state.gpu_s),
        ran_s=counters.get("ran_s", state.ran_s),
        gpu_s_since_start=counters.get("gpu_s_since_start", state.gpu_s_since_start),
        last_ran_s=state.last_ran_s,
        units_left=training.work_left,
        curve=training.curve,
        checkpoint_s=0.0 if costs is None else costs.save_s or 0.0,
        restart_s=0.0 if costs is None else costs.restart_s or 0.0,
        progress=training.points,
        growth=training.growth,
        disruptions=disruptions,
    )
