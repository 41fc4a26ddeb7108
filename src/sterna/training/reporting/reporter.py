"""Which receivers there are, and whether this rank reports to them: set up from the environment, once per process."""

import atexit
import logging
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sterna.protocol import WorkerIdentity
from sterna.protocol.environment import METRIC, MONITOR_TOKEN, MONITOR_TOKEN_FILE, MONITOR_URL, POD
from sterna.protocol.tokens import TokenFile
from sterna.training.progress import Progress

if TYPE_CHECKING:
    from sterna.training.reporting.monitor_link import MonitorPush
    from sterna.training.reporting.trainer_status import TrainerStatusPush

_TRAINER_URL = "KUBEFLOW_TRAINER_SERVER_URL"  # as in `trainer_status.py`

_log = logging.getLogger(__name__)


class Facts(NamedTuple):
    """How far training is. None: not known."""

    step: int | None = None
    epoch: int | None = None
    units_done: float | None = None
    units_total: float | None = None
    step_s: float | None = None
    workers: int | None = None


class Reporter:
    """Hands numbers to those that want them; where none does, it does nothing."""

    def __init__(self, monitor: "MonitorPush | None", trainer: "TrainerStatusPush | None") -> None:
        self._monitor = monitor
        self._trainer = trainer
        if monitor is not None or trainer is not None:
            atexit.register(self.close, finished=False)  # a program may end without saying so

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Put numbers down to be sent. Called at every step; never raises and never waits."""
        if self._monitor is not None:
            self._monitor.report(metrics)
        if self._trainer is not None:
            self._trainer.report(metrics)

    def close(self, *, finished: bool) -> None:
        """Send what is left, without waiting long for it. `finished`: the work is done."""
        atexit.unregister(self.close)
        if self._monitor is not None:
            self._monitor.close()
        if self._trainer is not None:
            self._trainer.close(finished=finished)


def reporter_from(
    environment: Mapping[str, str], identity: WorkerIdentity, progress: Progress, *, metric: str, every_rank: bool
) -> Reporter:
    """An address that is none is told about in the log; it does not stop a program from training."""
    try:
        return Reporter(
            _monitor(environment, identity, progress, metric=metric, every_rank=every_rank),
            _trainer(environment, identity, progress),
        )
    except ValueError as error:
        _log.warning("reports are not sent: %s", error)
        return Reporter(None, None)


def _monitor(
    environment: Mapping[str, str], identity: WorkerIdentity, progress: Progress, *, metric: str, every_rank: bool
) -> "MonitorPush | None":
    """Of a gang rank 0 speaks; where ranks train for themselves, the first process of each worker."""
    url = environment.get(MONITOR_URL)
    speaks = identity.rank == 0 if identity.gang else identity.local_rank == 0
    if not url or not (speaks or every_rank):
        return None
    from sterna.training.reporting.endpoint import Endpoint  # HTTP and TLS take a while to import: only if needed
    from sterna.training.reporting.monitor_link import MonitorPush

    token_file, given = environment.get(MONITOR_TOKEN_FILE), environment.get(MONITOR_TOKEN)
    return MonitorPush(
        Endpoint(f"{url.rstrip('/')}/reports", token=TokenFile(token_file).first if token_file else lambda: given),
        pod=environment.get(POD) or environment.get("POD_NAME") or socket.gethostname().lower(),
        metric=metric or environment.get(METRIC, ""),
        progress=progress,
        facts=lambda: _facts(identity, progress),
    )


def _trainer(
    environment: Mapping[str, str], identity: WorkerIdentity, progress: Progress
) -> "TrainerStatusPush | None":
    if identity.rank != 0 or not environment.get(_TRAINER_URL):
        return None
    from sterna.training.reporting.trainer_status import TrainerStatusPush, endpoint_from

    return TrainerStatusPush(endpoint_from(environment), lambda: _facts(identity, progress))


def _facts(identity: WorkerIdentity, progress: Progress) -> Facts:
    """What a rank that trains for itself has counted says nothing about its job."""
    if not identity.gang:
        return Facts(step_s=progress.step_s)
    return Facts(**progress.counts(), workers=identity.world_size)
