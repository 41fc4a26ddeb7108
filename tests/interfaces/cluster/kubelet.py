"""As much of a kubelet as logs need: it answers the API server over TLS for the containers of one node.

Real containers run in the tests of whole clusters. Here the words are a test's own, so that it can say what is printed
when, and the way from `sterna logs` through the API server is the real one.
"""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.cluster.control_plane import ControlPlane
from tests.cluster.pki import Authority
from tests.cluster.requests import Body

GIVES_UP_S = 120.0


class Voice:
    """What one run of a container prints."""

    def __init__(self) -> None:
        self._said = b""
        self._over = False
        self._news = threading.Condition()

    def say(self, words: bytes) -> None:
        with self._news:
            self._said += words
            self._news.notify_all()

    def stop(self) -> None:
        with self._news:
            self._over = True
            self._news.notify_all()

    def heard(self, *, follow: bool, tail: int | None) -> Iterator[bytes]:
        with self._news:
            said = self._said
        lines = said.splitlines(keepends=True)
        yield b"".join(lines if tail is None else lines[len(lines) - tail :])
        at = len(said)
        while follow:
            with self._news:
                while len(self._said) == at and not self._over and self._news.wait(GIVES_UP_S):
                    pass
                more, at = self._said[at:], len(self._said)
                if not more:
                    return
            yield more


class Kubelet:
    def __init__(self, node: str) -> None:
        self.node = node
        self._voices: dict[tuple[str, bool], Voice] = {}

    def voice(self, pod: str, *, previous: bool = False) -> Voice:
        return self._voices.setdefault((pod, previous), Voice())

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=true&tailLines=5&previous=true"""
        parts = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        _, _, _, pod, _ = parts.path.split("/")
        voice = self.voice(pod, previous=query.get("previous") == "true")
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        tail = int(query["tailLines"]) if "tailLines" in query else None
        for words in voice.heard(follow=query.get("follow") == "true", tail=tail):
            if words:
                request.wfile.write(b"%x\r\n%s\r\n" % (len(words), words))
                request.wfile.flush()
        request.wfile.write(b"0\r\n\r\n")

    def registered(self, plane: ControlPlane, port: int) -> Body:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "8"},
            "capacity": {"cpu": "8", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Fake"}],
        }
        return plane.api().create("/api/v1/nodes", {"metadata": {"name": self.node}, "status": status})


@contextmanager
def kubelet(plane: ControlPlane, node: str) -> Iterator[Kubelet]:
    """A registered node whose containers say what a test lets them say."""
    spoken = Kubelet(node)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            spoken.answer(self)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    certificate, key = Authority(plane.directory).server(node, hosts=[node], addresses=["127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        spoken.registered(plane, server.server_port)
        try:
            yield spoken
        finally:
            plane.api().delete(f"/api/v1/nodes/{node}")
            server.shutdown()
            thread.join()
