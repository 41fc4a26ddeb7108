"""`sterna monitor`: hear and measure the training processes of one node.

Only reads and checks what is wanted; what then runs is `monitor_process.py`.
"""

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from sterna.interfaces.cli.daemon_log import LogForm, check_level
from sterna.interfaces.cli.options import seconds, taking
from sterna.model.errors import InvalidRequest

_EPILOG = """\b
Examples:
  sterna monitor --scheduler http://sterna-door.sterna-system.svc:8769 --token-file /var/run/secrets/sterna/token
  sterna monitor --scheduler 10.0.0.1:8769 --token-file token --host 0.0.0.0 --log-root /var/log/pods
  sterna monitor --scheduler 10.0.0.1 --token-file token --log-pattern 'accuracy[=: ]+(?P<value>[0-9.]+)'
  sterna monitor --scheduler 10.0.0.1 --token-file token \\
      --log-pattern 'team-a/*=step (?P<step>\\d+) loss (?P<value>\\S+)' --epoch-logs /metrics
\b
What it takes, each with a bearer token (a job's own, which the scheduler tells it of, or the monitor's):
  POST /monitor   {"pod": NAME, "value": NUMBER}                       answered Ok
  POST /reports   a report, or {"reports": [...]}
  POST /apis/trainer.kubeflow.org/v1alpha1/namespaces/NS/trainjobs/NAME/status   Kubeflow Trainer's push
  GET  /workers   what it knows of each pod
and on --health-port, without one, GET /healthz and GET /readyz.
Groups of a pattern: value, metric, step, epoch, units_done, units_total, step_s, epoch_s, workers. Lines are cut at
4096 bytes, and a pattern that takes more than half a second over the lines at hand is not used any more.
SIGTERM sends what is left, for two seconds at most, and ends the monitor.
Environment: NODE_NAME, SERVER_ENDPOINT and STERNA_TOKEN_FILE stand for --node, --scheduler and --token-file;
STERNA_HTTP_LIMITS changes what is taken of strangers, such as connections=512,per_address=128,head_s=5.
"""


@dataclass(frozen=True, kw_only=True)
class MonitorOptions:
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", metavar="URL", envvar="SERVER_ENDPOINT", help="The scheduler's door; port 8769 if not said."
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            envvar="STERNA_TOKEN_FILE",
            help="What the scheduler knows this monitor by: what `sterna token` prints, or a service account's token. "
            "Read again if changed.",
        ),
    ] = None
    node: Annotated[
        str | None, typer.Option("--node", envvar="NODE_NAME", help="This node's name. Default: the host's.")
    ] = None
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; 0.0.0.0 where workers have addresses of their own.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free; the log says which.")] = (
        8081
    )
    health_host: Annotated[
        str, typer.Option("--health-host", help="Where probes are answered: GET /healthz and GET /readyz.")
    ] = "127.0.0.1"
    health_port: Annotated[
        int, typer.Option("--health-port", min=0, max=65535, help="0: any that is free; the log says which.")
    ] = 8082
    log_root: Annotated[
        Path | None,
        typer.Option(
            "--log-root",
            metavar="DIR",
            help="Where the kubelet keeps logs, /var/log/pods. Says which pods are here: others may not report.",
        ),
    ] = None
    cgroup_root: Annotated[
        Path, typer.Option("--cgroup-root", metavar="DIR", help="Control groups, version 1 or 2.")
    ] = Path("/sys/fs/cgroup")
    proc_root: Annotated[Path, typer.Option("--proc-root", metavar="DIR", help="The host's /proc.")] = Path("/proc")
    log_pattern: Annotated[
        list[str],
        typer.Option(
            "--log-pattern",
            metavar="[PODS=]REGEX",
            help="Find values in logs of pods like namespace/name (* for anything); may be given again, first match "
            "counts. A job's own annotation sterna.dev/log-pattern goes before.",
        ),
    ] = field(default_factory=list)
    epoch_logs: Annotated[
        Path | None,
        typer.Option("--epoch-logs", metavar="DIR", help="Voda's training logs, <job>.csv with a row per epoch."),
    ] = None
    epoch_logs_namespace: Annotated[
        str, typer.Option("--epoch-logs-namespace", metavar="NAME", help="Of the jobs that those belong to.")
    ] = "default"
    forward_every: Annotated[
        float, typer.Option("--forward-every", metavar="TIME", parser=seconds, help="Between batches to the scheduler.")
    ] = 1.0
    measure_every: Annotated[
        float,
        typer.Option("--measure-every", metavar="TIME", parser=seconds, help="CPU, memory and GPUs; 0: never."),
    ] = 10.0
    silent_after: Annotated[
        float,
        typer.Option(
            "--silent-after", metavar="TIME", parser=seconds, help="Keep only the last evaluation of who says nothing."
        ),
    ] = 60.0
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info"
    log_form: Annotated[
        LogForm, typer.Option("--log-format", help="text for people, json for programs; on standard error.")
    ] = LogForm.TEXT


@taking(MonitorOptions)
def monitor(run: MonitorOptions) -> None:
    """Hear and measure the training processes of this node, and tell the scheduler.

    Takes evaluation results and progress over HTTP, out of logs by a regular expression and out of Voda's training
    logs; measures CPU, memory and GPUs of each worker; sends it all to the scheduler in batches. Either side may be
    restarted at any time. Needs no rights in the cluster: one of these runs on every node.
    """
    from sterna.connections import limits_from
    from sterna.interfaces.cli.monitor_process import Wanted, become
    from sterna.monitor import Settings
    from sterna.monitor.running import pattern_of, scheduler_url

    if run.scheduler is None:
        raise InvalidRequest(field="--scheduler", value=None, expected="the URL of the scheduler's door")
    if run.token_file is None:
        raise InvalidRequest(field="--token-file", value=None, expected="a file that holds this monitor's token")
    for name, value in (("--forward-every", run.forward_every), ("--silent-after", run.silent_after)):
        if value <= 0:
            raise InvalidRequest(field=name, value=value, expected="a time above 0")
    settings = Settings(
        node=run.node or socket.gethostname(),
        host=run.host,
        port=run.port,
        health_host=run.health_host,
        health_port=run.health_port,
        forward_s=run.forward_every,
        measure_s=run.measure_every,
        silent_after_s=run.silent_after,
        cgroup_root=run.cgroup_root,
        proc_root=run.proc_root,
        log_root=run.log_root,
        epochs_dir=run.epoch_logs,
        epochs_namespace=run.epoch_logs_namespace,
        patterns=tuple(map(pattern_of, run.log_pattern)),
    )
    wanted = Wanted(settings, scheduler_url(run.scheduler), str(run.token_file), run.log_level, run.log_form)
    check_level(run.log_level)
    limits_from(os.environ)  # a mistake in it is told here
    become(wanted)


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(monitor)
