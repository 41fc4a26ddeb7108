"""An HTTP server that hears what a training process sends: the monitor's place, with answers as a test wants them."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from sterna.protocol.reports import Batch, Report
from tests import waiting

PATIENCE_S = 60.0


def until(holds: Callable[[], object], what: str) -> None:
    """Wait for it."""
    waiting.until(holds, what, patience_s=PATIENCE_S)


class Listener:
    """Everything that was posted, in order. `answers` are the next statuses to give; 200 when there are none left."""

    def __init__(self, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.bodies: list[bytes] = []
        self.tokens: list[str | None] = []
        self.paths: list[str] = []
        self.answers: list[int] = []
        self.last_seq: int | None = None  # what the next answer says the monitor has heard already; None: nothing
        self.connections = 0
        self.silent = threading.Event()  # set: nobody gets an answer until the test is over
        self.over = threading.Event()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reports(self) -> list[Report]:
        """As the monitor would read them: a body that it would refuse fails the test."""
        return [report for body in list(self.bodies) for report in Batch.from_json(body).reports]

    def documents(self) -> list[Any]:
        return [json.loads(body) for body in list(self.bodies)]

    def told(self, count: int) -> list[Report]:
        """The reports, once there are so many; they may take their time on a busy machine."""
        self.until(lambda: len(self.reports()) >= count, f"{count} reports")
        return self.reports()

    def until(self, holds: Callable[[], object], what: str) -> None:
        until(holds, f"{what}; heard {self.bodies[-3:]}")

    def close(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def listening(port: int = 0, context: ssl.SSLContext | None = None) -> Iterator[Listener]:
    listener = Listener(port, context)
    try:
        yield listener
    finally:
        listener.close()


def _handler(listener: Listener) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        seen: ClassVar[Listener] = listener

        def setup(self) -> None:
            super().setup()
            self.seen.connections += 1

        def do_POST(self) -> None:
            if self.seen.silent.is_set():
                self.seen.over.wait(PATIENCE_S)
                return
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = self.seen.answers.pop(0) if self.seen.answers else 200
            self.seen.paths.append(self.path)
            self.seen.tokens.append(self.headers["Authorization"])
            self.seen.bodies.append(body)
            heard, self.seen.last_seq = self.seen.last_seq, None
            answer = json.dumps({} if heard is None else {"last_seq": heard}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Not into the test's output."""

    return Handler
