"""Where an engine lives and how it is reached: the state home, its `endpoint.json` and its `token`.

Both sides of the door read this file, so it imports the standard library only. One engine serves one home; that no
second one starts there is the engine's own lock, not a matter of these files.
"""

import json
import os
import secrets
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from sterna.model.errors import InvalidRequest

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_PRIVATE_FILE = 0o600
_PRIVATE_DIRECTORY = 0o700


class Endpoint(NamedTuple):
    host: str
    port: int
    pid: int  # of the engine

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


def state_home(given: str | None = None) -> Path:
    """What was asked for, else STERNA_HOME, else the place that the XDG rules give."""
    chosen = given or os.environ.get("STERNA_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "sterna"


def prepare_home(home: Path) -> None:
    """Make the home, with access for its owner only."""
    try:
        home.mkdir(mode=_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        if home.stat().st_mode & 0o077:
            home.chmod(_PRIVATE_DIRECTORY)
    except OSError as error:
        expected = f"a directory of your own ({(error.strerror or 'cannot be made').lower()})"
        raise InvalidRequest(field="home", value=str(home), expected=expected) from None


def own_token(home: Path) -> str:
    """The home's token, made on first use. One that others could have read is replaced."""
    path = home / "token"
    kept = read_token(home)
    if kept and not path.stat().st_mode & 0o077:
        return kept
    token = secrets.token_urlsafe(32)
    _write(path, token + "\n")
    return token


def read_token(home: Path) -> str:
    """Empty where there is none to read."""
    try:
        return (home / "token").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def announce(home: Path, endpoint: Endpoint) -> None:
    _write(home / "endpoint.json", json.dumps({"url": endpoint.url, "pid": endpoint.pid}) + "\n")


def withdraw(home: Path, endpoint: Endpoint) -> None:
    """Take the announcement back, unless another engine's stands there by now."""
    if read_endpoint(home) == endpoint:
        (home / "endpoint.json").unlink(missing_ok=True)


def read_endpoint(home: Path) -> Endpoint | None:
    """The engine that is announced there, alive or not. None: none is, or none of this machine."""
    try:
        record = json.loads((home / "endpoint.json").read_text(encoding="utf-8"))
        parts = urlsplit(record["url"])
        endpoint = Endpoint(parts.hostname or "", parts.port or 0, int(record["pid"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return endpoint if endpoint.host in LOOPBACK and endpoint.port and endpoint.pid > 0 else None


def _write(path: Path, content: str) -> None:
    """Aside, private from its first byte on, then renamed: no reader ever sees half of it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
    with open(descriptor, "w", encoding="utf-8") as sink:
        sink.write(content)
    os.replace(aside, path)
