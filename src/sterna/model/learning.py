"""Learned job information: how fast jobs of a category train with how many workers, from the epochs they reported.

One model per (category, accelerator). It starts from Amdahl's law and lets measurements take over: a count that was
seen often has exactly its mean, a count that was seen seldom lies between its mean and the law, and a count that was
never seen follows the law, scaled to its nearest measured neighbours. Whatever was measured, the curve that comes out
never gets slower with more workers and never speeds up more than linearly, so one odd epoch cannot mislead a
policy. Values only: `observed` and `learn` answer a new value.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.jobs import JobSpec, ProgressPoint

SERIAL_SHARE = 0.05  # what the law expects not to get faster with more workers, before anything is seen
PRIOR_COUNT = 2.0  # the law's expectation weighs as much as so many epochs
SEEN_OFTEN = 5  # epochs after which the mean of a count is taken as it is
MODELS_MAX = 4000  # of all categories: unless its owner says otherwise, every job's name is one
UNIT_S_MIN, UNIT_S_MAX = 1e-9, 1e12  # a unit that takes less or more than this was not measured, but mistyped


class Seen(NamedTuple):
    """All epochs at one worker count."""

    workers: int
    epochs: int
    total_s: float

    @property
    def mean_s(self) -> float:
        return self.total_s / self.epochs


@dataclass(frozen=True, slots=True)
class ThroughputModel:
    seen: tuple[Seen, ...] = ()  # by worker count
    finished: int = 0  # jobs that ended well, and ...
    finished_units: float = 0.0  # ... how much work they were together

    def observed(self, workers: int, unit_s: float, count: int = 1) -> "ThroughputModel":
        """This model after `count` more units at `workers` workers took `unit_s` seconds each."""
        if workers < 1 or count < 1:
            raise InvalidRequest(field="workers, count", value=(workers, count), expected="at least 1 each")
        if not UNIT_S_MIN <= unit_s <= UNIT_S_MAX:
            expected = f"seconds between {UNIT_S_MIN:g} and {UNIT_S_MAX:g}"
            raise InvalidRequest(field="unit_s", value=unit_s, expected=expected)
        by_count = {entry.workers: entry for entry in self.seen}
        old = by_count.get(workers, Seen(workers, 0, 0.0))
        by_count[workers] = Seen(workers, old.epochs + count, old.total_s + unit_s * count)
        return replace(self, seen=tuple(sorted(by_count.values())))

    def completed(self, units: float) -> "ThroughputModel":
        """This model after a job of so many units ended well."""
        return replace(self, finished=self.finished + 1, finished_units=self.finished_units + units)

    @property
    def units_per_job(self) -> float | None:
        """What a job that does not say how long it is will probably take. None: no job has finished yet."""
        return self.finished_units / self.finished if self.finished else None

    @property
    def weight(self) -> int:
        """How much it was seen."""
        return self.finished + sum(entry.epochs for entry in self.seen)

    def merged(self, other: "ThroughputModel") -> "ThroughputModel":
        merged = replace(
            self, finished=self.finished + other.finished, finished_units=self.finished_units + other.finished_units
        )
        for entry in other.seen:
            merged = merged.observed(entry.workers, entry.mean_s, entry.epochs)
        return merged

    def curve(self, workers_max: int) -> SpeedupCurve:
        """Pace at 1 ... `workers_max` workers. Linear at one second a unit as long as nothing was seen."""
        if not self.seen:
            return SpeedupCurve.linear(workers_max)
        law = _fitted_law(self.seen)
        knots = _with_one_worker(_measured(self.seen, law), law)
        pace = _between(knots, law, max(1, workers_max))
        return SpeedupCurve(tuple(max(unit_s, pace[0] / count) for count, unit_s in enumerate(pace, start=1)))


def learns_within(spec: JobSpec) -> JobSpec:
    """The same job, of a category that only jobs of its own namespace share: any tenant may choose any name, and
    what one tenant reports must not decide how many workers another one gets.

    In the namespace `default` a plain name stays what it is, which is how categories were kept before.
    """
    namespace, _, _ = spec.id.rpartition("/")
    if not spec.category or (namespace in ("", "default") and "/" not in spec.category):
        return spec
    return replace(spec, category=f"{namespace}/{spec.category}")


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Everything learned, by (category, accelerator). Jobs without a category share nothing."""

    models: Mapping[tuple[str, str], ThroughputModel] = field(default_factory=dict)

    def learn(self, spec: JobSpec, accelerator: str, points: Iterable[ProgressPoint]) -> "Knowledge":
        """With what a job reported since the last time, on the accelerator that it ran on."""
        model = self.models.get((spec.category, accelerator), ThroughputModel())
        for point in points:
            model = model.observed(point.workers, point.unit_s)
        return self._with(spec, accelerator, model)

    def completed(self, spec: JobSpec, accelerator: str, units: float) -> "Knowledge":
        """With a job that ended well after so many units."""
        model = self.models.get((spec.category, accelerator), ThroughputModel())
        return self._with(spec, accelerator, model.completed(units))

    def within(self, models_max: int) -> "Knowledge":
        """Without what was seen least. The best of every namespace come first, then the second of every namespace:
        no tenant can push out what others learned.
        """
        if len(self.models) <= models_max:
            return self
        ranks: Counter[str] = Counter()
        ranked: list[tuple[int, tuple[str, str]]] = []
        for key, _ in sorted(self.models.items(), key=lambda pair: (-pair[1].weight, pair[0])):
            namespace, slash, _ = key[0].partition("/")
            namespace = namespace if slash else ""
            ranks[namespace] += 1
            ranked.append((ranks[namespace], key))
        ranked.sort(key=lambda each: each[0])
        return Knowledge({key: self.models[key] for _, key in ranked[:models_max]})

    def curve_for(self, spec: JobSpec, accelerator: str | None = None) -> SpeedupCurve:
        """What to expect of a job before it has run; linear where its category is new."""
        return self._model_for(spec, accelerator).curve(spec.workers_max)

    def units_for(self, spec: JobSpec, accelerator: str | None = None) -> float | None:
        """How much work a job of this category usually is. None: not known."""
        return self._model_for(spec, accelerator).units_per_job

    def _with(self, spec: JobSpec, accelerator: str, model: ThroughputModel) -> "Knowledge":
        if not spec.category:
            return self
        return Knowledge({**self.models, (spec.category, accelerator): model})

    def _model_for(self, spec: JobSpec, accelerator: str | None) -> ThroughputModel:
        """The pool's own model; all pools' together where the job may go anywhere or never ran in this one."""
        pool = spec.accelerator if accelerator is None else accelerator
        if not spec.category:
            return ThroughputModel()
        if pool is not None and (spec.category, pool) in self.models:
            return self.models[spec.category, pool]
        together = ThroughputModel()
        for (category, _), model in sorted(self.models.items()):
            if category == spec.category:
                together = together.merged(model)
        return together


class _Law(NamedTuple):
    """Amdahl's law: a part that no worker shortens, and a part that all of them share."""

    serial_s: float
    shared_s: float

    def unit_s(self, workers: int) -> float:
        return self.serial_s + self.shared_s / workers


def _fitted_law(seen: Sequence[Seen]) -> _Law:
    """Least squares of relative error over what was seen, and what the prior expects at the same counts and at one.

    The prior has a shape but no scale: its scale is that of the data, so one epoch at any count is enough.
    """
    epochs = sum(entry.epochs for entry in seen)
    prior = _Law(SERIAL_SHARE, 1 - SERIAL_SHARE)
    scale = sum(entry.total_s / prior.unit_s(entry.workers) for entry in seen) / epochs
    points = [(1 / entry.workers, entry.mean_s / scale, float(entry.epochs)) for entry in seen]
    expected = {1, 2 * seen[-1].workers} | {entry.workers for entry in seen}
    points += [(1 / count, prior.unit_s(count), PRIOR_COUNT / len(expected)) for count in sorted(expected)]
    weighted = [(x, y, weight / (y * y)) for x, y, weight in points]
    total = sum(weight for _, _, weight in weighted)
    mean_x = sum(x * weight for x, _, weight in weighted) / total
    mean_y = sum(y * weight for _, y, weight in weighted) / total
    spread = sum((x - mean_x) ** 2 * weight for x, _, weight in weighted)
    slope = sum((x - mean_x) * (y - mean_y) * weight for x, y, weight in weighted) / spread
    if slope <= 0:  # measured to get slower with more workers: then more workers bring nothing
        return _Law(mean_y * scale, 0.0)
    if slope * mean_x >= mean_y:  # measured to be better than linear: then it is linear
        through_origin = sum(x * y * w for x, y, w in weighted) / sum(x * x * w for x, _, w in weighted)
        return _Law(0.0, through_origin * scale)
    return _Law((mean_y - slope * mean_x) * scale, slope * scale)


def _measured(seen: Sequence[Seen], law: _Law) -> dict[int, float]:
    """Pace at the counts that were seen, never rising."""
    paces = [_regularised(entry, law) for entry in seen]
    level = _never_rising(paces, [float(entry.epochs) for entry in seen])
    return {entry.workers: unit_s for entry, unit_s in zip(seen, level, strict=True)}


def _regularised(entry: Seen, law: _Law) -> float:
    """Between the law and the mean; the law's weight fades and is gone once a count was seen often."""
    prior = PRIOR_COUNT * max(0.0, 1 - entry.epochs / SEEN_OFTEN)
    return (entry.total_s + prior * law.unit_s(entry.workers)) / (entry.epochs + prior)


def _with_one_worker(knots: dict[int, float], law: _Law) -> dict[int, float]:
    """One worker is what speed-up is counted from, so where it was not seen it must agree with all that was."""
    if 1 in knots:
        return knots
    first = min(knots)
    by_law = law.unit_s(1) * knots[first] / law.unit_s(first)
    at_most = min(workers * unit_s for workers, unit_s in knots.items())  # or some measured count would beat linear
    return {1: max(knots[first], min(by_law, at_most)), **knots}


def _between(knots: Mapping[int, float], law: _Law, workers_max: int) -> list[float]:
    """Pace at every count: a knot's own, and elsewhere the law bent so that it passes through its neighbours."""
    counts = sorted(knots)
    pace: list[float] = []
    for low, high in zip(counts, [*counts[1:], max(workers_max, counts[-1]) + 1], strict=True):
        off_low = knots[low] / law.unit_s(low)
        off_high = knots[high] / law.unit_s(high) if high in knots else off_low
        if low > workers_max:
            break
        pace.append(knots[low])
        for count in range(low + 1, min(high, workers_max + 1)):  # a report may claim a million workers
            bent = law.unit_s(count) * (off_low + (off_high - off_low) * (count - low) / (high - low))
            pace.append(min(knots[low], max(knots.get(high, 0.0), bent)))
    return pace[:workers_max]


def _never_rising(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest sequence that never rises (pool adjacent violators): a stretch that rises becomes its mean."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, weight in zip(values, weights, strict=True):
        mean, total, length = value, weight, 1
        while blocks and blocks[-1][0] < mean:
            other, other_weight, other_length = blocks.pop()
            mean = (mean * total + other * other_weight) / (total + other_weight)
            total += other_weight
            length += other_length
        blocks.append((mean, total, length))
    return [mean for mean, _, length in blocks for _ in range(length)]
