"""A declared order of samples: it is fixed by a seed, whichever and however many ranks train.

Each epoch is a permutation of all samples, cut into global batches; rank r of w takes its slice of each. A position is
a number of samples, so a job that is stopped anywhere and goes on with another number of ranks, or another batch size,
neither skips nor repeats one.

Only `random.Random.random()` is drawn from: its sequence for an integer seed is the one thing that Python's
documentation promises to keep, where `shuffle` and `sample` may change between versions.
"""

import random
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

_EPOCH_STRIDE = 0x9E3779B97F4A7C15  # odd, so that no two epochs of a seed share a permutation


class Shards:
    """`samples` samples in batches of `batch` over all ranks together, in another order each epoch.

    `steps()` yields lists of sample numbers, this rank's slice of the batch. Slices differ by at most one sample where
    the batch does not divide by the number of ranks, so divide it well if you average gradients over ranks.
    """

    def __init__(
        self, *, samples: int, batch: int, seed: int = 0, shuffle: bool = True, drop_last: bool = False
    ) -> None:  # fmt: skip
        for name, value in (("samples", samples), ("batch", batch)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}; expected a whole number of at least 1")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ValueError(f"seed is {seed!r}; expected a whole number")
        if drop_last and batch > samples:
            raise ValueError(f"batch is {batch} and drop_last is set, but there are only {samples} samples")
        self.samples = samples
        self.batch = batch
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = drop_last
        self._permuted: tuple[int, Sequence[int]] | None = None  # the epoch it is for, and its order

    def __repr__(self) -> str:
        return (
            f"Shards(samples={self.samples}, batch={self.batch}, seed={self.seed}, "
            f"shuffle={self.shuffle}, drop_last={self.drop_last})"
        )

    def order(self, epoch: int) -> Sequence[int]:
        """All samples of an epoch, in the order in which they are trained."""
        if not self.shuffle:
            return range(self.samples)
        if self._permuted is None or self._permuted[0] != epoch:
            self._permuted = (epoch, _permutation(self.samples, self.seed + epoch * _EPOCH_STRIDE))
        return self._permuted[1]

    def batch_at(self, position: int) -> range:
        """The places in an epoch's order of the global batch that begins at `position`; empty at the epoch's end."""
        end = min(position + self.batch, self.samples)
        if self.drop_last and end - position < self.batch:
            return range(0)
        return range(position, end)

    def slice_of(self, epoch: int, places: range, *, rank: int, world_size: int) -> list[int]:
        """The samples at `places` that are for one rank."""
        order = self.order(epoch)
        mine = places[len(places) * rank // world_size : len(places) * (rank + 1) // world_size]
        return list(order[mine.start : mine.stop])

    def batches_left(self, position: int) -> int:
        """How many global batches an epoch still has after `position` samples."""
        left = max(self.samples - position, 0)
        return left // self.batch if self.drop_last else -(-left // self.batch)

    def described(self) -> dict[str, Any]:
        """What has to stay the same for a position to keep its meaning. The batch size may change."""
        return {"samples": self.samples, "seed": self.seed, "shuffle": self.shuffle}


class ShardSampler:
    """`Shards` as a `batch_sampler` for a torch DataLoader: starts where the run is, and loads nothing to skip it.

    Made by `Run.sampler`. Prefetching reads ahead of training; what counts as trained is what `steps()` handed out.
    """

    def __init__(self, shards: Shards, *, rank: int, world_size: int) -> None:
        self.shards = shards
        self.epoch = 0
        self.position = 0  # in samples; both are set by `steps()` before each epoch
        self._rank = rank
        self._world_size = world_size

    def __iter__(self) -> Iterator[list[int]]:
        epoch, position = self.epoch, self.position
        while places := self.shards.batch_at(position):
            yield self.shards.slice_of(epoch, places, rank=self._rank, world_size=self._world_size)
            position = places.stop

    def __len__(self) -> int:
        return self.shards.batches_left(self.position)


def _permutation(size: int, seed: int) -> Sequence[int]:
    draw = random.Random(seed).random
    order = list(range(size))
    for last in range(size - 1, 0, -1):  # Fisher and Yates; 53 random bits are plenty for any dataset
        other = int(draw() * (last + 1))
        order[last], order[other] = order[other], order[last]
    return array("Q", order)
