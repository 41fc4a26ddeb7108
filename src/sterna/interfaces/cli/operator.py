"""`sterna operator`: look after the jobs of a Kubernetes cluster."""

import json
import logging
import os
import socket
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sterna.interfaces.cli.choices import settings
from sterna.interfaces.cli.options import Settings, policy_names, seconds, taking
from sterna.model.errors import InvalidRequest

_EPILOG = """\b
Examples:
  sterna operator
  sterna operator --kubeconfig admin.conf --no-leader-elect --policy afs-l
  sterna operator --namespace sterna-system --watch-namespace team-a --watch-namespace team-b
  sterna operator --policy las --set demote=jump --rate-limit 30s
\b
Inside a pod the service account is used; elsewhere --kubeconfig, else KUBECONFIG, else ~/.kube/config.
The ConfigMap sterna-config in the operator's namespace goes over --policy, --set, --placement, --rate-limit and
--starving-after while the operator runs: keys policy, settings (one name=value a line), placement, rateLimitSeconds,
starvingAfterSeconds. What cannot be used there changes nothing, and an event on the ConfigMap says why.
SIGTERM gives the Lease back and ends the operator; jobs run on, and the next leader finds everything in their status.
Environment: POD_NAME names this replica in the Lease, CUSTOM_CLUSTER_DOMAIN is appended to the names of services.
"""


class BindingChoice(StrEnum):
    NODE_NAME = "node-name"
    BINDING = "binding"
    NONE = "none"


class LogForm(StrEnum):
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Which cluster, and as whom.")
    ] = None
    context: Annotated[str | None, typer.Option("--context", help="Of the kubeconfig. Default: its current one.")] = (
        None
    )
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="The operator's own: Lease, memory, sterna-config. Default: the pod's."),
    ] = None
    watch_namespace: Annotated[
        list[str],
        typer.Option(
            "--watch-namespace", help="Look after the jobs of this one only; may be given again. Default: all."
        ),
    ] = field(default_factory=list)
    identity: Annotated[
        str | None, typer.Option("--identity", help="This replica's name in the Lease. Default: POD_NAME, or the host.")
    ] = None
    policy: Annotated[
        str | None,
        typer.Option("--policy", "-p", help="How jobs are sized. Default: elastic-fifo.", autocompletion=policy_names),
    ] = None
    set_: Settings = field(default_factory=list)
    placement: Annotated[
        str | None, typer.Option("--placement", help="Where workers go. Default: the policy's own.")
    ] = None
    rate_limit: Annotated[
        float,
        typer.Option("--rate-limit", metavar="TIME", parser=seconds, help="Least time between two decisions."),
    ] = 2.0
    starving_after: Annotated[
        float | None,
        typer.Option("--starving-after", metavar="TIME", parser=seconds, help="Keep nodes for who waited so long."),
    ] = None
    binding: Annotated[
        BindingChoice,
        typer.Option(
            "--binding",
            help="node-name: pods are created on their node. binding: they are bound to it, as a scheduler does it. "
            "none: the cluster's scheduler places them.",
        ),
    ] = BindingChoice.NODE_NAME
    nudge: Annotated[
        bool, typer.Option("--nudge", help="Have launchers see a changed host list at once, not within a minute.")
    ] = False
    kubeshare: Annotated[
        bool,
        typer.Option("--kubeshare/--no-kubeshare", help="Count KubeShare's SharePods; place those of high priority."),
    ] = False
    leader_elect: Annotated[
        bool, typer.Option("--leader-elect/--no-leader-elect", help="Only the replica that holds the Lease acts.")
    ] = True
    lease_duration: Annotated[
        float, typer.Option("--lease-duration", metavar="TIME", parser=seconds, help="How long a Lease holds.")
    ] = 15.0
    lease_renew: Annotated[
        float, typer.Option("--lease-renew", metavar="TIME", parser=seconds, help="How often it is renewed.")
    ] = 5.0
    lease_retry: Annotated[
        float, typer.Option("--lease-retry", metavar="TIME", parser=seconds, help="How often a standby asks for it.")
    ] = 2.0
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, help="Requests to the API server at the same time.")
    ] = 32
    health_host: Annotated[
        str, typer.Option("--health-host", help="Where /healthz and /readyz are answered; 0.0.0.0 inside a pod.")
    ] = "127.0.0.1"
    health_port: Annotated[
        int | None, typer.Option("--health-port", min=0, max=65535, help="Default: probes are not answered.")
    ] = None
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info"
    log_form: Annotated[
        LogForm, typer.Option("--log-format", help="text for people, json for programs; on standard error.")
    ] = LogForm.TEXT


@taking(OperatorOptions)
def operator(run: OperatorOptions) -> None:
    """Look after the TFJobs, PyTorchJobs, MPIJobs and ElasticJobs of a Kubernetes cluster.

    Decides how many workers each job has and where, makes pods follow, and writes into every job's status and events
    what it did and why. Runs until it is told to stop; everything it must remember is in the cluster.
    """
    import asyncio

    _require_extra()
    from sterna.compose import run_operator

    _log_to_stderr(run.log_level, run.log_form)
    if run.set_ and run.policy is None:
        raise InvalidRequest(field="--set", value=run.set_[0], expected="--policy beside it, whose option it is")
    asyncio.run(
        run_operator(
            kubeconfig=run.kubeconfig,
            context=run.context,
            namespace=run.namespace,
            watch=tuple(dict.fromkeys(run.watch_namespace)) or None,
            identity=run.identity or os.environ.get("POD_NAME") or socket.gethostname(),
            binding=run.binding.value,
            nudge=run.nudge,
            kubeshare=run.kubeshare,
            policy=run.policy,
            settings=settings(run.set_),
            placement=run.placement,
            rate_limit_s=run.rate_limit,
            starving_after_s=run.starving_after,
            elect=run.leader_elect,
            lease_s=run.lease_duration,
            renew_s=run.lease_renew,
            retry_s=run.lease_retry,
            cluster_domain=os.environ.get("CUSTOM_CLUSTER_DOMAIN", ""),
            in_flight=run.in_flight,
            health_host=run.health_host,
            health_port=run.health_port,
        )
    )


def _require_extra() -> None:
    try:
        import aiohttp  # noqa: F401
        import msgspec  # noqa: F401
    except ImportError as error:
        expected = f"it to be installed: pip install 'sterna[kubernetes]' ({error.name} is missing)"
        raise InvalidRequest(field="the extra", value="kubernetes", expected=expected) from None


# -- logs -------------------------------------------------------------------------------------------------------------

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _Keys(logging.Formatter):
    """A fixed phrase, and then what it is about: `cycle actions=3 took_s=0.012`."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        keys = " ".join(f"{key}={_shown(value)}" for key, value in _extras(record).items())
        head, newline, rest = line.partition("\n")
        return (f"{head} {keys}" if keys else head) + newline + rest


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _PLAIN}


def _shown(value: object) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(sign in text for sign in ' "=\n') else text


def _log_to_stderr(level: str, form: LogForm) -> None:
    levels = logging.getLevelNamesMapping()
    if level.upper() not in levels:
        raise InvalidRequest(field="--log-level", value=level, expected="debug, info, warning or error")
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form is LogForm.JSON else _Keys("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=levels[level.upper()])


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(operator)
