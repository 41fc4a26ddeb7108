"""`sterna operator`: look after the jobs of a Kubernetes cluster."""

import os
import socket
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sterna.interfaces.cli.choices import rebalancer_names, settings
from sterna.interfaces.cli.daemon_log import LogForm, log_to_stderr
from sterna.interfaces.cli.options import (
    IdleCpuShare,
    Rebalance,
    RebalanceSettings,
    Settings,
    policy_names,
    seconds,
    taking,
)
from sterna.model.errors import InvalidRequest
from sterna.model.quantities import memory_bytes

_EPILOG = """\b
Examples:
  sterna operator
  sterna operator --kubeconfig admin.conf --no-leader-elect --policy afs-l
  sterna operator --namespace sterna-system --watch-namespace team-a --watch-namespace team-b
  sterna operator --policy las --set demote=jump --rate-limit 30s
  sterna operator --rebalance specon --token-file token --door-address 0.0.0.0 --monitor-port 8081
\b
Inside a pod the service account is used; elsewhere --kubeconfig, else KUBECONFIG, else ~/.kube/config.
The ConfigMap sterna-config in the operator's namespace goes over --policy, --set, --placement, --rate-limit,
--starving-after, --idle-cpu-share and --rebalance while the operator runs: keys policy, settings (one name=value a
line), placement, rateLimitSeconds, starvingAfterSeconds, idleCpuShare, rebalance (NAME,...), rebalanceSettings (as
settings). What cannot be used there changes nothing, and an event on the ConfigMap says why.
SIGTERM gives the Lease back and ends the operator; jobs run on, and the next leader finds everything in their status.
Environment: POD_NAME names this replica in the Lease, CUSTOM_CLUSTER_DOMAIN is appended to the names of services.
"""


class BindingChoice(StrEnum):
    NODE_NAME = "node-name"
    BINDING = "binding"
    NONE = "none"


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
    see_all_pods: Annotated[
        bool,
        typer.Option(
            "--see-all-pods", help="Beside --watch-namespace: count pods of other namespaces, which take room too."
        ),
    ] = False
    exclude_namespace: Annotated[
        list[str],
        typer.Option(
            "--exclude-namespace",
            help="Refuse jobs in this one; may be given again. In kube-system, kube-public, kube-node-lease and "
            "(unless it is watched by name) the operator's own they always are.",
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
    idle_cpu_share: IdleCpuShare = None
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
    mpi_jobs: Annotated[
        bool,
        typer.Option("--mpi-jobs/--no-mpi-jobs", help="Run MPIJobs, which need ConfigMaps for their host lists."),
    ] = True
    kubeshare: Annotated[
        bool,
        typer.Option("--kubeshare/--no-kubeshare", help="Count KubeShare's SharePods; place those of high priority."),
    ] = False
    share_learning: Annotated[
        bool,
        typer.Option(
            "--share-learning/--no-share-learning",
            help="Jobs of one category learn from each other across namespaces, where their owners trust each other.",
        ),
    ] = False
    node_lost_after: Annotated[
        float,
        typer.Option(
            "--node-lost-after",
            metavar="TIME",
            parser=seconds,
            help="A node that is not ready for so long is lost: until then its workers stay, and nothing new comes.",
        ),
    ] = 30.0
    node_steady_after: Annotated[
        float,
        typer.Option(
            "--node-steady-after",
            metavar="TIME",
            parser=seconds,
            help="A node that flaps is given nothing new before it has been steady for so long.",
        ),
    ] = 300.0
    migrations_max: Annotated[
        int, typer.Option("--migrations-max", min=1, help="Open Migrations of one namespace; more are refused.")
    ] = 100
    admission_patience: Annotated[
        float,
        typer.Option(
            "--admission-patience",
            metavar="TIME",
            parser=seconds,
            help="How long pods that a quota or policy refuses are tried before their job gives its room back.",
        ),
    ] = 30.0
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
    look_again: Annotated[
        float,
        typer.Option(
            "--look-again",
            metavar="TIME",
            parser=seconds,
            help="How often every job is looked at although nothing happened to it, give or take a fifth.",
        ),
    ] = 600.0
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, help="Requests to the API server at the same time.")
    ] = 32
    health_host: Annotated[
        str, typer.Option("--health-host", help="Where /healthz and /readyz are answered; 0.0.0.0 inside a pod.")
    ] = "127.0.0.1"
    health_port: Annotated[
        int | None, typer.Option("--health-port", min=0, max=65535, help="Default: probes are not answered.")
    ] = None
    rebalance: Rebalance = None
    rebalance_set: RebalanceSettings = field(default_factory=list)
    token_file: Annotated[
        Path | None,
        typer.Option(
            *("--token-file", "--door-token-file"),
            metavar="FILE",
            help="The installation's secret. With it POST /migrate, GET /cluster-info and POST /reports are answered.",
        ),
    ] = None
    door_address: Annotated[
        str | None,
        typer.Option("--door-address", help="Where the door is; 0.0.0.0 inside a pod. Default: 127.0.0.1."),
    ] = None
    door_port: Annotated[
        int | None, typer.Option("--door-port", min=0, max=65535, help="Default: 8769, where there is a token.")
    ] = None
    monitor_port: Annotated[
        int | None,
        typer.Option("--monitor-port", min=1, max=65535, help="Tell pods that `sterna monitor` listens there."),
    ] = None
    monitor_account: Annotated[
        str | None,
        typer.Option(
            "--monitor-account",
            metavar="NAMESPACE/NAME",
            help="The service account of monitors: their tokens are reviewed by the API server.",
        ),
    ] = None
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="DIR", help="Keep decisions there, for `sterna replay`. Default: nowhere."),
    ] = None
    journal_file_size: Annotated[
        str, typer.Option("--journal-file-size", metavar="SIZE", help="Of one file of the journal at most.")
    ] = "16Mi"
    journal_files: Annotated[
        int, typer.Option("--journal-files", min=1, help="Files of the journal; the oldest goes for a new one.")
    ] = 8
    distribution_csv: Annotated[
        Path | None,
        typer.Option("--distribution-csv", metavar="FILE", help="What rebalancers looked at, in SpeCon's columns."),
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
    from sterna.compose.cluster_operator import run_operator
    from sterna.connections import limits_from

    log_to_stderr(run.log_level, run.log_form)
    if run.set_ and run.policy is None:
        raise InvalidRequest(field="--set", value=run.set_[0], expected="--policy beside it, whose option it is")
    _require_token(run)
    limits_from(os.environ)  # a mistake in it is told here
    asyncio.run(
        run_operator(
            kubeconfig=run.kubeconfig,
            context=run.context,
            namespace=run.namespace,
            watch=tuple(dict.fromkeys(run.watch_namespace)) or None,
            see_all_pods=run.see_all_pods,
            exclude=tuple(dict.fromkeys(run.exclude_namespace)),
            identity=run.identity or os.environ.get("POD_NAME") or socket.gethostname(),
            binding=run.binding.value,
            nudge=run.nudge,
            mpi_jobs=run.mpi_jobs,
            kubeshare=run.kubeshare,
            share_learning=run.share_learning,
            node_lost_after_s=run.node_lost_after,
            node_steady_after_s=run.node_steady_after,
            migrations_max=run.migrations_max,
            admission_patience_s=run.admission_patience,
            policy=run.policy,
            settings=settings(run.set_),
            placement=run.placement,
            rate_limit_s=run.rate_limit,
            starving_after_s=run.starving_after,
            idle_cpu_share=run.idle_cpu_share,
            elect=run.leader_elect,
            lease_s=run.lease_duration,
            renew_s=run.lease_renew,
            retry_s=run.lease_retry,
            cluster_domain=os.environ.get("CUSTOM_CLUSTER_DOMAIN", ""),
            look_again_s=run.look_again,
            in_flight=run.in_flight,
            health_host=run.health_host,
            health_port=run.health_port,
            rebalance=tuple(rebalancer_names(run.rebalance)),
            rebalance_settings=settings(run.rebalance_set, flag="--rebalance-set"),
            token_file=run.token_file,
            door_host=run.door_address,
            door_port=_door_port(run),
            monitor_port=run.monitor_port,
            monitor_account=run.monitor_account,
            distribution_file=run.distribution_csv,
            journal=run.journal,
            journal_bytes_max=memory_bytes(run.journal_file_size, field="--journal-file-size"),
            journal_files_max=run.journal_files,
        )
    )


def _require_token(run: OperatorOptions) -> None:
    """Whatever moves work, or believes reports, needs a token: to know its address is not enough."""
    if run.token_file is not None:
        return
    asked = {
        "--door-address": run.door_address,
        "--door-port": run.door_port,
        "--monitor-port": run.monitor_port,
        "--monitor-account": run.monitor_account,
    }
    for option, value in asked.items():
        if value is not None:
            expected = "--token-file beside it: without the installation's secret no client comes in or reports"
            raise InvalidRequest(field=option, value=value, expected=expected)


def _door_port(run: OperatorOptions) -> int | None:
    from sterna.engines.door import PORT

    return None if run.token_file is None else PORT if run.door_port is None else run.door_port


def _require_extra() -> None:
    try:
        import aiohttp  # noqa: F401
        import msgspec  # noqa: F401
    except ImportError as error:
        expected = f"it to be installed: pip install 'sterna[kubernetes]' ({error.name} is missing)"
        raise InvalidRequest(field="the extra", value="kubernetes", expected=expected) from None


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(operator)
