"""The files of the signal protocol on disk: reading them, and carrying out the effects of `signal_protocol`.

Every write is whole or not at all and survives a crash of the machine: written aside, synced, renamed, the directory
synced. What cannot be read counts as absent. The signal file holds its bare word, for programs that compare it exactly;
on reading, blanks around it do not matter.
"""

import contextlib
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, TypeVar, assert_never

from sterna.protocol.mailbox import read_regular
from sterna.training.migrator.migrator_files import MigratorFiles
from sterna.training.migrator.signal_protocol import (
    Announce,
    Ask,
    Effect,
    Generation,
    Note,
    Publish,
    Request,
    Say,
    SetAside,
    TrainerState,
    Word,
)
from sterna.training.small_files import OBJECT_BYTES_MAX, read_object, rename_durably, write_durably

V = TypeVar("V", TrainerState, Request, Generation)


class Desk:
    """The protocol's files of one job. `aside` is where a checkpoint is written before it is published."""

    def __init__(self, places: MigratorFiles) -> None:
        self.places = places
        name = f".{places.checkpoint.name}.{socket.gethostname()}.{os.getpid()}"  # pods share a volume, not their pids
        self.aside = places.checkpoint.with_name(name)

    def word(self) -> str | None:
        """None: there is no signal file."""
        content = read_regular(self.places.signal, bytes_max=OBJECT_BYTES_MAX)
        if content is None:
            return None
        text = content[:64].decode(errors="replace")
        return (text.splitlines() or [""])[0].strip()

    def state(self) -> TrainerState | None:
        """None: no trainer has written one, or none that can be read."""
        return _read(TrainerState, read_object(self.places.state))

    def request(self) -> Request | None:
        """None: no hook has written one, or none that can be read."""
        return _read(Request, read_object(self.places.request))

    def listed(self) -> tuple[Generation, ...] | None:
        """What the manifest lists. None: there is no manifest."""
        if not self.places.manifest.exists():
            return None
        entries = read_object(self.places.manifest).get("generations")
        read = [_read(Generation, entry) for entry in entries] if isinstance(entries, list) else [None]
        return () if None in read else tuple(entry for entry in read if entry is not None)

    def clear_away(self) -> None:
        """Remove what killed saves left: only the owner of the files writes checkpoints."""
        start = f".{self.places.checkpoint.name}."
        with contextlib.suppress(OSError):
            for path in self.places.checkpoint.parent.iterdir():
                if path.name.startswith(start):
                    path.unlink(missing_ok=True)

    def carry_out(self, effect: Effect) -> None:
        """Whole or not at all. Raises OSError."""
        match effect:
            case Say(word):
                write_durably(self.places.signal, word.encode())
            case Note(state):
                write_durably(self.places.state, json.dumps(asdict(state)).encode())
            case Ask(request):
                write_durably(self.places.request, json.dumps(asdict(request)).encode())
            case Announce(generations):
                body = {"generations": [asdict(listed) for listed in generations]}
                write_durably(self.places.manifest, json.dumps(body, indent=1).encode())
            case SetAside(damaged):
                with contextlib.suppress(FileNotFoundError):
                    rename_durably(self.places.checkpoint, self.places.damaged if damaged else self.places.previous)
            case Publish():
                rename_durably(self.aside, self.places.checkpoint)
            case _:
                assert_never(effect)


def _read(kind: type[V], body: Any) -> V | None:
    """A value out of its JSON object. None: a field is absent, or not of its type."""
    try:
        return kind(**{field.name: _READERS[field.type](body[field.name]) for field in fields(kind)})
    except (KeyError, ValueError, TypeError):
        return None


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("no whole number")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise ValueError("no number of seconds")
    return float(value)


_READERS: dict[Any, Callable[[Any], Any]] = {  # by a field's type
    str: str,
    bool: bool,
    int: _whole,
    float: _seconds,
    Word: Word,
    str | None: lambda text: None if text is None else str(text),
    tuple[tuple[str, str], ...]: lambda pairs: tuple((str(key), str(kind)) for key, kind in pairs),
}
