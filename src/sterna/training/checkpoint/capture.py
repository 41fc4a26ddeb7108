"""Copying a state aside so that training can go on while it is written.

Measured for 100 MB on the slow machine this was made on: copying into memory that was used before takes 8 to 14 ms,
into fresh memory 90 to 350 ms. A forked child that shares the pages costs 7 to 15 ms for the fork and then 60 to 340 ms
in the next step, which has to copy every page it changes. Hence: one region, kept and used again; no fork.

What will not change for now (`Part.steady`) is copied by the background thread at its leisure. Everything else is
copied before training goes on, with both threads at work.
"""

import threading
from collections import deque
from itertools import chain
from pathlib import Path

from sterna.training.checkpoint.archive import ALIGNMENT, Draft
from sterna.training.checkpoint.checkpoint_problems import LoanBroken
from sterna.training.checkpoint.disk import WRITE_BYTES, Disk, write_aligned
from sterna.training.checkpoint.memory import Region, address_of_bytes, copy_long, copy_short

_JOB_BYTES = 4 << 20  # a piece of copying that one thread does at a time
_SHORT_BYTES = 64 << 10
_ZEROS = bytes(ALIGNMENT)
_ZEROS_ADDRESS = address_of_bytes(_ZEROS)

Copy = tuple[int, int, int]  # to, from, bytes


class Copying:
    """Copies that several threads share out among themselves."""

    def __init__(self, copies: list[Copy]) -> None:
        self._jobs = deque(_bundled(copies))
        self._left = len(self._jobs)
        self._lock = threading.Lock()
        self._done = threading.Event()
        if not self._left:
            self._done.set()

    def help(self) -> None:
        """Take jobs until none is left. Another thread may still be busy with its last one: see `wait`."""
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                return
            for copy in job:
                (copy_short if copy[2] <= _SHORT_BYTES else copy_long)(*copy)
            with self._lock:
                self._left -= 1
                if not self._left:
                    self._done.set()

    def wait(self) -> None:
        """Return once all copies are made; the calling thread helps."""
        self.help()
        self._done.wait()


class Capture:
    """A draft's body on its way into a region of our own."""

    def __init__(self, draft: Draft, region: Region) -> None:
        self._draft = draft
        self._region: Region | None = region  # as long as the body, up to the next multiple of the alignment
        changing: list[Copy] = []
        steady: list[Copy] = []
        for part, offset in zip(draft.parts, draft.offsets, strict=True):
            target = region.address + offset
            (steady if part.steady else changing).append((target, part.address, part.nbytes))
            if gap := -part.nbytes % ALIGNMENT:  # else the file would show what an earlier save had there
                steady.append((target + part.nbytes, _ZEROS_ADDRESS, gap))
        self.changing_bytes = sum(nbytes for _, _, nbytes in changing)
        self._changing = Copying(changing)
        self._steady = Copying(steady)
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._broken: str | None = None

    def wait_changing(self) -> None:
        """Return once everything that may change from now on has been copied; the calling thread helps."""
        self._changing.wait()

    def is_settled(self) -> bool:
        """Whether all is copied, so that everything may change."""
        return self._settled.is_set()

    def settle(self) -> None:
        """Return once the program's memory is no longer needed. Any thread may call this, and helps."""
        self._changing.wait()
        self._steady.wait()
        with self._lock:
            if not self._settled.is_set():
                self._broken = self._changed_too_early()
                self._settled.set()

    def require_whole(self) -> None:
        """Raise LoanBroken if something lent was changed before it was copied."""
        self.settle()
        if self._broken is not None:
            raise LoanBroken(self._broken)

    def _changed_too_early(self) -> str | None:
        for part in self._draft.parts:
            for tensor, version in part.lent:
                if tensor._version != version:
                    return (
                        f"a lent tensor of shape {list(tensor.shape)} was changed before it was copied: this save is"
                        " dropped, and later ones copy everything before training goes on"
                    )
        return None

    def let_go(self) -> None:
        """The region is wanted for the next save, or not at all."""
        self._region = None

    def write(self, disk: Disk, path: Path) -> tuple[int, str]:
        """The archive from our own copy. Size and digest. Before it begins, the program's memory is let go of."""
        assert self._region is not None  # let go of only afterwards
        head = Region.holding(self._draft.head())
        self._draft.let_go()
        body, end = self._region.address, self._draft.body_bytes
        stretches = ((body + start, min(WRITE_BYTES, end - start)) for start in range(0, end, WRITE_BYTES))
        return write_aligned(disk, path, chain([(head.address, head.nbytes)], stretches))


def _bundled(copies: list[Copy]) -> list[list[Copy]]:
    """The copies as jobs of similar size: long ones cut up, short ones put together."""
    jobs: list[list[Copy]] = []
    bundle: list[Copy] = []
    bundle_bytes = 0
    for target, source, nbytes in copies:
        if nbytes >= _JOB_BYTES:
            jobs += [
                [(target + start, source + start, min(_JOB_BYTES, nbytes - start))]
                for start in range(0, nbytes, _JOB_BYTES)
            ]
            continue
        bundle.append((target, source, nbytes))
        bundle_bytes += nbytes
        if bundle_bytes >= _JOB_BYTES:
            jobs.append(bundle)
            bundle, bundle_bytes = [], 0
    return [*jobs, bundle] if bundle else jobs
