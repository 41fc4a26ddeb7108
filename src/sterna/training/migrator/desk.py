"""The files of the signal protocol on disk: reading them, and carrying out the effects of `exchange`.

Every write is whole or not at all and survives a crash of the machine: written aside, synced, renamed, the directory
synced. Readers take what cannot be read for absent. The signal file holds its bare word, so that whoever compares it
exactly still can; on reading, blanks around it do not matter.
"""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, assert_never

from sterna.protocol.mailbox import read_regular
from sterna.training.checkpoint.disk import Disk
from sterna.training.migrator.exchange import (
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
from sterna.training.migrator.places import Places

_SMALL_BYTES_MAX = 1 << 20  # no honest file of ours comes near


class Desk:
    """The protocol's files of one job. `aside` is where a checkpoint is written before it is published."""

    def __init__(self, places: Places) -> None:
        self.places = places
        name = f".{places.checkpoint.name}.{socket.gethostname()}.{os.getpid()}"  # pods share a volume, not their pids
        self.aside = places.checkpoint.with_name(name)

    def word(self) -> str | None:
        """None: there is no signal file."""
        content = read_regular(self.places.signal, bytes_max=_SMALL_BYTES_MAX)
        if content is None:
            return None
        text = content[:64].decode(errors="replace")
        return (text.splitlines() or [""])[0].strip()

    def state(self) -> TrainerState | None:
        body = read_json(self.places.state)
        try:
            return TrainerState(
                incarnation=str(body["incarnation"]),
                lineage=str(body["lineage"]),
                word=Word(body["word"]),
                answered=str(body["answered"]),
                ended=bool(body["ended"]),
                pid=_whole(body["pid"]),
                pid_started=_whole(body["pid_started"]),
                host=str(body["host"]),
            )
        except (KeyError, ValueError, TypeError):
            return None

    def request(self) -> Request | None:
        body = read_json(self.places.request)
        try:
            incarnation = body["incarnation"]
            return Request(id=str(body["id"]), incarnation=None if incarnation is None else str(incarnation))
        except (KeyError, ValueError, TypeError):
            return None

    def listed(self) -> tuple[Generation, ...] | None:
        """What the manifest lists. None: there is no manifest."""
        if not self.places.manifest.exists():
            return None
        body = read_json(self.places.manifest)
        try:
            return tuple(_generation(entry) for entry in body["generations"])
        except (KeyError, ValueError, TypeError):
            return ()

    def clear_away(self) -> None:
        """Remove what killed saves left: nobody but the owner of the files writes checkpoints."""
        start = f".{self.places.checkpoint.name}."
        with contextlib.suppress(OSError):
            for path in self.places.checkpoint.parent.iterdir():
                if path.name.startswith(start):
                    path.unlink(missing_ok=True)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """One after the other. Raises OSError; those before it have then happened."""
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
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
                    _rename(self.places.checkpoint, self.places.damaged if damaged else self.places.previous)
            case Publish():
                _rename(self.aside, self.places.checkpoint)
            case _:
                assert_never(effect)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a small file; empty where there is none, or none that can be read."""
    content = read_regular(path, bytes_max=_SMALL_BYTES_MAX)
    try:
        body = json.loads(content or b"")
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def write_durably(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{threading.get_ident():x}")
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _rename(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def _rename(source: Path, target: Path) -> None:
    os.replace(source, target)
    Disk().sync_directory(target.parent)


def _generation(body: dict[str, Any]) -> Generation:
    return Generation(
        number=_whole(body["number"]),
        digest=str(body["digest"]),
        bytes=_whole(body["bytes"]),
        lineage=str(body["lineage"]),
        step=_whole(body["step"]),
        untorn=bool(body["untorn"]),
        save_s=_seconds(body["save_s"]),
        kinds=tuple((str(key), str(kind)) for key, kind in body["kinds"]),
        positional=bool(body["positional"]),
    )


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("no whole number")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise ValueError("no number of seconds")
    return float(value)
