"""Writing a generation: each rank its shard and a note about it, rank 0 at last the manifest.

The ranks find each other in the generation's directory, and nowhere else. Rank 0 waits for the notes of all ranks and
writes the manifest; the others wait for that. Every wait has a time-out. A rank that fails says so in its note, so that
the others stop waiting.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sterna.training.checkpoint.archive import is_file_name
from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, Fenced, short
from sterna.training.checkpoint.checkpoint_values import FilesToSave, Generation, Json
from sterna.training.checkpoint.disk import Disk, read_json, write_json
from sterna.training.checkpoint.generations import (
    FORMAT,
    MANIFEST,
    Shard,
    files_below,
    files_name,
    manifest_content,
    order_of,
    read_manifest,
    shard_name,
)
from sterna.training.checkpoint.rank_directory import RankDirectory
from sterna.training.patience import Patience


def call_writers(place: RankDirectory, path: Path, writers: Sequence[FilesToSave]) -> None:
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


def write_shard(place: RankDirectory, path: Path, write: Callable[[Disk, Path], tuple[int, str]]) -> Shard:
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


def clear_up(place: RankDirectory, path: Path) -> None:
    """After a failure: leave nothing of ours that takes up room."""
    try:
        place.disk.remove(_aside(place, path))
        place.disk.remove_tree(_files_aside(place, path))
        path.rmdir()  # works only if no other rank has put anything there
    except OSError:
        return  # retention removes it later


def leave_note(place: RankDirectory, path: Path, shard: Shard, *, step: int) -> None:
    """Tell the other ranks that this rank's shard is written."""
    _write_note(place, path, {**shard.to_json(), "step": step, "world_size": place.world_size})


def leave_problem(place: RankDirectory, path: Path, problem: CheckpointProblem) -> None:
    """Tell the other ranks that this save failed, if that can still be written."""
    if place.world_size > 1 and not isinstance(problem, Fenced):
        try:
            place.disk.make_directory(path)
            _write_note(place, path, {"problem": str(problem)})
        except OSError:
            return  # they find out when their time is up


def gather(place: RankDirectory, path: Path, own: Shard, *, step: int) -> tuple[Shard, ...]:
    """For rank 0: the shards of all ranks, once all are there."""
    shards = {own.rank: own}
    patience = Patience(place.meet_s)
    while True:
        for rank in range(place.world_size):
            if rank not in shards and (note := _note(place, path, rank)) is not None:
                shards[rank] = _shard_of(note, rank, place.world_size, step)
        if len(shards) == place.world_size:
            return tuple(shards[rank] for rank in range(place.world_size))
        if patience.over:
            missing = ", ".join(str(rank) for rank in range(place.world_size) if rank not in shards)
            raise CheckpointProblem(
                f"{path.name} stays incomplete: within {place.meet_s:g} s nothing came from rank {missing}"
            )
        patience.pause()


def write_manifest(
    place: RankDirectory, path: Path, shards: tuple[Shard, ...], *, step: int, about: Mapping[str, Json]
) -> Generation:
    """Make the generation complete. From here on it is the newest."""
    order = order_of(path.name)
    assert order is not None  # we named it
    listed: list[Json] = [shard.to_json() for shard in shards]
    content: dict[str, Json] = {
        "format": FORMAT,
        "seq": order[1],
        "incarnation": order[0],
        "step": step,
        "world_size": place.world_size,
        "about": dict(about),
        "shards": listed,
    }
    place.disk.sync_directory(path)  # the names of all shards first
    write_json(place.disk, path / MANIFEST, manifest_content(content), aside=place.session)
    place.disk.sync_directory(path)
    return read_manifest(path).generation


def await_manifest(place: RankDirectory, path: Path, own: Shard) -> Generation:
    """For all other ranks: the generation, once rank 0 has made it complete."""
    patience = Patience(place.meet_s)
    while True:
        try:
            manifest = read_manifest(path)
        except FileNotFoundError:
            _note(place, path, 0)  # says so if rank 0 has failed
        else:
            if manifest.generation.world_size <= own.rank or manifest.shards[own.rank] != own:
                raise Damaged(f"{path.name} was completed without the shard of rank {own.rank}")
            return manifest.generation
        if patience.over:
            raise CheckpointProblem(f"{path.name} stays incomplete: rank 0 did not finish it within {place.meet_s:g} s")
        patience.pause()


def _synced_files(place: RankDirectory, top: Path) -> dict[str, tuple[int, str]]:
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


def _aside(place: RankDirectory, path: Path) -> Path:
    return path / f".{shard_name(place.rank)}.{place.session}.part"


def _files_aside(place: RankDirectory, path: Path) -> Path:
    return path / f".{files_name(place.rank)}.{place.session}.part"


def _write_note(place: RankDirectory, path: Path, note: Mapping[str, Json]) -> None:
    write_json(place.disk, _note_file(path, place.rank), {**note, "session": place.session}, aside=place.session)


def _note(place: RankDirectory, path: Path, rank: int) -> dict[str, Json] | None:
    """The note of the process that is this rank now; what an earlier one left there is not meant for us."""
    try:
        note = read_json(_note_file(path, rank))
    except (FileNotFoundError, Damaged):
        return None
    if not isinstance(note, dict) or note.get("session") != place.session_of(rank):
        return None
    if "problem" in note:
        raise CheckpointProblem(f"{path.name} stays incomplete: rank {rank} could not save: {short(note['problem'])}")
    return note


def _shard_of(note: Mapping[str, Json], rank: int, world_size: int, step: int) -> Shard:
    if (note.get("step"), note.get("world_size")) != (step, world_size):
        raise CheckpointProblem(
            f"the ranks do not save the same thing: rank {rank} step {short(note.get('step'))} of"
            f" {short(note.get('world_size'))} ranks, rank 0 step {step} of {world_size}"
        )
    shard = Shard.from_json(note)
    if shard.rank != rank:
        raise Damaged(f"the note of rank {rank} is about rank {shard.rank}")
    return shard


def _note_file(path: Path, rank: int) -> Path:
    return path / f"rank-{rank}.json"
