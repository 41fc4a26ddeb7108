"""How one job stands with its judge: a fold over the values that it reports, and what a record keeps of it.

A value that cannot be used (not finite, enormous, not after the last one) changes nothing: what comes from a training
program must never be able to break its judge.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sterna.model.growth import Category, Growth
from sterna.model.judging.categories import TRANSITIONS, Sign
from sterna.model.judging.gathering import (
    CPU_MILLI_MIN,
    ELAPSED_MIN_S,
    MOMENT_MAX_S,
    VALUE_MAX,
    Gathered,
    Point,
    is_usable,
    rate_of,
    smoothed,
)
from sterna.model.judging.judge import Judge, Mode, Rule
from sterna.model.judging.judging_records import Reader, Record, UnreadableRecord, known
from sterna.model.judging.judging_rules import RULES, Finding
from sterna.model.judging.trend import Rate

COMPAT_FORGETS_AFTER_S = 60.0  # container-migration drops what it knows of a pod that was silent for longer
RATE_MAX = 4 * VALUE_MAX / ELAPSED_MIN_S / (CPU_MILLI_MIN / 1000)
CATEGORIES = tuple(Category)  # a record holds a category's place in here


class Judged(NamedTuple):
    judge: Judge
    growth: Growth = Growth()  # the answer
    last_s: float | None = None  # of the last value that was taken. None: there was none yet
    checked_s: float | None = None  # of the last check. None: the next value is one
    gathered: Gathered = Gathered()
    checks: tuple[Point, ...] = ()  # the last ones, as many as the median wants
    points: tuple[Point, ...] = ()  # the last ones after smoothing; growth is from the first of them to the last
    peak: float = 0.0  # the largest rate so far
    rates: tuple[Rate, ...] = ()  # the last ones
    number: int = 0  # of rates so far
    trained_s: float = 0.0  # of training that was judged, pauses left out: what the fit has on its axis
    confirmed: int = 0  # signs of settling since it is watched
    unsettled: int = 0  # checks that will still not be judged

    @staticmethod
    def fresh(judge: Judge) -> "Judged":
        """Of a job that has not reported anything."""
        applied = judge.applied
        return Judged(applied, unsettled=applied.settle_checks)

    def seen(self, at_s: float, value: float, cpu_milli: float | None = None) -> "Judged":
        """After one more evaluation value and, where it was measured, the CPU that the job used meanwhile."""
        if not is_usable(at_s, value):
            return self
        if self.last_s is None:
            return self._replace(growth=self.growth._replace(since_s=at_s))._with(at_s, value, cpu_milli)
        if at_s < self.last_s or (at_s == self.last_s and self.checked_s is not None):
            return self  # the moment of a restart itself is not yet taken
        if self.judge.rule is Rule.COMPAT and at_s - self.last_s > COMPAT_FORGETS_AFTER_S:
            return Judged.fresh(self.judge).seen(at_s, value, cpu_milli)
        return self._with(at_s, value, cpu_milli)

    def restarted(self, at_s: float) -> "Judged":
        """After the job was moved or started again: the next value is only what the one after it is compared with.

        What changes over the pause is neither growth nor a lack of it. All that was learned about the job stays.
        """
        if self.last_s is None or self.judge.rule is Rule.COMPAT:
            return Judged.fresh(self.judge)  # container-migration knows pods by name, and a moved pod has another
        return self._replace(
            last_s=at_s if abs(at_s) <= MOMENT_MAX_S else self.last_s,  # may go back, after a clock that was wrong
            checked_s=None,
            gathered=Gathered(),
            checks=(),
            points=(),
            unsettled=self.judge.settle_checks,
        )

    def to_record(self) -> Record:
        """What is needed to go on from here, as plain JSON: some hundred bytes, bounded by the judge's windows.

        Always the same keys, so that one record can be merged over another.
        """
        growth = self.growth
        return {
            "basis": _basis(self.judge),
            "category": CATEGORIES.index(growth.category),
            "since": growth.since_s,
            "score": known(growth.score),
            "efficiency": known(growth.efficiency),
            "last": known(self.last_s),
            "checked": known(self.checked_s),
            "gathered": list(self.gathered),
            "checks": [number for check in self.checks for number in check],
            "points": [number for point in self.points for number in point],
            "peak": self.peak,
            "rates": [number for rate in self.rates for number in rate],
            "number": self.number,
            "trained": self.trained_s,
            "confirmed": self.confirmed,
            "unsettled": self.unsettled,
        }

    @staticmethod
    def from_record(judge: Judge, record: Mapping[str, object]) -> "Judged":
        """From where `to_record` was. A record that cannot be read is a fresh start, and costs two checks.

        A judge that measures something else than the one before keeps the category, and learns the rest anew.
        """
        fresh = Judged.fresh(judge)
        try:
            read = _read(fresh, Reader(record))
        except UnreadableRecord:
            return fresh
        if record.get("basis") == _basis(judge.applied):
            return read
        return fresh._replace(growth=read.growth._replace(score=None, efficiency=None), last_s=read.last_s)

    def _with(self, at_s: float, value: float, cpu_milli: float | None) -> "Judged":
        judge = self.judge
        gathered = self.gathered.and_also(at_s, value, cpu_milli, judge.merge)
        if self.checked_s is not None and at_s - self.checked_s < judge.check_interval_s - ELAPSED_MIN_S:
            return self._replace(last_s=at_s, gathered=gathered)
        checks = (*self.checks, Point(gathered.at_s, gathered.value))[-judge.median_of :]
        points = (*self.points, smoothed(checks))[-judge.over_checks - 1 :]
        checked = self._replace(last_s=at_s, checked_s=at_s, gathered=Gathered(), checks=checks, points=points)
        if len(points) == 1:
            return checked  # growth needs two
        if self.unsettled:
            return checked._replace(points=points[-1:], unsettled=self.unsettled - 1)
        return checked._judged(at_s, gathered.cpus)

    def _judged(self, at_s: float, cpus: float | None) -> "Judged":
        judge, growth = self.judge, self.growth
        rate = rate_of(self.points, judge)
        if judge.per_cpu:
            if cpus is None:
                return self  # rates with and without it cannot be compared
            rate /= cpus
        trained_s = self.trained_s + self.points[-1].at_s - self.points[-2].at_s
        rates = (*self.rates, Rate(trained_s, rate))[-_rates_kept(judge) :]
        peak, number = max(self.peak, rate), self.number + 1
        found = Finding(peak if judge.mode is Mode.NORMALISED and peak else 1.0, rates, number)
        sign, confirmed = self._confirmed(RULES[judge.rule](judge, found))
        score = found.score
        category = TRANSITIONS[growth.category, sign]
        efficiency = score if judge.per_cpu else score / cpus if cpus else None
        since_s = growth.since_s if category is growth.category else at_s
        return self._replace(
            growth=Growth(category, score, efficiency, since_s),
            peak=peak,
            rates=rates,
            number=number,
            trained_s=trained_s,
            confirmed=confirmed,
        )

    def _confirmed(self, sign: Sign) -> tuple[Sign, int]:
        """Settling is certain once there were enough signs of it while the job was watched."""
        if sign is Sign.GROWING:
            return sign, 0
        if sign is Sign.SLOWING or self.growth.category is not Category.WATCHING:
            return sign, self.confirmed
        confirmed = self.confirmed + 1
        return (sign if confirmed >= self.judge.confirmations else Sign.SLOWING), confirmed


def _basis(judge: Judge) -> int:
    """What rates are in: those of one basis can be compared, whatever else is set."""
    return 2 * (judge.mode is Mode.RELATIVE) + judge.per_cpu


def _rates_kept(judge: Judge) -> int:
    return judge.window if judge.rule is Rule.LOGLINEAR else 3


def _read(fresh: Judged, read: Reader) -> Judged:
    judge = fresh.judge
    category = read.count("category")
    if category >= len(CATEGORIES):
        raise UnreadableRecord("category")
    point = (MOMENT_MAX_S, VALUE_MAX)
    count, at_s, value, measured, cpu_milli = next(
        iter(read.rows("gathered", most=(VALUE_MAX, MOMENT_MAX_S, VALUE_MAX, VALUE_MAX, VALUE_MAX), rows_max=1)),
        Gathered(),
    )
    return fresh._replace(
        growth=Growth(
            CATEGORIES[category],
            read.number_or_none("score", most=RATE_MAX),
            read.number_or_none("efficiency", most=RATE_MAX),
            read.number("since", most=MOMENT_MAX_S),
        ),
        last_s=read.number_or_none("last", most=MOMENT_MAX_S),
        checked_s=read.number_or_none("checked", most=MOMENT_MAX_S),
        gathered=Gathered(int(count), at_s, value, int(measured), cpu_milli),
        checks=tuple(Point(*row) for row in read.rows("checks", most=point, rows_max=judge.median_of)),
        points=tuple(Point(*row) for row in read.rows("points", most=point, rows_max=judge.over_checks + 1)),
        peak=read.number("peak", most=RATE_MAX, least=0),
        rates=tuple(Rate(*row) for row in read.rows("rates", most=(VALUE_MAX, RATE_MAX), rows_max=_rates_kept(judge))),
        number=read.count("number"),
        trained_s=read.number("trained", most=VALUE_MAX),
        confirmed=read.count("confirmed"),
        unsettled=read.count("unsettled"),
    )
