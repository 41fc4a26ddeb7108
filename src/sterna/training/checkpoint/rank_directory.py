"""The directory as one rank of one incarnation uses it: the claim of one process to be that rank, and retention.

Two processes can believe to be the same rank of the same incarnation, when a launcher has given one up that still runs.
The last one to claim the rank is right; the other finds out before it publishes anything.

Of old generations the newest complete ones stay, with one of the damaged ones as evidence. A directory is renamed first
and emptied then, so that a crash in between leaves no half a generation under a good name.
"""

import errno
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, Fenced
from sterna.training.checkpoint.disk import Disk, read_json, write_json
from sterna.training.checkpoint.fence import Fence, found, read_fence
from sterna.training.checkpoint.generations import MANIFEST, Manifest, order_of, unless_read

BAD = "bad-"  # what a damaged generation's name begins with once it has been set aside
_TRASH = "trash-"
_SESSION = re.compile(r"\.{1,2}session-i(\d{1,15})-r")  # with two dots: one that a crash left unfinished
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class RankDirectory:
    """One rank of one incarnation in the job's directory. `session` names the process that claims it."""

    directory: Path
    incarnation: int
    rank: int
    world_size: int
    keep: int
    meet_s: float
    disk: Disk
    session: str = field(default_factory=lambda: os.urandom(8).hex())

    def claim(self) -> None:
        """Be this rank from now on. Raises OSError where the directory cannot be written."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = self._session_file(self.rank)
        for name in sorted(os.listdir(self.directory)):  # what an earlier process in our place did not finish
            if self.rank == 0 and self._is_ours(name) and not (self.directory / name / MANIFEST).exists():
                discard(self.disk, self.directory / name)
            elif name.startswith(f".{own.name}."):
                self.disk.remove(self.directory / name)
        write_json(self.disk, own, {"session": self.session}, aside=self.session)

    def require(self) -> Fence:
        """Raise Fenced unless this process may still write as this rank."""
        fence = read_fence(self.directory)
        fence.require(self.incarnation)
        for name in os.listdir(self.directory):
            if (order := order_of(name)) is not None and order[0] > self.incarnation:
                raise Fenced(f"incarnation {order[0]} has saved here, so incarnation {self.incarnation} may no longer")
        if self.session_of(self.rank) != self.session:
            raise Fenced(f"another process has taken over rank {self.rank} of incarnation {self.incarnation}")
        return fence

    def session_of(self, rank: int) -> str | None:
        """The process that is this rank now; None: none has claimed it."""
        try:
            session = read_json(self._session_file(rank))["session"]
        except (FileNotFoundError, Damaged, KeyError, TypeError):
            return None
        return session if isinstance(session, str) else None

    def last_seq(self) -> int:
        """The highest seq that this incarnation has used up; the same for all ranks, as none saves before all have
        come. Unfinished ones do not count: rank 0 is removing them just now."""
        used = [0]
        try:
            names = os.listdir(self.directory)
        except OSError:
            names = []
        for name in names:
            order = order_of(name.removeprefix(BAD))
            if self._is_ours(name.removeprefix(BAD)) and order is not None:
                finished = name.startswith(BAD) or (self.directory / name / MANIFEST).exists()
                used.append(order[1] if finished else 0)
        return max(used)

    def explain(self, error: OSError, wanted_bytes: int) -> CheckpointProblem:
        """The error for the user: what the system said, and how much room there is."""
        what = f"the checkpoint in {self.directory} could not be saved: {error.strerror or error}"
        if error.errno in _FULL:
            try:
                free = os.statvfs(self.directory)
                what += f" (it needs {wanted_bytes} bytes, {free.f_bavail * free.f_frsize} are free)"
            except OSError:
                what += f" (it needs {wanted_bytes} bytes)"
        return CheckpointProblem(what)

    def _session_file(self, rank: int) -> Path:
        return self.directory / f".session-i{self.incarnation}-r{rank}.json"

    def _is_ours(self, name: str) -> bool:
        order = order_of(name)
        return order is not None and order[0] == self.incarnation


def retain(disk: Disk, directory: Path, fence: Fence, incarnation: int, keep: int) -> None:
    """Remove what is no longer needed. For rank 0, after a save: then it knows that no older one is under way."""
    complete = [one.generation.name for one in found(directory, fence) if isinstance(one, Manifest)]
    if not complete:
        return
    newest = order_of(complete[0])
    assert newest is not None  # `found` lists nothing else
    damaged: list[tuple[tuple[int, int], str]] = []
    for name in sorted(os.listdir(directory)):
        order = order_of(name)
        if name.startswith(_TRASH):
            disk.remove_tree(directory / name)
        elif (session := _SESSION.match(name)) and int(session[1]) < incarnation:
            disk.remove(directory / name)
        elif order is not None and name not in complete[:keep] and (order < newest or not fence.admits(order)):
            discard(disk, directory / name)
        elif name.startswith(BAD):
            damaged.append((order_of(name.removeprefix(BAD)) or (0, 0), name))
    for _, name in sorted(damaged)[:-1]:
        discard(disk, directory / name)


def discard(disk: Disk, path: Path) -> None:
    """Remove a generation, unless a process is reading it."""
    with unless_read(path) as unread:
        if not unread:
            return
        trash = path.with_name(f"{_TRASH}{path.name}")
        disk.remove_tree(trash)  # if a crash left one of this name
        disk.rename(path, trash)
    disk.remove_tree(trash)


def set_aside(disk: Disk, path: Path) -> None:
    """Take a damaged generation out of the way, under a name that is never loaded."""
    aside = path.with_name(f"{BAD}{path.name}")
    disk.remove_tree(aside)
    disk.rename(path, aside)
