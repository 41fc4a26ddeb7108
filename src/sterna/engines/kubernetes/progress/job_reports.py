"""What monitors told of one job, folded: how far it is, how fast it goes, how its evaluation value grows. Pure.

One pod speaks for its job: the first of those that report (the leader, else the worker with the lowest number), until
it is silent for a minute. A pod that is started anew goes on where the one before it was, whatever node it is on.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sterna.lifecycle.speed import Mark, measured, with_point
from sterna.model.jobs import ProgressPoint
from sterna.model.judging import Judged
from sterna.model.learning import ThroughputModel
from sterna.protocol.reports import Report

SILENT_S = 60.0  # after which another pod may speak


class Speaker(NamedTuple):
    """The source of a report. The lower order goes first; reports about the job as a whole go before all others."""

    order: tuple[int, int]
    uid: str  # of the pod: one that is made anew under the same name is another one


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    judged: Judged
    metric: str = ""  # what its values are called; empty: not said
    speaker: Speaker | None = None  # None: nothing was reported yet
    heard_s: float = 0.0  # when the speaker's latest report was made, by its node's clock
    as_of_s: float = 0.0  # when `units_done` came, by ours
    units_done: float | None = None  # None: not said, as with the others
    units_total: float | None = None
    epoch: int = 0
    remaining_s: float | None = None
    workers: int = 0
    points: tuple[ProgressPoint, ...] = ()  # the latest
    model: ThroughputModel = field(default_factory=ThroughputModel)  # of this job alone
    mark: Mark | None = None
    cpu: float | None = None  # that the speaker uses. None: not measured

    @property
    def unit_s(self) -> float | None:
        return self.points[-1].unit_s if self.points else None

    def hearing(self, speaker: Speaker, report: Report, *, workers: int, now_s: float) -> "Told":
        """With one more report. The same object: another pod speaks for this job."""
        if not report.seq:
            return self._measuring(speaker, report)
        at_s = min(report.at_s, now_s)  # a node whose clock is ahead must not silence those that come after
        if not self._may_speak(speaker, at_s):
            return self
        told = self if self.speaker == speaker else self._handed_to(speaker, at_s)
        if report.value is not None:
            told = told._judging(report, report.value, at_s)
        return told._counting(report, at_s, workers=report.workers or workers, now_s=now_s)

    def _measuring(self, speaker: Speaker, report: Report) -> "Told":
        """What the monitor measured of a pod; a measurement does not make a pod the speaker."""
        if report.usage is None or report.usage.cpu is None or speaker != self.speaker:
            return self
        return replace(self, cpu=report.usage.cpu)

    def _may_speak(self, speaker: Speaker, at_s: float) -> bool:
        known = self.speaker
        return known is None or speaker.order <= known.order or at_s - self.heard_s > SILENT_S

    def _handed_to(self, speaker: Speaker, at_s: float) -> "Told":
        judged = self.judged if self.speaker is None else self.judged.restarted(at_s)
        return replace(self, speaker=speaker, judged=judged, mark=None, cpu=None)

    def _judging(self, report: Report, value: float, at_s: float) -> "Told":
        """Values of another name are another curve."""
        same = report.metric in ("", self.metric) or not self.metric
        judged = self.judged if same else Judged.fresh(self.judged.judge)
        cpu = report.usage.cpu if report.usage is not None else self.cpu
        judged = judged.seen(at_s, value, cpu_milli=None if cpu is None else cpu * 1000)
        return replace(self, judged=judged, metric=report.metric or self.metric)

    def _counting(self, report: Report, at_s: float, *, workers: int, now_s: float) -> "Told":
        """Epochs where the program counts nothing else."""
        units = report.units_done
        if units is None and report.epoch is not None and self.units_total is None:
            units = float(report.epoch)
        told = replace(
            self,
            heard_s=max(self.heard_s, at_s),
            workers=workers,
            epoch=self.epoch if report.epoch is None else report.epoch,
            remaining_s=self.remaining_s if report.remaining_s is None else report.remaining_s,
            units_total=self.units_total if report.units_total is None else report.units_total,
        )
        if units is None or workers < 1:
            return told
        told = replace(told, units_done=units, as_of_s=now_s)
        assert told.speaker is not None  # `hearing` has made the sender the speaker
        mark, unit_s = measured(told.mark, Mark(units, at_s, workers, told.speaker.uid))
        if unit_s is None:
            return replace(told, mark=mark)
        points = with_point(told.points, ProgressPoint(at_s, units, workers, unit_s, report.value))
        return replace(told, mark=mark, points=points, model=told.model.observed(workers, unit_s))
