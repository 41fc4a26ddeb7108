"""The fence: which incarnation of a job is the lowest that may write its checkpoints, and what of them is loadable.

Raising it does two things. Writers of older incarnations are refused from then on. And because a writer may have looked
just before the fence went up, the fence remembers the newest generation there was at that moment (`started_from`): what
older incarnations complete later is ignored, however new it looks.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, Fenced, short
from sterna.training.checkpoint.checkpoint_values import Skipped
from sterna.training.checkpoint.disk import Disk, read_json, write_json
from sterna.training.checkpoint.generations import MANIFEST, Manifest, being_read, order_of, read_manifest

FILE = "fence.json"
_LOCK = ".fence.lock"
_RAISES_KEPT = 100  # generations older than that many incarnations are long gone


@dataclass(frozen=True, slots=True)
class Raise:
    incarnation: int  # the lowest that may write from then on
    started_from: tuple[int, int] | None  # (incarnation, seq) of the newest generation then; None: there was none


@dataclass(frozen=True, slots=True)
class Fence:
    """All raises so far. Nothing is fenced where there was none."""

    raises: tuple[Raise, ...] = ()  # in order of incarnation

    @property
    def lowest(self) -> int:
        return self.raises[-1].incarnation if self.raises else 0

    def require(self, incarnation: int) -> None:
        """Raise Fenced unless this incarnation may write."""
        if incarnation < self.lowest:
            raise Fenced(
                f"incarnation {incarnation} may no longer write checkpoints: the job runs as incarnation {self.lowest}"
            )

    def admits(self, order: tuple[int, int]) -> bool:
        """Whether a generation (its incarnation and seq) may be loaded: not if it was completed behind a fence."""
        first = next((one for one in self.raises if one.incarnation > order[0]), None)
        return first is None or (first.started_from is not None and order <= first.started_from)


@dataclass(frozen=True, slots=True)
class Choice:
    manifest: Manifest | None
    skipped: tuple[Skipped, ...]  # newer than the chosen one, newest first
    damaged: tuple[str, ...]  # those of them that will never be loadable again


def read_fence(directory: Path) -> Fence:
    """The fence as it stands; none was raised if the file is not there. Raises Damaged rather than guess."""
    try:
        content = read_json(directory / FILE)
    except FileNotFoundError:
        return Fence()
    try:
        raises = [Raise(_whole(one["incarnation"]), _order(one["started_from"])) for one in content["raises"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{FILE} in {directory} does not say which incarnations may write: {short(error)}") from error
    return Fence(tuple(sorted(raises, key=lambda one: one.incarnation)))


def raise_fence(directory: Path, incarnation: int) -> None:
    """From now on only `incarnation` and later ones may write here. Never lowers the fence; safe to repeat.

    Call it once everything that older incarnations were asked to save is saved: what they complete afterwards is
    ignored. Raises CheckpointProblem where the directory cannot be written.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(directory):
            try:
                fence = read_fence(directory)
            except Damaged:
                fence = Fence()  # the caller knows which incarnation may write
            if incarnation > fence.lowest:
                _put_up(directory, (*fence.raises[-_RAISES_KEPT:], Raise(incarnation, _newest(directory, fence))))
    except OSError as error:
        raise CheckpointProblem(f"the fence in {directory} cannot be raised: {error.strerror}") from error


def choose(directory: Path, verify: Callable[[Manifest], None]) -> Choice:
    """`verify` raises CheckpointProblem for a generation that must not be loaded."""
    fence, skipped = fence_for_reading(directory)
    damaged: list[str] = []
    for one in found(directory, fence):
        if isinstance(one, Skipped):
            skipped.append(one)
            continue
        try:
            with being_read(one.generation.path):
                verify(one)
            return Choice(one, tuple(skipped), tuple(damaged))
        except Damaged as problem:
            skipped.append(Skipped(one.generation.name, str(problem), lost=True))
            damaged.append(one.generation.name)
        except (CheckpointProblem, OSError) as problem:
            skipped.append(Skipped(one.generation.name, str(problem), lost=True))
    return Choice(None, tuple(skipped), tuple(damaged))


def fence_for_reading(directory: Path) -> tuple[Fence, list[Skipped]]:
    """A fence that cannot be read stops every write, but what can be loaded still is."""
    try:
        return read_fence(directory), []
    except (CheckpointProblem, OSError) as problem:
        return Fence(), [Skipped(FILE, str(problem))]


def found(directory: Path, fence: Fence) -> Iterator[Manifest | Skipped]:
    """Everything that calls itself a generation, newest first: its manifest, or why it cannot be loaded."""
    for name in sorted(_names(directory), key=lambda name: (order_of(name) or (0, 0), name), reverse=True):
        order = order_of(name)
        try:
            if order is not None and fence.admits(order):
                yield read_manifest(directory / name)
            elif (directory / name / MANIFEST).exists():
                yield Skipped(name, f"completed by incarnation {(order or (0,))[0]} after a newer one had taken over")
        except FileNotFoundError:
            yield Skipped(name, "incomplete: it has no manifest, so its save did not finish")
        except (CheckpointProblem, OSError) as problem:
            yield Skipped(name, str(problem), lost=True)


def _newest(directory: Path, fence: Fence) -> tuple[int, int] | None:
    """Order of the newest that is complete. One that cannot be read counts: the reason may pass, the fence does not."""
    for one in found(directory, fence):
        if isinstance(one, Manifest):
            return one.generation.order
        if one.lost:
            return order_of(one.name)
    return None


def _put_up(directory: Path, raises: tuple[Raise, ...]) -> None:
    """Durably. The caller holds the lock."""
    content = {
        "lowest_incarnation": raises[-1].incarnation,
        "raises": [{"incarnation": one.incarnation, "started_from": one.started_from} for one in raises],
    }
    disk = Disk()
    write_json(disk, directory / FILE, content, aside=f"{os.getpid()}")
    disk.sync_directory(directory)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Held while the fence is read and raised, so that no raise is lost when two processes raise it at once."""
    fd = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _names(directory: Path) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if order_of(name) is not None]
    except FileNotFoundError:
        return []
    except OSError as error:  # not the same as empty: a job must not start from nothing because a mount is late
        raise CheckpointProblem(f"the checkpoints in {directory} cannot be listed: {error.strerror}") from error


def _order(pair: Any) -> tuple[int, int] | None:
    if pair is None:
        return None
    incarnation, seq = pair
    return _whole(incarnation), _whole(seq)


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 10**15:
        raise ValueError(f"{short(value)} is no whole number")
    return value
