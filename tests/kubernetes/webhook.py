"""A validating webhook, served by the test over TLS: it says no to pods of one namespace as long as it is told to."""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from tests.cluster.control_plane import ControlPlane

_PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_CHOSEN = "sterna-test/webhook"  # label of the namespace


class DenyingWebhook:
    """`words` are what it says no with; empty: it lets everything in."""

    def __init__(self, plane: ControlPlane, namespace: str, words: str) -> None:
        self.words = words
        self._api = plane.api()
        self._namespace = namespace
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*plane.server_certificate(f"webhook-{namespace}"))
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True)
        self._bundle = base64.b64encode(plane.ca_file.read_bytes()).decode()

    def __enter__(self) -> Self:
        self._thread.start()
        self._api.patch(f"/api/v1/namespaces/{self._namespace}", {"metadata": {"labels": {_CHOSEN: self._namespace}}})
        url = f"https://127.0.0.1:{self._server.server_address[1]}/"
        webhook = {
            "name": "denies.sterna.dev",
            "clientConfig": {"url": url, "caBundle": self._bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {_CHOSEN: self._namespace}},
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        self._api.create(_PATH, {"metadata": {"name": self._namespace}, "webhooks": [webhook]})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._api.delete(f"{_PATH}/{self._namespace}")
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                said = {"uid": asked["request"]["uid"], "allowed": not webhook.words}
                answer = {**asked, "response": {**said, "status": {"message": webhook.words}}}
                body = json.dumps({key: part for key, part in answer.items() if key != "request"}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
