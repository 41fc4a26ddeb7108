"""AFS-L: a short job that gains goes before a long one, unless the long one gains much more. Sizes jobs, nothing more.

Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning" (NSDI 2021), the length-aware rule. Each
next worker goes to the winner of a linear tournament in order of arrival. Two variants:

afs   the author's simulator. Each job's first worker goes by shortest remaining time; then, of two, the shorter wins if
      its own gain outweighs the longer one's loss: r0/r1 of the short + r1/r0 of the long > 2, where r0 is the time
      left now and r1 with one more. Equally long: the candidate counts as the shorter.
voda  Voda's AFS-L. No job has a worker to begin with; of two that have none the shorter wins, the later one on ties.
      Otherwise the longer wins if its gain relative to its speed after the step is above the shorter's gain relative
      to its speed before. Equally long: the challenger counts as the shorter.

Departures: the first worker is the job's minimum, further ones come by `workers_step`, and only jobs whose next step
fits take part; a job that takes none of what is shared out gets all it can be seated with at once; Voda ignored the
minimum. Voda measured the time left of both jobs with the workers of the first one;
here each is measured with its own. A job of unknown length counts as endless.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sterna.model.columns import Floats, Question
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import NEXT_IN_ORDER, Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import ascending, price, seatable_size, served, smallest_size, whole
from sterna.policies.tournament import Duel, Standing, Tournament


class Variant(StrEnum):
    AFS = "afs"
    VODA = "voda"


@dataclass(frozen=True, slots=True)
class AfsLOptions:
    variant: Variant = option(Variant.AFS, "afs: as the author's simulator; voda: Voda's duel, from nothing for all")


def afs_l(view: Snapshot, options: AfsLOptions) -> Target:
    jobs, room = view.wanting, view.capacity
    units = _units_left_now(view)
    units_left: list[float] = units.tolist()
    grants: dict[JobId, Grant] = {}
    sizes = [0] * len(jobs)
    rule = VODAS_RULE
    if options.variant is Variant.AFS:
        rule = AUTHORS_RULE
        shortest_first = ascending(units * view.columns.of(_pace_at_min_s))
        places, room = served(view, smallest_size, shortest_first)
        grants = {(job := jobs[place]).spec.id: whole(job.spec.workers_min) for place in places}
        places.sort()
        jobs, units_left = tuple([jobs[place] for place in places]), [units_left[place] for place in places]
        sizes = [job.spec.workers_min for job in jobs]
    Shares(view, jobs, units_left, sizes, rule).hand_out(room)
    for job, workers in zip(jobs, sizes, strict=True):
        least = job.spec.workers_min
        if workers > least:
            grants[job.spec.id] = Grant(workers, least, _BEST_GAIN)
        elif workers and rule is VODAS_RULE:
            grants[job.spec.id] = Grant(workers, least, NEXT_IN_ORDER)
    return Target(grants, memory=view.memory)


_BEST_GAIN = Because(Why.BEST_GAIN)


def _units_left_now(view: Snapshot) -> Floats:
    """`Job.units_left_at` of all jobs at once."""
    columns = view.columns
    trained_s = np.maximum(view.now_s - columns.of(_since_s), 0.0)
    return np.maximum(columns.of(_units_left) - trained_s / columns.of(_pace_s), 0.0)


_since_s: Question = attrgetter("since_s")


def _units_left(job: Job) -> float:
    return inf if job.units_left is None else job.units_left


def _pace_s(job: Job) -> float:
    """Seconds for a unit of work with what the job has; infinite if it has nothing."""
    return job.curve.unit_s(job.size)


def _pace_at_min_s(job: Job) -> float:
    return job.curve.unit_s(job.spec.workers_min)


class Rule(NamedTuple):
    duel: Duel
    standing: Callable[[Job, int, float], Standing]  # of a job with so many workers and so much work left


class Shares:
    """Sizes on their way up. Lives for one decision; changes `sizes`, which stand beside `jobs`."""

    def __init__(
        self, view: Snapshot, jobs: Sequence[Job], units_left: Sequence[float], sizes: list[int], rule: Rule
    ) -> None:
        self._view = view
        self._jobs = jobs
        self._units_left = units_left
        self._sizes = sizes
        self._currency = view.currency
        self._rule = rule
        self._grown: set[int] = set()  # jobs that have all that they could be seated with

    def hand_out(self, room: int) -> None:
        """One step at a time to the winner among jobs that may grow and whose next step fits, while there are any."""
        costs = {place: self._next_cost(place) for place in range(len(self._jobs)) if self._may_grow(place)}
        players = list(costs)
        while players := [place for place in players if costs[place] <= room]:
            tournament = Tournament(self._rule.duel, [self._standing(place) for place in players])
            dearest = max(costs[place] for place in players)
            while players and dearest <= room:
                position = tournament.winner
                place = players[position]
                room -= costs[place]
                self._sizes[place] = self._next_size(place)
                if self._may_grow(place):
                    costs[place] = self._next_cost(place)
                    dearest = max(dearest, costs[place])
                    tournament.replace_winner(self._standing(place))
                else:
                    del players[position]
                    tournament.drop_winner()

    def _may_grow(self, place: int) -> bool:
        spec, workers = self._jobs[place].spec, self._sizes[place]
        return not workers or (workers + spec.workers_step <= spec.workers_max and place not in self._grown)

    def _next_size(self, place: int) -> int:
        """One step more; all at once for a job that takes nothing scarce, as it competes with no other."""
        spec, workers = self._jobs[place].spec, self._sizes[place]
        if not workers:
            return spec.workers_min
        if spec.request[self._currency]:
            return workers + spec.workers_step
        self._grown.add(place)
        return max(workers, seatable_size(self._view, spec))

    def _next_cost(self, place: int) -> int:
        job = self._jobs[place]
        if not self._sizes[place]:
            return price(job, job.spec.workers_min, self._currency)
        return job.spec.request[self._currency] * job.spec.workers_step

    def _standing(self, place: int) -> Standing:
        return self._rule.standing(self._jobs[place], self._sizes[place], self._units_left[place])


def _authors_standing(job: Job, workers: int, units_left: float) -> Standing:
    """Time left, its ratio to that after the next step, and the inverse ratio."""
    pace_s, pace_after_s = job.curve.unit_s(workers), job.curve.unit_s(workers + job.spec.workers_step)
    left_s, left_after_s = units_left * pace_s, units_left * pace_after_s
    if 0.0 < left_s < inf and 0.0 < left_after_s < inf:  # as the simulator computes it, to the last bit
        return (left_s, left_s / left_after_s, left_after_s / left_s)
    return (left_s, pace_s / pace_after_s, pace_after_s / pace_s)


def _authors_next_beater(standings: Sequence[Standing], start: int, candidate: Standing) -> int | None:
    left_s, gain, loss = candidate
    for position in range(start, len(standings)):
        challenger_left_s, challenger_gain, challenger_loss = standings[position]
        if challenger_left_s < left_s:
            if challenger_gain + loss > 2.0:
                return position
        elif gain + challenger_loss <= 2.0:
            return position
    return None


def _authors_beaters(left_s: Floats, gains: Floats, losses: Floats, candidate: Standing) -> npt.NDArray[np.bool_]:
    return np.where(left_s < candidate[0], gains + candidate[2] > 2.0, candidate[1] + losses <= 2.0)


def _vodas_standing(job: Job, workers: int, units_left: float) -> Standing:
    """Time left, and the gain of the next step relative to the speed before and after it."""
    if not workers:
        return (max(units_left * job.curve.unit_s(1), _INSTANT) * _WAITING, inf, 1.0)
    speed, speed_after = job.curve.speedup(workers), job.curve.speedup(workers + job.spec.workers_step)
    gain = speed_after - speed
    return (units_left * job.curve.unit_s(workers), gain / speed, gain / speed_after)


_WAITING = 2.0**600  # makes a waiting job longer than any running one and, being a power of 2, rounds nothing
_INSTANT = 2.0**-300  # so that this holds even for a job with nothing left to do


def _vodas_next_beater(standings: Sequence[Standing], start: int, candidate: Standing) -> int | None:
    left_s, before, after = candidate
    for position in range(start, len(standings)):
        challenger_left_s, challenger_before, challenger_after = standings[position]
        if challenger_left_s <= left_s < inf or challenger_left_s < left_s:  # of unknown lengths the earlier is short
            if challenger_before >= after:
                return position
        elif challenger_after > before:
            return position
    return None


def _vodas_beaters(left_s: Floats, befores: Floats, afters: Floats, candidate: Standing) -> npt.NDArray[np.bool_]:
    shorter = left_s <= candidate[0] if candidate[0] < inf else left_s < inf
    return np.where(shorter, befores >= candidate[2], afters > candidate[1])


AUTHORS_RULE = Rule(Duel(_authors_next_beater, _authors_beaters), _authors_standing)
VODAS_RULE = Rule(Duel(_vodas_next_beater, _vodas_beaters), _vodas_standing)
