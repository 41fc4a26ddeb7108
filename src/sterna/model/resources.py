"""Amounts of what nodes offer and workers take, as exact integers.

Floats never appear: 0.1 CPU is 100 milli-CPU, a third of a GPU is 334 milli-GPU (rounded up, so that three of
them do not fit on one card). Parsing text into these integers is `quantities.py`.
"""

from enum import IntEnum
from typing import NamedTuple

WHOLE_GPU_MILLI = 1000  # one whole GPU, the card itself


class Resources(NamedTuple):
    """A vector of amounts. A tuple rather than a dataclass: sums of these are the innermost loop of placement."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0
    gpu_bytes: int = 0  # memory on one GPU; only meaningful for a share of a card

    def plus(self, other: "Resources") -> "Resources":
        return Resources(self[0] + other[0], self[1] + other[1], self[2] + other[2], self[3] + other[3])

    def minus(self, other: "Resources") -> "Resources":
        return Resources(self[0] - other[0], self[1] - other[1], self[2] - other[2], self[3] - other[3])

    def times(self, count: int) -> "Resources":
        return Resources(self[0] * count, self[1] * count, self[2] * count, self[3] * count)

    @property
    def shares_gpu(self) -> bool:
        """True if this asks for part of one card rather than for whole cards (or none)."""
        return self.gpu_milli % WHOLE_GPU_MILLI != 0

    @property
    def whole_gpus(self) -> int:
        return self.gpu_milli // WHOLE_GPU_MILLI


NOTHING = Resources()


class Currency(IntEnum):
    """What a pool is short of, and policies therefore count in: an index into `Resources`."""

    CPU = 0
    GPU = 2
