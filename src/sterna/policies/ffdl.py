"""FfDL's optimiser: among all ways to share the room out, one that makes the sum of speed-ups largest.

Sources: Saxena et al., "Effective Elastic Scaling of Deep Learning Workloads" (MASCOTS'20), the elastic scheduler of
FfDL, in the form Voda gives it. Jobs are admitted by submission while their minimums fit, each gets at least that,
and a dynamic program over the room finds the best sizes. Of equally good answers the one is taken that gives the
last job least, then the one before it, and so on: earlier jobs get the larger share.

Departures:
- Admission counts minimums, where Voda counted jobs; steps, maxima and prices are honoured. A job whose minimum does
  not fit is left out, and later ones are still considered.
- No jobs or no room is an empty answer. Voda called it infeasible and crashed.
- What a step adds is counted in millionths, as an integer: sums are then exact, and equal steps of a straight curve
  are equal although they are differences of quotients.
- Where every step of every job costs the same and brings no more than the one before it, the best steps are taken one
  by one: the same answer in a fraction of the time. Where steps differ so much in price that the table would exceed
  `table-cells`, growth goes by gain per price, and misses the best sum by less than the growth of one job.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np

from sterna.model.curves import SpeedupCurve
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, Target
from sterna.model.why import NEXT_IN_ORDER, Because, Why
from sterna.policies.options import option
from sterna.policies.sharing import contenders, price, seatable_size

BEST_GAIN = Because(Why.BEST_GAIN)

_ONE = 1_000_000  # a speed-up of 1
_LARGEST = 10_000_000.0  # a speed-up beyond this is a broken curve, and would overflow the sums


@dataclass(frozen=True, slots=True)
class FfdlOptions:
    table_cells: int = option(
        200_000_000, "largest table (all jobs' choices x units of room) before an approximation is taken", at_least=0
    )


class _Choices(NamedTuple):
    """What more a job could take than its minimum: rising numbers of steps, each faster than all before it."""

    steps: tuple[int, ...]  # the first is 0
    values: tuple[int, ...]  # gained over the minimum; strictly rising
    concave: bool  # one step apart, and none brings more than the one before it


class _Taker(NamedTuple):
    job: Job
    step_price: int
    choices: _Choices


def ffdl(view: Snapshot, options: FfdlOptions) -> Target:
    takers, room = _admitted(view)
    taken = _best_steps(takers, room, options)
    grants: dict[JobId, Grant] = {}
    for taker, steps in zip(takers, taken, strict=True):
        spec = taker.job.spec
        workers = spec.workers_min + steps * spec.workers_step
        grants[spec.id] = Grant(workers, spec.workers_min, BEST_GAIN if steps else NEXT_IN_ORDER)
    return Target(grants, memory=view.memory)


def _admitted(view: Snapshot) -> tuple[list[_Taker], int]:
    """Jobs whose minimums fit together, by submission, with their choices; and the room beyond those minimums."""
    room, currency = view.capacity, view.currency
    jobs: list[Job] = []
    for job in contenders(view):
        cost = price(job, job.spec.workers_min, currency)
        if cost <= room:
            room -= cost
            jobs.append(job)
    return _takers(view, jobs, room), room


def _takers(view: Snapshot, jobs: list[Job], room: int) -> list[_Taker]:
    known: dict[tuple[SpeedupCurve, int, int, int], _Choices] = {}  # jobs of one category share a curve
    takers: list[_Taker] = []
    for job in jobs:
        spec = job.spec
        step_price = spec.request[view.currency] * spec.workers_step
        if not step_price:
            takers.append(_Taker(job, 0, _free_choice(view, job)))
            continue
        most = min((spec.workers_max - spec.workers_min) // spec.workers_step, room // step_price)
        key = (job.curve, spec.workers_min, spec.workers_step, most)
        choices = known.get(key) if most else _NONE
        if choices is None:
            choices = known[key] = _choices(*key)
        takers.append(_Taker(job, step_price, choices))
    return takers


_NONE = _Choices((0,), (0,), concave=True)


def _free_choice(view: Snapshot, job: Job) -> _Choices:
    """The fastest size that the pool could hold, the smallest of several, for a job that takes nothing scarce."""
    spec, curve = job.spec, job.curve
    sizes = np.arange(spec.workers_min, seatable_size(view, spec) + 1, spec.workers_step)
    sizes = sizes[: 1 + max(0, -(-(curve.known_to - spec.workers_min) // spec.workers_step))]
    fastest = int(np.array(curve.pace_s[: sizes[-1]])[np.minimum(sizes, curve.known_to) - 1].argmin())
    return _Choices((0, fastest), (0, 1), concave=False) if fastest else _NONE


def _choices(curve: SpeedupCurve, smallest: int, step: int, most: int) -> _Choices:
    """Sizes that are not faster than a smaller one are never the answer, and beyond its end a curve is flat."""
    pace_s = curve.pace_s
    alone_s, end = pace_s[0], len(pace_s)
    steps, values = [0], [0]
    value, speedup = 0, min(alone_s / curve.unit_s(smallest), _LARGEST)
    for number in range(1, min(most, max(0, -(-(end - smallest) // step))) + 1):
        faster = min(alone_s / pace_s[min(smallest + number * step, end) - 1], _LARGEST)
        value += round((faster - speedup) * _ONE)
        speedup = faster
        if value > values[-1]:
            steps.append(number)
            values.append(value)
    gains = [larger - smaller for smaller, larger in pairwise(values)]
    concave = steps[-1] == len(steps) - 1 and all(further <= gain for gain, further in pairwise(gains))
    return _Choices(tuple(steps), tuple(values), concave)


def _best_steps(takers: list[_Taker], room: int, options: FfdlOptions) -> list[int]:
    """Steps beyond the minimum for each job. What costs nothing that is scarce is taken to the full."""
    taken = [0 if taker.step_price else taker.choices.steps[-1] for taker in takers]
    torn = [number for number, taker in enumerate(takers) if taker.step_price and len(taker.choices.steps) > 1]
    prices = {takers[number].step_price for number in torn}
    if sum(takers[number].choices.steps[-1] * takers[number].step_price for number in torn) <= room:
        for number in torn:
            taken[number] = takers[number].choices.steps[-1]
        return taken
    unit = gcd(*prices)
    cells = (room // unit) * sum(len(takers[number].choices.steps) for number in torn)
    simple = len(prices) == 1 and all(takers[number].choices.concave for number in torn)
    solve = _by_gain if simple or cells > options.table_cells else _by_table
    for number, steps in zip(torn, solve([takers[number] for number in torn], room, unit), strict=True):
        taken[number] = steps
    return taken


def _by_gain(takers: list[_Taker], room: int, unit: int) -> list[int]:
    """Take choices on each job's upper hull, best gain per price first; equal ones go to the earlier job."""
    hulls = [_hull(taker.choices) for taker in takers]
    at = [0] * len(takers)
    room //= unit
    units = [taker.step_price // unit for taker in takers]
    bids = [(-hull[1][1] / (hull[1][0] * units[number]), number) for number, hull in enumerate(hulls)]
    heapify(bids)
    while bids:
        number = bids[0][1]
        hull, here = hulls[number], at[number]
        cost = (hull[here + 1][0] - hull[here][0]) * units[number]
        if cost > room:
            heappop(bids)  # room never comes back
            continue
        room -= cost
        at[number] = here = here + 1
        if here + 1 == len(hull):
            heappop(bids)
            continue
        (steps, value), (further, larger) = hull[here], hull[here + 1]
        heapreplace(bids, ((value - larger) / ((further - steps) * units[number]), number))
    return [hull[here][0] for hull, here in zip(hulls, at, strict=True)]


def _hull(choices: _Choices) -> list[tuple[int, int]]:
    """Choices (steps, value) that no mix of two others beats; those on a line between two others stay."""
    points = list(zip(choices.steps, choices.values, strict=True))
    if choices.concave:
        return points
    hull: list[tuple[int, int]] = []
    for x, y in points:
        while len(hull) > 1 and (y - hull[-1][1]) * (hull[-1][0] - hull[-2][0]) > (hull[-1][1] - hull[-2][1]) * (
            x - hull[-1][0]
        ):
            hull.pop()
        hull.append((x, y))
    return hull


def _by_table(takers: list[_Taker], room: int, unit: int) -> list[int]:
    """Dynamic programming: the best total for every amount of room, job after job, then back along the choices."""
    room //= unit
    units = [taker.step_price // unit for taker in takers]
    best = np.zeros(room + 1, dtype=np.int64)
    total = np.empty_like(best)
    better = np.empty(room + 1, dtype=np.bool_)
    fewest_bytes = np.min_scalar_type(max(len(taker.choices.steps) for taker in takers))
    chosen = np.zeros((len(takers), room + 1), dtype=fewest_bytes)
    within = 0  # with more room than this, the jobs so far gain nothing further
    for row, taker, step_units in zip(chosen, takers, units, strict=True):
        steps, values, _ = taker.choices
        within = min(room, within + steps[-1] * step_units)
        before = best.copy()
        for index in range(1, len(steps)):
            start = steps[index] * step_units
            if start > within:
                break
            width = within + 1 - start
            np.add(before[:width], values[index], out=total[:width])
            np.greater(total[:width], best[start : within + 1], out=better[:width])  # among equals the smaller stays
            np.copyto(best[start : within + 1], total[:width], where=better[:width])
            np.copyto(row[start : within + 1], index, where=better[:width])
        best[within:] = best[within]
        row[within:] = row[within]
    taken = [0] * len(takers)
    for number in range(len(takers) - 1, -1, -1):
        taken[number] = takers[number].choices.steps[chosen[number, room]]
        room -= taken[number] * units[number]
    return taken
