"""One run as a report needs it: its numbers, and as much of its detail as pictures can show."""

from dataclasses import dataclass, replace

from sterna.engines.simulator.results import SimulationResult, Summary
from sterna.interfaces.plots.gantt import picked
from sterna.interfaces.plots.utilisation import resampled

_SAMPLES_MAX = 2000  # several for each step of the utilisation chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    summary: Summary  # of the whole run
    result: SimulationResult  # cut down to what is drawn, so that it travels cheaply between processes
    options: tuple[tuple[str, str], ...] = ()  # the policy's, defaults included, as they would be typed
    problems: tuple[str, ...] = ()  # rows of the trace that could not be used
    took_s: float = 0.0  # on the real clock

    @property
    def unfinished(self) -> tuple[tuple[str, str], ...]:
        return unfinished(self.result)

    @property
    def key(self) -> tuple[str, str]:
        return (self.summary.policy, self.summary.trace)


def finding(
    result: SimulationResult,
    *,
    name: str,
    options: tuple[tuple[str, str], ...] = (),
    problems: tuple[str, ...] = (),
    took_s: float = 0.0,
) -> Finding:
    """Of a result that is called `name` in reports: the policy and what was set, where that tells two runs apart."""
    named = replace(result, policy=name)
    return Finding(summary=named.summary(), result=_drawable(named), options=options, problems=problems, took_s=took_s)


def unfinished(result: SimulationResult) -> tuple[tuple[str, str], ...]:
    """Jobs that did not finish, and why."""
    jobs = [record for record in result.records if record.finished_s is None]
    return tuple((record.id, record.refused or "started and did not finish") for record in jobs)


def _drawable(result: SimulationResult) -> SimulationResult:
    """Without what no picture shows: segments of jobs that get no row, and samples finer than a pixel."""
    rows = {record.id for record in picked(result.records)}
    records = tuple(record if record.id in rows else replace(record, segments=()) for record in result.records)
    samples = result.samples
    if len(samples) > _SAMPLES_MAX:
        end = samples[-1]._replace(at_s=result.makespan_s)
        samples = (*resampled(samples, result.makespan_s, bins=_SAMPLES_MAX), end)
    return replace(result, records=records, samples=samples, decision_s=())
