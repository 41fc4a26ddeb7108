"""The checkpoints of one job as one of its ranks sees them: the front door of this package."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sterna.training.checkpoint.archive import ALIGNMENT, ArchiveReader, Draft
from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, reading
from sterna.training.checkpoint.checkpoint_values import Generation, Json, Loaded, Saved, Skipped
from sterna.training.checkpoint.disk import Disk, digest_of
from sterna.training.checkpoint.fence import choose, fence_for_reading, found, raise_fence, read_fence
from sterna.training.checkpoint.generations import (
    WORLD_SIZE_MAX,
    Manifest,
    Shard,
    being_read,
    files_name,
    opened,
    order_of,
    read_manifest,
    shard_name,
    verify_files,
)
from sterna.training.checkpoint.lending import Loan
from sterna.training.checkpoint.memory import Region
from sterna.training.checkpoint.pending_save import PendingSave, Task, Worker, checked_about
from sterna.training.checkpoint.rank_directory import RankDirectory, set_aside


class CheckpointStore:
    """Saves and loads for one rank of one incarnation.

    Construct it before the ranks meet for the first time: it claims the rank for this process. From then on all ranks
    load the same generation (rank 0 chooses and tells its name), and do the same saves in the same order. Use it from
    one thread.

    Memory: beginning a save in the background needs room for one more copy of the state, which is kept for the next.
    """

    def __init__(
        self, directory: Path, *, incarnation: int, rank: int = 0, world_size: int = 1, keep: int = 2,
        meet_s: float = 120.0, disk: Disk | None = None,
    ) -> None:  # fmt: skip
        _check("incarnation", incarnation, 0, 10**15 - 1)
        _check("world_size", world_size, 1, WORLD_SIZE_MAX)
        _check("rank", rank, 0, world_size - 1)
        _check("keep", keep, 1, 1_000_000)
        self.skipped: Sequence[Skipped] = ()  # what the last `newest()` or `generations()` passed over, and why
        self._place = RankDirectory(Path(directory), incarnation, rank, world_size, keep, meet_s, disk or Disk())
        self._seq = self._place.last_seq()
        self._pending: PendingSave | None = None
        self._worker = Worker()
        self._region = Region(0)
        self._region_lock = threading.Lock()  # held while memory is made ready in the background
        self._verified: set[tuple[int, ...]] = set()  # shards seen intact, as `_stamp` knows them
        self._claimed = False
        with suppress(OSError, CheckpointProblem):  # loading works without; saving says what is wrong
            self._claim()

    def save(
        self, shared: Mapping[str, Any], own: Mapping[str, Any], *, step: int, about: Mapping[str, Json],
        meet_s: float | None = None,
    ) -> Saved:  # fmt: skip
        """Save and wait until the generation is complete on disk. Waits for a pending save first.

        `meet_s`: how long to wait for other ranks this time, if that is less than usual.
        """
        began_s = time.perf_counter()
        self._wait_for_pending()
        task = self._task(step, about)
        if meet_s is not None and meet_s < self._place.meet_s:
            task = replace(task, place=replace(self._place, meet_s=meet_s))
        draft = task.draft(self._trees(shared, own), ())
        generation = task.finish(draft)
        took_s = time.perf_counter() - began_s
        self._worker.do(task.tidy)
        return Saved(generation, took_s, took_s)

    def refuse(self, why: str, *, step: int) -> None:
        """Count a save that cannot be, and tell the ranks that are waiting for it. Always raises CheckpointProblem."""
        self._wait_for_pending()
        raise self._task(step, {}).failed(CheckpointProblem(why))

    def begin_save(
        self, shared: Mapping[str, Any], own: Mapping[str, Any], *, step: int, about: Mapping[str, Json],
        loan: Loan | None = None,
    ) -> PendingSave:  # fmt: skip
        """Save in the background; waits for a pending save first.

        Once this returns the state may be changed, except for what `loan` lends: that, once `wait_captured` of the
        result returns, which the loan sees to. Raises CheckpointProblem (or Fenced) for what can be known at once;
        later trouble is the result's `problem`. Either way training may simply go on.
        """
        began_s = time.perf_counter()
        self._wait_for_pending()
        task = self._task(step, about)
        draft = task.draft(self._trees(shared, own), loan.lent() if loan else ())
        with self._region_lock:
            region = self._roomy(draft.body_bytes)
        pending = self._pending = PendingSave(task, draft, region, loan, began_s)
        if loan is not None:
            loan.begun(pending)
        pending.begin(self._worker)
        return pending

    @property
    def pending(self) -> PendingSave | None:
        """The save under way, if there is one. Beginning another one waits for it."""
        return None if self._pending is None or self._pending.done() else self._pending

    def prepare(self, shared: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        """Set memory aside, in the background, for saves of this size: so that the first stalls no longer than others.

        Best called after the first training step, when the optimizer has its state. A save begun meanwhile waits.
        """
        nbytes = Draft(self._trees(shared, own)).body_bytes

        def touch() -> None:
            with self._region_lock, suppress(CheckpointProblem):  # without memory the save itself will say so
                if nbytes > self._region.nbytes:
                    self._roomy(nbytes).touch()

        self._worker.do(touch)

    def generations(self) -> tuple[Generation, ...]:
        """All complete generations that may be loaded, newest first; digests are not looked at.

        What was passed over is in `skipped`.
        """
        fence, skipped = fence_for_reading(self._place.directory)
        everything = list(found(self._place.directory, fence))
        self.skipped = [*skipped, *(one for one in everything if isinstance(one, Skipped))]
        return tuple(one.generation for one in everything if isinstance(one, Manifest))

    def newest(self) -> Generation | None:
        """The newest complete generation whose digests all verify; what was passed over is in `skipped`.

        Rank 0 also takes damaged ones out of the way, so that their names are never mistaken for something loadable.
        """
        choice = choose(self._place.directory, self._verify)
        self.skipped = choice.skipped
        if self._place.rank == 0 and self._claimed:
            for name in choice.damaged:
                try:
                    set_aside(self._place.disk, self._place.directory / name)
                except OSError:
                    continue  # it will be found damaged again
        return choice.manifest.generation if choice.manifest else None

    def named(self, name: str) -> Generation:
        """The complete generation of this name: how a rank finds what rank 0 chose."""
        return self._manifest(name).generation

    def load(self, generation: Generation, *, rank: int | None = None) -> Loaded:
        """Read a generation; digests are verified before anything is loaded. Raises CheckpointProblem.

        `rank` is this store's own unless said otherwise; one that did not exist at the time finds `own` empty.
        """
        rank = self._place.rank if rank is None else rank
        manifest = self._manifest(generation.name)
        try:
            with being_read(manifest.generation.path), reading(generation.name):
                shared = self._tree(manifest, 0, "shared")
                own = self._tree(manifest, rank, "own") if rank < manifest.generation.world_size else {}
        except OSError as error:
            raise CheckpointProblem(f"{generation.name} cannot be read: {error.strerror or error}") from error
        self._seq = max(self._seq, generation.seq)
        return Loaded(shared, own)

    def raise_fence(self) -> None:
        """From now on no older incarnation may save here. Raises CheckpointProblem."""
        raise_fence(self._place.directory, self._place.incarnation)

    @property
    def seq(self) -> int:
        """The number of the last save, or of the newest generation loaded so far."""
        return self._seq

    def number_from(self, seq: int) -> None:
        """Give the next save the number after `seq`. Rank 0 tells it to all: each may have tried to load others."""
        self._seq = seq

    def close(self, timeout_s: float = 30.0) -> None:
        """Wait for a pending save, bounded, and give the memory back."""
        self._worker.finish(timeout_s)
        self._pending = None
        self._region = Region(0)

    def _task(self, step: int, about: Mapping[str, Json]) -> Task:
        _check("step", step, 0, 10**18)
        self._seq += 1  # even if it fails: the other ranks count it as well
        try:
            self._claim()
        except OSError as error:
            raise self._place.explain(error, 0) from error
        return Task(self._place, self._seq, step, checked_about(about))

    def _trees(self, shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, object]:
        return {"shared": dict(shared), "own": dict(own)} if self._place.rank == 0 else {"own": dict(own)}

    def _wait_for_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.wait_done()

    def _roomy(self, nbytes: int) -> Region:
        """The region, long enough for a body of this size. The caller holds its lock."""
        nbytes += -nbytes % ALIGNMENT
        if nbytes > self._region.nbytes:
            try:
                self._region = Region(0)  # let go of the old one first
                self._region = Region(nbytes)
            except OSError as error:
                raise CheckpointProblem(f"there is no memory for a copy of the state: {nbytes} bytes") from error
        return self._region

    def _claim(self) -> None:
        if not self._claimed:
            read_fence(self._place.directory).require(self._place.incarnation)
            self._place.claim()
            self._claimed = True

    def _manifest(self, name: str) -> Manifest:
        if order_of(name) is None:
            raise CheckpointProblem(f"{name!r} is not the name of a generation")
        try:
            return read_manifest(self._place.directory / name)
        except OSError as error:
            raise CheckpointProblem(f"{name} in {self._place.directory} cannot be read: {error.strerror}") from error

    def _verify(self, manifest: Manifest) -> None:
        for shard in manifest.shards:
            with opened(manifest.generation.path / shard_name(shard.rank)) as fd:
                self._verify_open(manifest.generation.path, shard, fd)

    def _verify_open(self, path: Path, shard: Shard, fd: int) -> None:
        stamp = _stamp(fd, shard)
        if stamp not in self._verified:
            if os.fstat(fd).st_size != shard.bytes or digest_of(fd) != (shard.bytes, shard.sha256):
                raise Damaged(f"{shard_name(shard.rank)} of {path.name} does not match its digest")
            self._verified.add(stamp)
        if shard.files or (path / files_name(shard.rank)).is_symlink() or (path / files_name(shard.rank)).exists():
            verify_files(path / files_name(shard.rank), shard.files)

    def _tree(self, manifest: Manifest, rank: int, name: str) -> dict[str, Any]:
        path = manifest.generation.path
        with opened(path / shard_name(rank)) as fd:
            self._verify_open(path, manifest.shards[rank], fd)
            name_of_file = f"{path.name}/{shard_name(rank)}"
            tree = ArchiveReader(fd, name=name_of_file, files=path / files_name(rank)).tree(name)
        if not isinstance(tree, dict) or not all(isinstance(key, str) for key in tree):
            raise Damaged(f"the tree {name!r} of {name_of_file} is not one of values by name")
        return tree


def _stamp(fd: int, shard: Shard) -> tuple[int, ...]:
    """Which file this is, in which state: an archive of gigabytes is not hashed a second time on its way in."""
    about = os.fstat(fd)
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns, int(shard.sha256, 16))


def _check(name: str, value: object, lowest: int, highest: int) -> None:
    if type(value) is not int or not lowest <= value <= highest:
        raise CheckpointProblem(f"{name} is {value!r}, expected a whole number from {lowest} to {highest}")
