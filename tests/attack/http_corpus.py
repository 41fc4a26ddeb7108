"""What a stranger may send to an HTTP port, and a process to send it to.

Every server of the project gets the same: requests whose end is in dispute, sizes, slowness, idle sockets. After each
the process must live, have grown by no more than a bound, and answer an ordinary request.
"""

import contextlib
import os
import re
import resource
import selectors
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.needs import absent

SOON_S = 60.0  # everything that is waited for comes within this, or the test fails
MIB = 1 << 20
HIDDEN = b"GET /hidden-in-another HTTP/1.1\r\nHost: localhost\r\n\r\n"  # must never be answered by itself


@dataclass
class Victim:
    """A process with an HTTP port."""

    popen: "subprocess.Popen[bytes]"
    port: int
    target: str  # of a POST that needs a token
    token: str
    ordinary: Callable[[], int]  # asks for something with the token; the status

    @property
    def head(self) -> bytes:
        """Of a request that is let in, up to what is said about its body."""
        return (
            f"POST {self.target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
            "Content-Type: application/json\r\n"
        ).encode()

    def resident_bytes(self) -> int:
        lines = Path(f"/proc/{self.popen.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.popen.pid}/fd"))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=SOON_S)

    @property
    def last_head(self) -> bytes:
        """The same, of the last request on its connection."""
        return self.head + b"Connection: close\r\n"

    def raw(self, *parts: bytes) -> bytes:
        """Everything that comes back until the other side closes, which it must. A reset ends it, too."""
        with self.connect() as line:
            send_all(line, b"".join(parts))
            return read_all(line)

    @contextlib.contextmanager
    def unharmed(self, *, grown_mib_max: float) -> Iterator[None]:
        assert self.ordinary() == 200  # also makes it load whatever it loads at the first request
        before = self.resident_bytes()
        yield
        assert self.popen.poll() is None
        grown = (self.resident_bytes() - before) / MIB
        assert grown < grown_mib_max
        assert self.ordinary() == 200


def send_all(line: socket.socket, data: bytes) -> int:
    """As much as is taken before the other side hangs up; how much that was."""
    view, sent = memoryview(data), 0
    with contextlib.suppress(OSError):
        while sent < len(view):
            sent += line.send(view[sent : sent + (1 << 16)])
    return sent


def read_all(line: socket.socket) -> bytes:
    got = b""
    try:
        while data := line.recv(1 << 16):
            got += data
    except TimeoutError:
        raise
    except OSError:
        pass
    return got


def statuses(answers: bytes) -> list[int]:
    return [int(piece[:3]) for piece in re.split(rb"HTTP/1\.[01] ", answers)[1:]]


def may_open(sockets: int) -> None:
    """Let this process hold so many; where the machine does not, the test is skipped, or fails if all is required."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < sockets + 200:
        absent(f"this machine lets a process hold {hard} files")
    if soft != resource.RLIM_INFINITY and soft < sockets + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (sockets + 200, hard))


@contextlib.contextmanager
def crowd(victim: Victim, count: int, begin: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections, each having sent `begin`. Those that are refused stay in the list."""
    may_open(count)
    lines: list[socket.socket] = []
    try:
        for _ in range(count):
            line = victim.connect()
            lines.append(line)
            send_all(line, begin)
        yield lines
    finally:
        for line in lines:
            line.close()


def drip_until_closed(lines: list[socket.socket], drop: bytes = b"x") -> int:
    """Send a byte on each again and again; how many the other side closed before the time was up."""
    waiting = selectors.DefaultSelector()
    for line in lines:
        line.setblocking(False)
        waiting.register(line, selectors.EVENT_READ)
    closed, until_s = 0, time.monotonic() + SOON_S
    while waiting.get_map() and time.monotonic() < until_s:
        gone = [key.fileobj for key, _ in waiting.select(0.2) if _is_over(key.fileobj)]
        for over in gone:
            waiting.unregister(over)
        closed += len(gone)
        for key in list(waiting.get_map().values()):
            with contextlib.suppress(OSError):
                key.fileobj.send(drop)  # type: ignore[union-attr]
    return closed


def _is_over(line: object) -> bool:
    assert isinstance(line, socket.socket)
    try:
        return line.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


# -- requests whose end is in dispute: two readers would see different requests ----------------------------------------

_CHUNKED = b"Transfer-Encoding: chunked\r\n"

DISPUTED = [
    pytest.param(b"Content-Length: 4\r\n" + _CHUNKED + b"\r\n0\r\n\r\n" + HIDDEN, id="a length and chunks"),
    pytest.param(_CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n" + HIDDEN, id="chunks and a length"),
    pytest.param(b"Content-Length: 0\r\nContent-Length: 54\r\n\r\n" + HIDDEN, id="two lengths"),
    pytest.param(b"Content-Length: 0, 54\r\n\r\n" + HIDDEN, id="two lengths in one line"),
    pytest.param(b"Content-Length: +0\r\n\r\n" + HIDDEN, id="a length with a sign"),
    pytest.param(b"Content-Length: -1\r\n\r\n" + HIDDEN, id="a negative length"),
    pytest.param(b"Content-Length: 0x0\r\n\r\n" + HIDDEN, id="a length in hexadecimal"),
    pytest.param(b"Content-Length: 1_0\r\n\r\n" + HIDDEN, id="a length as Python writes it"),
    pytest.param("Content-Length: \u00b2\r\n\r\n".encode("latin-1") + HIDDEN, id="a digit that is none"),
    pytest.param(b"Content-Length: 0 54\r\n\r\n" + HIDDEN, id="a length with a gap"),
    pytest.param(b"Content-Length: 99999999999999999999999\r\n\r\n" + HIDDEN, id="a length that no number holds"),
    pytest.param(b"Content-Length : 54\r\n\r\n" + HIDDEN, id="a space before the colon of the length"),
    pytest.param(b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + HIDDEN, id="a space before the colon of chunks"),
    pytest.param(b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN, id="an encoding that is none"),
    pytest.param(b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN, id="chunks that are not last"),
    pytest.param(b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + HIDDEN, id="chunks behind a vertical tab"),
    pytest.param(b"X: 1\x00\r\nContent-Length: 0\r\n\r\n" + HIDDEN, id="a zero byte in a value"),
    pytest.param(b"X\x00: 1\r\nContent-Length: 0\r\n\r\n" + HIDDEN, id="a zero byte in a name"),
    pytest.param(b"X: 1\rContent-Length: 54\r\n\r\n" + HIDDEN, id="a bare CR"),
    pytest.param(_CHUNKED + b"\r\n0x0\r\n\r\n" + HIDDEN, id="a chunk with 0x"),
    pytest.param(_CHUNKED + b"\r\n-1\r\n\r\n" + HIDDEN, id="a negative chunk"),
    pytest.param(_CHUNKED + b"\r\n1_0\r\n\r\n" + HIDDEN, id="a chunk as Python writes it"),
    pytest.param(_CHUNKED + b"\r\nfffffffffffffffffff0\r\n\r\n" + HIDDEN, id="a chunk that no number holds"),
    pytest.param(_CHUNKED + b"\r\n2\r\n{}0\r\n\r\n" + HIDDEN, id="a chunk that does not end"),
    pytest.param(b" continued\r\nContent-Length: 0\r\n\r\n" + HIDDEN[:0], id="a folded first header"),
]

# -- odd, but everybody agrees where it ends: may be refused or read, and is one request ------------------------------

ODD = [
    pytest.param(b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", id="the same length twice"),
    pytest.param(b"X: 1\r\n folded\r\nContent-Length: 2\r\n\r\n{}", id="a folded header"),
    pytest.param(b"X: 1\nContent-Length: 2\n\n{}", id="bare LF"),
    pytest.param(_CHUNKED + b"\r\n2;a=b\r\n{}\r\n0\r\n\r\n", id="a chunk extension"),
    pytest.param(_CHUNKED + b"\r\n2\r\n{}\r\n0\r\nX: 1\r\n\r\n", id="a trailer"),
    pytest.param(b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}", id="an upgrade"),
    pytest.param(b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", id="asks whether to go on"),
    pytest.param(b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", id="says that it is packed"),
]

# -- sizes: what follows the request line. Nothing of it is worth keeping ---------------------------------------------

_LONG = b"x" * (10 * MIB)

LONG_HEADS = [
    pytest.param(b"GET /" + _LONG, id="a target without end"),
    pytest.param(b"G" * (10 * MIB), id="a method without end"),
    pytest.param(b"GET / HTTP/1.1\r\n" + _LONG, id="a name without end"),
    pytest.param(b"GET / HTTP/1.1\r\nX: " + _LONG, id="a value without end"),
    pytest.param(b"GET / HTTP/1.1\r\n" + b"X: 1234567890\r\n" * 700_000, id="headers without end"),
    pytest.param(
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 4000) for n in range(2500)),
        id="long headers without end",
    ),
    pytest.param(b"GET / HTTP/1.1\r\nX: 1\r\n" + b" folded\r\n" * 1_000_000, id="a fold without end"),
]

LONG_BODIES = [
    pytest.param(b"Content-Length: 104857600\r\n\r\n" + _LONG, id="a body without end"),
    pytest.param(_CHUNKED + b"\r\n" + b"8000\r\n%s\r\n" % (b"x" * 0x8000) * 320, id="chunks without end"),
    pytest.param(_CHUNKED + b"\r\n" + b"1\r\nx\r\n" * 200_000, id="tiny chunks without end"),
    pytest.param(_CHUNKED + b"\r\n2;" + _LONG, id="a chunk extension without end"),
    pytest.param(_CHUNKED + b"\r\n" + b"1;a=b\r\nx\r\n" * 200_000, id="chunk extensions without end"),
    pytest.param(_CHUNKED + b"\r\n2\r\n{}\r\n0\r\nX: " + _LONG, id="a trailer without end"),
    pytest.param(_CHUNKED + b"\r\n2\r\n{}\r\n0\r\n" + b"X: 12345\r\n" * 1_000_000, id="trailers without end"),
]
