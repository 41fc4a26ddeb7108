"""The numbers of a run in the order reports show them: what each is called, how it is written, which way is better."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sterna.engines.simulator.results import Summary
from sterna.interfaces.plots.scales import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    name: str  # the field of `Summary`; also the CSV column and the JSON key
    head: str  # short, for table heads
    says: str  # a few words, for cards and tool tips
    write: Callable[[Any], str]
    lower_is_better: bool | None = None  # None: neither way
    is_time: bool = False  # seconds, so a card adds hours and minutes
    narrow: bool = True  # shown in tables of several runs

    def of(self, summary: Summary) -> Any:
        return getattr(summary, self.name)

    def shown(self, summary: Summary) -> str:
        return self.write(self.of(summary))

    def explained(self, summary: Summary) -> str:
        """With units, and for long times also in the units people think in."""
        value = self.of(summary)
        if not self.is_time:
            return self.shown(summary)
        return f"{self.shown(summary)} s" + (f"  ({duration(value)})" if value >= 120 else "")


def _count(value: int) -> str:
    return f"{value:,}"


def _seconds(value: float) -> str:
    return f"{value:,.1f}"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _gpu_hours(value: float) -> str:
    return f"{value / 3600:,.1f}"


def _milliseconds(value: float) -> str:
    return f"{value:.3g}"


def _time(name: str, head: str, says: str, *, narrow: bool = True) -> Column:
    return Column(name=name, head=head, says=says, write=_seconds, lower_is_better=True, is_time=True, narrow=narrow)


COLUMNS: tuple[Column, ...] = (
    Column(name="policy", head="policy", says="policy", write=str),
    Column(name="trace", head="trace", says="trace", write=str),
    Column(name="jobs", head="jobs", says="jobs in the trace", write=_count),
    Column(name="finished", head="done", says="jobs finished", write=_count, lower_is_better=False),
    Column(name="refused", head="refused", says="jobs that can never run", write=_count, narrow=False),
    _time("jct_avg_s", "JCT avg", "completion time, average"),
    _time("jct_p50_s", "p50", "completion time, median"),
    _time("jct_p90_s", "p90", "completion time, 90 % within"),
    _time("jct_p99_s", "p99", "completion time, 99 % within"),
    _time("waiting_avg_s", "waiting", "waiting, average"),
    _time("makespan_s", "makespan", "until the last job is done"),
    Column(name="utilisation", head="util", says="GPU time in use", write=_share, lower_is_better=False),
    Column(name="resizes", head="resizes", says="resizes", write=_count),
    Column(name="migrations", head="moves", says="migrations", write=_count),
    Column(name="preemptions", head="preempt", says="preemptions", write=_count),
    Column(name="lost_gpu_s", head="lost GPU-h", says="GPU hours lost to pauses", write=_gpu_hours),
    Column(name="cycles", head="cycles", says="decisions made", write=_count, narrow=False),
    Column(
        name="decision_p50_ms", head="decide p50 ms", says="ms per decision, median", write=_milliseconds, narrow=False
    ),
    Column(name="decision_p99_ms", head="decide p99 ms", says="ms per decision, 99 % within", write=_milliseconds),
)
