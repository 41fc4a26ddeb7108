"""Training by measured profiles: goodput, epochs and whole seconds as in the simulators of Pollux and Sia.

Goodput is statistical gain over iteration time. Both depend on where the workers are and on the batch, the gain also on
the epoch. A job's batch size is its owner's; only its split over workers and accumulation steps follows from their
number. Restarts are the simulator's: `advance` gets productive seconds alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sterna.engines.simulator.models.profiles import Placement, Profile
from sterna.model.curves import SpeedupCurve
from sterna.model.ids import NodeId
from sterna.model.jobs import Worker


class Split(NamedTuple):
    """How a batch is trained: `steps` accumulation steps before each one that synchronises."""

    atomic: int  # on one worker in one step
    steps: int
    total: int  # what one iteration really trains


class ProfiledTraining:
    """One job's progress. `finish_s` never knows: goodput changes with every epoch, so the simulator asks by round."""

    __slots__ = (
        "_batch", "_by_node", "_each", "_epoch", "_goodput", "_goodput_of", "_profile", "_progress",
        "_slowdown", "_whole_epochs", "curve",
    )  # fmt: skip

    def __init__(
        self,
        profile: Profile,
        batch: int,
        *,
        curve: SpeedupCurve,
        by_node: Mapping[NodeId, Profile] | None = None,
        slowdown: float = 1.0,
        whole_epochs: bool = True,
    ) -> None:
        self.curve = curve
        self._profile = profile
        self._by_node = by_node or {}  # where nodes differ in their GPUs; others train as `profile` says
        self._batch = batch
        self._slowdown = slowdown
        self._whole_epochs = whole_epochs
        self._epoch = 0
        self._progress = 0.0
        self._goodput = 0.0
        self._each: Iterating | None = None  # on the workers that it was worked out for
        self._goodput_of: tuple[Sequence[Worker], int] = ((), -1)  # what `_goodput` was worked out for

    def advance(self, workers: Sequence[Worker], from_s: float, to_s: float) -> float | None:
        """Epochs end on whole seconds after `from_s`: the rounding of the published simulators, kept for parity."""
        seconds = to_s - from_s
        if not workers or self._epoch >= self._profile.epochs:
            return None
        while seconds > 0:
            goodput = self._goodput_on(workers)
            boundary = self._profile.boundaries[self._epoch + 1]
            if self._progress + goodput * seconds < boundary:
                self._progress += goodput * seconds
                return None
            seconds -= min(seconds, round((boundary - self._progress) / goodput))
            self._progress = boundary
            self._epoch += 1
            if self._epoch >= self._profile.epochs:
                return to_s - seconds
        return None

    def finish_s(self, workers: Sequence[Worker], from_s: float) -> float | None:
        return None

    def rewind(self, workers: Sequence[Worker], seconds: float) -> None:
        """Back over epoch boundaries where need be, through each epoch at its own goodput; never before the start."""
        if not workers:
            return
        self._epoch = min(self._epoch, self._profile.epochs - 1)
        while seconds > 0:
            goodput = self._goodput_on(workers)
            begin = self._profile.boundaries[self._epoch]
            if self._progress - goodput * seconds >= begin or self._epoch == 0:
                self._progress = max(begin, self._progress - goodput * seconds)
                return
            seconds -= (self._progress - begin) / goodput
            self._progress = begin
            self._epoch -= 1

    @property
    def units_left(self) -> float:
        """Iterations from this epoch's end to the last one's, as published; or from here, if not in whole epochs."""
        profile, epoch = self._profile, self._epoch
        if epoch >= profile.epochs:
            return 0.0
        last = profile.iterations_done(self._batch, profile.epochs - 1)
        done = profile.iterations_done(self._batch, epoch)
        if self._whole_epochs:
            return max(1.0, last - done)  # within the last epoch one is left, so that a gain is still worth something
        before = profile.iterations_done(self._batch, epoch - 1) if epoch else 0.0
        begin, end = profile.boundaries[epoch : epoch + 2]
        return last - before - (done - before) * (self._progress - begin) / (end - begin)

    def _goodput_on(self, workers: Sequence[Worker]) -> float:
        of_workers, of_epoch = self._goodput_of
        moved = of_workers is not workers and of_workers != workers
        if moved or of_epoch != self._epoch:
            profile = self._by_node.get(workers[0].node, self._profile)
            if moved or self._each is None:
                self._each = iterating(profile, run_lengths(workers), self._batch)
            self._goodput = goodput(profile, self._each, self._epoch) / self._slowdown
            self._goodput_of = (workers, self._epoch)
        return self._goodput


def run_lengths(workers: Sequence[Worker]) -> Placement:
    """Workers on each node in the order of the list; a node that comes twice counts twice."""
    lengths: list[int] = []
    last: NodeId | None = None
    for worker in workers:
        if worker.node == last:
            lengths[-1] += 1
        else:
            lengths.append(1)
            last = worker.node
    return tuple(lengths)


def split(profile: Profile, batch: int, replicas: int, *, accumulates: bool) -> Split:
    """Share a batch out over replicas. With `accumulates` a single replica takes at least one accumulation step."""
    local = math.ceil(batch / replicas)
    steps = math.ceil(local / profile.local_batch_max) - 1
    if accumulates and replicas == 1:
        steps = max(1, steps)
    turns = replicas * (steps + 1)
    atomic = max(1, min(math.ceil(local / (steps + 1)), profile.batch_max // turns))
    return Split(atomic, steps, turns * atomic)


def iteration_s(profile: Profile, placement: Placement, parts: Split) -> float:
    """One iteration: accumulation steps do everything but synchronise."""
    step_s, sync_s = profile.step_time(placement, parts.atomic)
    return step_s + (step_s - sync_s) * parts.steps


class Iterating(NamedTuple):
    """How a job iterates where it is: the same from epoch to epoch."""

    total: int  # samples of one iteration
    took_s: float


def iterating(profile: Profile, placement: Placement, batch: int) -> Iterating:
    parts = split(profile, batch, sum(placement), accumulates=batch > profile.batch_min)
    return Iterating(parts.total, iteration_s(profile, placement, parts))


def goodput(profile: Profile, each: Iterating, epoch: int) -> float:
    """Progress per second: how much an iteration counts, over how long it takes."""
    sqr, var = profile.statistics(each.total, epoch)
    gain = (var + sqr) / (var / (each.total / profile.batch_min) + sqr)
    return gain / each.took_s


def predicted_curve(profile: Profile, batch: int, *, workers_max: int, gpus_per_node: int) -> SpeedupCurve:
    """Seconds per iteration at 1, 2, ... workers on full nodes, the rest on the last: what Optimus is told."""
    paces: list[float] = []
    for replicas in range(1, min(workers_max, profile.replicas_max) + 1):
        nodes, rest = divmod(replicas, gpus_per_node)
        placement = (gpus_per_node,) * nodes + ((rest,) if rest else ())
        paces.append(iteration_s(profile, placement, split(profile, batch, replicas, accumulates=True)))
    return SpeedupCurve(tuple(paces))
