"""The status that Kubeflow's Trainer wants of a TrainJob: percentage, remaining seconds, metrics; pushed by rank 0.

Trainer tells a pod where to (`KUBEFLOW_TRAINER_SERVER_URL`), which authority signed the server's certificate
(`..._CA_CERT`, a file) and the token (`..._TOKEN`, a file whose content is replaced before it expires). It asks for one
push in five seconds at most, and keeps the newest only.
"""

import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from json import dumps
from typing import Any

from sterna.protocol.tokens import TokenFile
from sterna.training.orders.outbox import number_of
from sterna.training.reporting.courier import Courier
from sterna.training.reporting.endpoint import Endpoint
from sterna.training.reporting.reporter import Facts

URL = "KUBEFLOW_TRAINER_SERVER_URL"  # without it no status is sent
CA_CERT = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # the name of a file
EVERY_S = 5.0
_METRICS_MAX = 256
_TEXT_MAX = 64
_SECONDS_MAX = 2**31 - 1
_CLOSE_S = 2.0


class TrainerStatusPush:
    """`facts` is asked by the thread that sends."""

    def __init__(self, endpoint: Endpoint, facts: Callable[[], Facts]) -> None:
        self._endpoint = endpoint
        self._facts = facts
        self._metrics: dict[str, float] = {}
        self._changed = False
        self._finished = False
        self._courier = Courier("sterna-trainer-status", self._deliver, endpoint.close, every_s=EVERY_S)

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Keep the newest value of each number. Called at every step."""
        known = self._metrics
        for name, value in metrics.items():
            number = value if type(value) is float else number_of(value)
            if number is None:
                continue
            if name in known:
                known[name] = number
            elif len(known) < _METRICS_MAX:  # the thread may be walking through the one there was
                self._metrics = known = {**known, name: number}
        self._changed = True
        self._courier.start()

    def close(self, *, finished: bool) -> None:
        """`finished`: all work is done, and it counts as a hundred percent."""
        self._finished = finished
        if finished:
            self._changed = True
            self._courier.start()
        self._courier.close(_CLOSE_S)

    def _deliver(self) -> None:
        if self._changed:
            self._changed = False
            try:
                self._endpoint.post(body_of(self._facts(), self._metrics, finished=self._finished))
            except BaseException:
                self._changed = True
                raise


def endpoint_from(environment: Mapping[str, str]) -> Endpoint:
    """Raises ValueError for an address that is none."""
    authority, token_file = environment.get(CA_CERT), environment.get(TOKEN)
    token = TokenFile(token_file).first if token_file else lambda: None

    def trusted() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=authority or None)

    return Endpoint(environment[URL], token=token, authorities=trusted, timeout_s=5.0)


def body_of(facts: Facts, metrics: Mapping[str, float], *, finished: bool) -> bytes:
    """The request that Trainer expects. Progress below the end is at most 99 %."""
    status: dict[str, Any] = {
        "metrics": [{"name": name[:_TEXT_MAX], "value": f"{number:.12g}"} for name, number in metrics.items() if name],
        "lastUpdatedTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    done, total = facts.units_done, facts.units_total
    if finished:
        status |= {"progressPercentage": 100, "estimatedRemainingSeconds": 0}
    elif done is not None and total:
        status["progressPercentage"] = max(0, min(99, int(100 * done / total)))  # a hundred is for what has ended
        if facts.step_s is not None:
            status["estimatedRemainingSeconds"] = int(min(_SECONDS_MAX, max(0.0, total - done) * facts.step_s))
    return dumps({"trainerStatus": status}).encode()
