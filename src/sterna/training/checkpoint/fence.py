"""The fence: which incarnation of a job is the lowest that may write its checkpoints.

Raising it does two things. Writers of older incarnations are refused from then on. And because a writer may have looked
just before the fence went up, the fence remembers the newest generation there was at that moment (`started_from`): what
older incarnations complete later is ignored, however new it looks.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sterna.training.checkpoint.disk import Disk, read_json, write_json
from sterna.training.checkpoint.problems import Damaged, Fenced, short

FILE = "fence.json"
_LOCK = ".fence.lock"
_RAISES_KEPT = 100  # generations older than that many incarnations are long gone


@dataclass(frozen=True, slots=True)
class Raise:
    incarnation: int  # the lowest that may write from then on
    started_from: tuple[int, int] | None  # (incarnation, seq) of the newest generation then; None: there was none


@dataclass(frozen=True, slots=True)
class Fence:
    raises: tuple[Raise, ...] = ()  # in order of incarnation

    @property
    def lowest(self) -> int:
        return self.raises[-1].incarnation if self.raises else 0

    def require(self, incarnation: int) -> None:
        if incarnation < self.lowest:
            raise Fenced(
                f"incarnation {incarnation} may no longer write checkpoints: the job runs as incarnation {self.lowest}"
            )

    def admits(self, order: tuple[int, int]) -> bool:
        """Whether a generation (its incarnation and seq) may be loaded: not if it was completed behind a fence."""
        first = next((one for one in self.raises if one.incarnation > order[0]), None)
        return first is None or (first.started_from is not None and order <= first.started_from)


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


def put_up(directory: Path, fence: Fence, incarnation: int, started_from: tuple[int, int] | None) -> Fence:
    """The fence with one more raise, durably. The caller holds the lock."""
    raised = Fence((*fence.raises[-_RAISES_KEPT:], Raise(incarnation, started_from)))
    content = {
        "lowest_incarnation": raised.lowest,
        "raises": [{"incarnation": one.incarnation, "started_from": one.started_from} for one in raised.raises],
    }
    disk = Disk()
    write_json(disk, directory / FILE, content, aside=f"{os.getpid()}")
    disk.sync_directory(directory)
    return raised


class FenceLock:
    """Held while the fence is read and raised, so that of two who raise it at once none is lost."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _LOCK

    def __enter__(self) -> None:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _order(pair: Any) -> tuple[int, int] | None:
    if pair is None:
        return None
    incarnation, seq = pair
    return _whole(incarnation), _whole(seq)


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 10**15:
        raise ValueError(f"{short(value)} is no whole number")
    return value
