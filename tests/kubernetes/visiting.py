"""Somebody at an operator's door: asks over HTTP as monitors and users of container-migration do."""

import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

from tests.cluster.requests import Body
from tests.kubernetes.lab import Lab, Running

SECRET = "the-secret-of-this-installation"


class Said(NamedTuple):
    status: int
    body: bytes
    outcome: str | None

    @property
    def detail(self) -> str:
        return str(json.loads(self.body)["detail"])


class Visitor:
    """Knocks at one operator's door."""

    def __init__(self, lab: Lab, running: Running) -> None:
        self._lab = lab
        self._running = running

    def asks(self, method: str, path: str, body: Any = None, *, token: str | None = SECRET) -> Said:
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{self._url}{path}", data=sent, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Said(answer.status, answer.read(), answer.headers.get("sterna-outcome"))
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Said(refusal.code, refusal.read(), None)

    def away(self, pod: Body, **more: Any) -> Said:
        wish = {"node": pod["spec"]["nodeName"], "pod": pod["metadata"]["name"]}
        return self.asks("POST", "/migrate", wish | more)

    def until_asked(self, pod: Body) -> None:
        """Once the cool-down is over and the loads of nodes are known to have changed."""
        self._lab.until(lambda: self.away(pod).outcome == "asked", f"{pod['metadata']['name']} is asked away")

    @property
    def _url(self) -> str:
        self._lab.until(lambda: self._running.operator.door_port, "the door is open")
        return f"http://127.0.0.1:{self._running.operator.door_port}"
