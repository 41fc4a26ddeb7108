"""What `steps()` can walk through, and how each is entered in the middle: a declared order, an iterable, a number.

A source knows no engine and no checkpoint; it turns a position into an iterator that begins there, and says what the
position is one step further on.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from sterna.training.data.shards import Shards, ShardSampler
from sterna.training.errors import Mismatch


class Position(NamedTuple):
    """How far training has come, as the data sees it. Where an epoch has been walked to its end, the next begins."""

    epoch: int = 0
    batches: int = 0  # of this epoch that are behind us
    samples: int = 0  # of this epoch, all ranks together; only a declared order counts them

    def next_epoch(self) -> "Position":
        return Position(self.epoch + 1)


class Source(Protocol):
    """What `steps()` walks through."""

    draws: bool  # entering it, or walking through it, draws random numbers: its epoch has to be replayed from the start

    def opened(self, position: Position) -> Iterator[Any]:
        """Batches from `position` to the end of its epoch."""

    def after(self, position: Position) -> Position:
        """One batch further."""

    def left(self, position: Position) -> int | None:
        """Batches until the end of its epoch; None: not known."""

    def described(self) -> dict[str, Any]:
        """What has to stay the same for a saved position to keep its meaning."""


def source_of(data: Any, *, rank: int, world_size: int) -> Source:
    """Raises TypeError for what cannot be walked through."""
    if isinstance(data, bool) or data is None:
        raise TypeError(f"steps() was given {data!r}; expected {_EXPECTED}")
    if isinstance(data, int):
        if data < 0:
            raise ValueError(f"steps() was given {data}; expected a number of steps of at least 0")
        return Count(data)
    if isinstance(data, Shards):
        if data.batch < world_size:
            raise ValueError(f"{data!r} has fewer samples in a batch than there are ranks ({world_size})")
        return Declared(ShardSampler(data, rank=rank, world_size=world_size))
    sampler = getattr(data, "batch_sampler", None)
    if isinstance(sampler, ShardSampler):
        return Sampled(data, sampler)
    if isinstance(data, Iterable) or hasattr(data, "__getitem__"):
        return Walked(data)
    raise TypeError(f"steps() was given a {type(data).__name__}; expected {_EXPECTED}")


def check_same_order(saved: Mapping[str, Any], position: Position, source: Source) -> None:
    """Raise Mismatch where a position in the middle of an epoch would mean something else than when it was saved."""
    now = source.described()
    if position.batches and saved != now:
        raise Mismatch(
            f"the checkpoint was made in the middle of an epoch of {_shown(saved)}, and steps() was now given"
            f" {_shown(now)}: its position has no meaning there. Go on with the same data, or begin a new job"
        )


class Count:
    """So many steps; the batch is the number of the step within the epoch."""

    draws = False

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def opened(self, position: Position) -> Iterator[int]:
        return iter(range(position.batches, self._steps))

    def after(self, position: Position) -> Position:
        return Position(position.epoch, position.batches + 1)

    def left(self, position: Position) -> int:
        return max(self._steps - position.batches, 0)

    def described(self) -> dict[str, Any]:
        return {"kind": "count"}  # more or fewer steps of the same job: a position keeps its meaning


class Declared:
    """Shards: batches are lists of sample numbers, this rank's share."""

    draws = False

    def __init__(self, sampler: ShardSampler) -> None:
        self._shards = sampler.shards
        self._sampler = sampler

    def opened(self, position: Position) -> Iterator[Any]:
        self._sampler.epoch, self._sampler.position = position.epoch, position.samples
        return iter(self._sampler)

    def after(self, position: Position) -> Position:
        places = self._shards.batch_at(position.samples)
        return Position(position.epoch, position.batches + 1, places.stop or position.samples)

    def left(self, position: Position) -> int:
        return self._shards.batches_left(position.samples)

    def described(self) -> dict[str, Any]:
        return {"kind": "shards", **self._shards.described()}


class Sampled(Declared):
    """A DataLoader whose batch sampler is ours: it loads exactly what is to come."""

    draws = True  # its workers are seeded when it is entered

    def __init__(self, loader: Any, sampler: ShardSampler) -> None:
        super().__init__(sampler)
        self._loader = loader

    def opened(self, position: Position) -> Iterator[Any]:
        super().opened(position)
        return iter(self._loader)


class Walked:
    """Any iterable: entered in the middle by walking to where we were. Samplers with `set_epoch` are told the epoch."""

    draws = True

    def __init__(self, data: Any) -> None:
        self._data = data

    def opened(self, position: Position) -> Iterator[Any]:
        for owner in (self._data, getattr(self._data, "sampler", None), getattr(self._data, "batch_sampler", None)):
            set_epoch = getattr(owner, "set_epoch", None)
            if callable(set_epoch):
                set_epoch(position.epoch)
        iterator: Iterator[Any] = iter(self._data)
        for walked in range(position.batches):
            if next(iterator, _END) is _END:
                if self.left(position) is None:
                    break  # it ends where we were, which is how an epoch of unknown length ends
                raise Mismatch(
                    f"the data ended after {walked} batches, but epoch {position.epoch} has had {position.batches}:"
                    " it must give the same batches each time it is walked through"
                )
        return iterator

    def after(self, position: Position) -> Position:
        return Position(position.epoch, position.batches + 1)

    def left(self, position: Position) -> int | None:
        try:
            return max(len(self._data) - position.batches, 0)
        except (TypeError, NotImplementedError):
            return None

    def described(self) -> dict[str, Any]:
        return {"kind": "iterable"}


_END = object()
_EXPECTED = "Shards, an iterable such as a DataLoader, or a number of steps"


def _shown(order: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in order.items()) or "unknown data"
