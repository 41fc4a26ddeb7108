"""One rank's part of a generation: its archive, and the files that callables of the program write."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sterna.training.checkpoint.archive import is_file_name
from sterna.training.checkpoint.disk import Disk
from sterna.training.checkpoint.generations import Shard, files_below, files_name, shard_name
from sterna.training.checkpoint.place import Place
from sterna.training.checkpoint.problems import CheckpointProblem, Damaged
from sterna.training.checkpoint.values import FilesToSave


def call_writers(place: Place, path: Path, writers: Sequence[FilesToSave]) -> None:
    """Let each callable write what it has, aside. In the thread that owns the objects it reads."""
    if not writers:
        return
    place.disk.make_directory(path)
    top = _files_aside(place, path)
    place.disk.make_directory(top)
    for number, writer in enumerate(writers):
        if not is_file_name(writer.name):
            raise CheckpointProblem(f"{writer.name!r} is no name for a file: letters, digits, '.', '_' and '-' are")
        target = top / str(number) / writer.name
        place.disk.make_directory(target.parent)
        try:
            writer.save(target)
        except Exception as error:  # the program's own code: whatever it raises, training can go on
            raise CheckpointProblem(
                f"the callable that saves {writer.name!r} failed: {type(error).__name__}: {error}"
            ) from error
        if not target.exists():
            raise CheckpointProblem(f"the callable that saves {writer.name!r} wrote nothing to the path it was given")


def write_shard(place: Place, path: Path, write: Callable[[Disk, Path], tuple[int, str]]) -> Shard:
    """Write, sync and rename. The name is durable once rank 0 has synced the directory, just before the manifest."""
    aside = _aside(place, path)
    size, digest = write(place.disk, aside)
    top = _files_aside(place, path)
    files: dict[str, tuple[int, str]] = {}
    if top.exists():
        files = _synced_files(place, top)
        place.disk.rename(top, path / files_name(place.rank))
    place.disk.rename(aside, path / shard_name(place.rank))
    return Shard(place.rank, size, digest, files)


def clear_up(place: Place, path: Path) -> None:
    """After a failure: leave nothing of ours that takes up room."""
    try:
        place.disk.remove(_aside(place, path))
        place.disk.remove_tree(_files_aside(place, path))
        path.rmdir()  # works only if nobody else has put anything there
    except OSError:
        return  # retention will come by


def _synced_files(place: Place, top: Path) -> dict[str, tuple[int, str]]:
    try:
        files = files_below(top)
    except Damaged as problem:
        raise CheckpointProblem(f"what a callable wrote cannot be kept: {problem}") from problem
    for name in files:
        fd = os.open(top / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            place.disk.sync(fd)
        finally:
            os.close(fd)
    for directory, _, _ in os.walk(top):
        place.disk.sync_directory(Path(directory))
    return files


def _aside(place: Place, path: Path) -> Path:
    return path / f".{shard_name(place.rank)}.{place.session}.part"


def _files_aside(place: Place, path: Path) -> Path:
    return path / f".{files_name(place.rank)}.{place.session}.part"
