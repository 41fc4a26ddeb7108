"""Where ranks find each other during a save: in the generation's directory, and nowhere else.

Each rank leaves a note beside its shard. Rank 0 waits for all notes and writes the manifest; the others wait for that.
All waiting is bounded. A rank that fails says so in its note, so that the others need not wait for nothing.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from sterna.training.checkpoint.disk import read_json, write_json
from sterna.training.checkpoint.generations import (
    FORMAT,
    MANIFEST,
    Shard,
    manifest_content,
    order_of,
    read_manifest,
)
from sterna.training.checkpoint.place import Place
from sterna.training.checkpoint.problems import CheckpointProblem, Damaged, Fenced, short
from sterna.training.checkpoint.values import Generation, Json

_POLL_MIN_S, _POLL_MAX_S = 0.001, 0.05


def leave_note(place: Place, path: Path, shard: Shard, *, step: int) -> None:
    _write_note(place, path, {**shard.to_json(), "step": step, "world_size": place.world_size})


def leave_problem(place: Place, path: Path, problem: CheckpointProblem) -> None:
    """Tell the others, if that much still works."""
    if place.world_size > 1 and not isinstance(problem, Fenced):
        try:
            place.disk.make_directory(path)
            _write_note(place, path, {"problem": str(problem)})
        except OSError:
            return  # they will notice when their time is up


def gather(place: Place, path: Path, own: Shard, *, step: int) -> tuple[Shard, ...]:
    """For rank 0: the shards of all ranks, once all are there."""
    shards = {own.rank: own}
    poll = _Poll(place.meet_s)
    while True:
        for rank in range(place.world_size):
            if rank not in shards and (note := _note(place, path, rank)) is not None:
                shards[rank] = _shard_of(note, rank, place.world_size, step)
        if len(shards) == place.world_size:
            return tuple(shards[rank] for rank in range(place.world_size))
        if not poll.again():
            missing = ", ".join(str(rank) for rank in range(place.world_size) if rank not in shards)
            raise CheckpointProblem(
                f"{path.name} stays incomplete: within {place.meet_s:g} s nothing came from rank {missing}"
            )


def write_manifest(
    place: Place, path: Path, shards: tuple[Shard, ...], *, step: int, about: Mapping[str, Json]
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


def await_manifest(place: Place, path: Path, own: Shard) -> Generation:
    """For all other ranks: the generation, once rank 0 has made it complete."""
    poll = _Poll(place.meet_s)
    while True:
        try:
            manifest = read_manifest(path)
        except FileNotFoundError:
            _note(place, path, 0)  # says so if rank 0 has failed
        else:
            if manifest.generation.world_size <= own.rank or manifest.shards[own.rank] != own:
                raise Damaged(f"{path.name} was completed without the shard of rank {own.rank}")
            return manifest.generation
        if not poll.again():
            raise CheckpointProblem(f"{path.name} stays incomplete: rank 0 did not finish it within {place.meet_s:g} s")


class _Poll:
    def __init__(self, limit_s: float) -> None:
        self._deadline_s = time.monotonic() + limit_s
        self._pause_s = _POLL_MIN_S

    def again(self) -> bool:
        if time.monotonic() >= self._deadline_s:
            return False
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _POLL_MAX_S)
        return True


def _write_note(place: Place, path: Path, note: Mapping[str, Json]) -> None:
    write_json(place.disk, _note_file(path, place.rank), {**note, "session": place.session}, aside=place.session)


def _note(place: Place, path: Path, rank: int) -> dict[str, Json] | None:
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
