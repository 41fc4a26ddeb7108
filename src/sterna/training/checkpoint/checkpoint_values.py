"""What saving and loading hand out and take in: plain values, no file is touched here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class Generation:
    """One complete checkpoint: all shards are there and the manifest, written last, says so."""

    name: str  # gen-000007-i3; what ranks tell each other, see `CheckpointStore.named`
    path: Path
    seq: int  # counts the saves of a job
    incarnation: int  # of the gang that wrote it
    step: int
    world_size: int  # ranks that wrote a shard
    about: Mapping[str, Json]  # epoch, position and whatever else the saver wanted to find again
    bytes: int  # of all shards and files
    digest: str  # of the manifest, which holds the digests of everything else

    @property
    def order(self) -> tuple[int, int]:
        return (self.incarnation, self.seq)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A generation that was passed over in the search for the newest, and why, in words for the user."""

    name: str
    why: str
    lost: bool = False  # it was complete and might have been loaded. False: its save never came to its end, say


@dataclass(frozen=True, slots=True)
class Saved:
    """A save that is durable: whatever dies from now on, this generation can be loaded."""

    generation: Generation
    stall_s: float  # how long training stood still for it, on this rank
    save_s: float  # from the beginning until it was durable


@dataclass(frozen=True, slots=True)
class Loaded:
    shared: Mapping[str, Any]  # what rank 0 saved for all
    own: Mapping[str, Any]  # what this rank saved for itself; empty if it did not exist then


@dataclass(frozen=True, slots=True)
class FilesToSave:
    """In place of a value in `shared` or `own`: a callable that writes a file or a directory at the path it is given.

    It runs in the caller's thread before `save` or `begin_save` returns, so it may read live objects. What comes back
    from `load` is a `SavedFiles`.
    """

    save: Callable[[Path], object]
    name: str = "data"  # the last part of the path; some writers insist on a suffix, as in "model.keras"


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """What a `FilesToSave` wrote, checked against its digests. It is part of the generation: do not change it."""

    path: Path
