"""`sterna up`: start the engine of this machine."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sterna.interfaces.cli.asking import Home, Quiet, say
from sterna.interfaces.cli.choices import settings, split_list
from sterna.interfaces.cli.daemon_log import LogForm, check_level, log_to_stderr
from sterna.interfaces.cli.options import (
    IdleCpuShare,
    Rebalance,
    RebalanceSettings,
    Settings,
    policy_names,
    seconds,
    taking,
)
from sterna.model.errors import Conflict, InvalidRequest, SternaError

if TYPE_CHECKING:
    import socket

    from sterna.interfaces.api.engine_home import Endpoint
    from sterna.interfaces.api.lifetime import ReportedScheduler
    from sterna.interfaces.scheduler_port import Scheduler

_EPILOG = """\b
Examples:
  sterna up
  sterna up --detach
  sterna up --nodes 3 --gpus-per-node 2
  sterna up --policy afs-l --rate-limit 10s
  sterna up --nodes 2 --cpus-per-node 1 --rebalance specon
\b
Without --nodes there is one node: this machine with its CPUs, memory and GPUs. Virtual nodes share the machine and
are for trying things out: their GPUs are names only. With --cpus-per-node the workers of a node have its CPUs together
and no more.
Ctrl-C, or `sterna down`, stops jobs at a committed step; they go on at the next start. If the engine is killed,
training goes on, and the next start finds it.
"""
_ANSWERS_WITHIN_S = 2.0


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, help="So many virtual nodes. Default: this machine as it is.")
    ] = None
    gpus_per_node: Annotated[
        int | None, typer.Option("--gpus-per-node", min=0, help="GPUs of each virtual node. Default: none.")
    ] = None
    cpus_per_node: Annotated[
        float | None, typer.Option("--cpus-per-node", help="CPUs of each virtual node. Default: the machine's.")
    ] = None
    memory_per_node: Annotated[
        str | None,
        typer.Option("--memory-per-node", metavar="SIZE", help="Such as 8Gi. Default: the machine's."),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            "-p",
            help="How jobs are sized. Default: what was set last, else elastic-fifo.",
            autocompletion=policy_names,
        ),
    ] = None
    set_: Settings = field(default_factory=list)
    placement: Annotated[
        str | None, typer.Option("--placement", help="Where workers go. Default: the policy's own.")
    ] = None
    rate_limit: Annotated[
        float | None,
        typer.Option("--rate-limit", metavar="TIME", parser=seconds, help="Least time between two decisions."),
    ] = None
    idle_cpu_share: IdleCpuShare = None
    rebalance: Rebalance = None
    rebalance_set: RebalanceSettings = field(default_factory=list)
    monitor: Annotated[
        bool,
        typer.Option("--monitor/--no-monitor", help="Take evaluations by HTTP, and from logs and CSV files."),
    ] = True
    door_port: Annotated[
        int | None,
        typer.Option(
            "--door-port",
            min=0,
            max=65535,
            help="Also answer /migrate, /cluster-info and /reports there, as container-migration does at 8769.",
        ),
    ] = None
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Of the API on 127.0.0.1. 0: any that is free.")
    ] = 0
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "info"
    log_form: Annotated[
        LogForm, typer.Option("--log-format", help="text for people, json for programs; on standard error.")
    ] = LogForm.TEXT
    quiet: Quiet = False
    home: Home = None


@taking(UpOptions)
def up(run: UpOptions) -> None:
    """Start the engine of this machine.

    Schedules jobs, runs them as processes and answers the other commands, until it is stopped. Prints where it
    answers, and what of the limits of jobs is enforced here and what not.
    """
    from sterna.connections import limits_from
    from sterna.interfaces.api.engine_home import prepare_home, state_home
    from sterna.interfaces.api.loopback_listener import listening

    check_level(run.log_level)
    home = state_home(run.home)
    _require_consistent(run)
    limits_from(os.environ)  # a mistake in it is told here
    _require_alone(home)
    prepare_home(home)
    if run.detach:
        from sterna.interfaces.cli.background import start_in_background

        with listening(run.port):
            pass  # one in use is told here and now rather than from the background
        endpoint = start_in_background(home, _arguments(run, home))
        say(f"sterna is up at {endpoint.url} (process {endpoint.pid}, home {home})", quiet=run.quiet)
    else:
        with listening(run.port) as listener:
            _run(run, home, listener)


def _run(run: UpOptions, home: Path, listener: "socket.socket") -> None:
    import asyncio

    from sterna.compose.local_engine import LocalRequest, LocalRules, run_local
    from sterna.interfaces.api.engine_home import own_token
    from sterna.interfaces.api.lifetime import serve_until_told
    from sterna.model.quantities import memory_bytes

    log_to_stderr(run.log_level, run.log_form)

    async def serve(scheduler: "ReportedScheduler") -> bool:
        async def ready(endpoint: "Endpoint") -> None:
            say(await _announcement(scheduler, endpoint, home), quiet=run.quiet)

        async with _door(scheduler, home, run.door_port):
            return await serve_until_told(
                scheduler, home=home, listener=listener, ready=ready, household=scheduler.household
            )

    memory = run.memory_per_node
    rules = LocalRules(
        policy=run.policy,
        settings=settings(run.set_),
        placement=run.placement,
        rate_limit_s=run.rate_limit,
        rebalance=_rebalancers(run),
        rebalance_settings=settings(run.rebalance_set, flag="--rebalance-set"),
        idle_cpu_share=run.idle_cpu_share,
    )
    request = LocalRequest(
        home=home,
        nodes=_virtual_nodes(run),
        gpus_per_node=run.gpus_per_node or 0,
        cpus_per_node=run.cpus_per_node,
        memory_bytes_per_node=None if memory is None else memory_bytes(memory, field="--memory-per-node"),
        rules=rules,
        monitor_secret=own_token(home) if run.monitor else None,
    )
    asyncio.run(run_local(serve, request))


@asynccontextmanager
async def _door(scheduler: "ReportedScheduler", home: Path, port: int | None) -> AsyncIterator[None]:
    """The scheduler's door on a port of loopback of its own, where one was asked for."""
    if port is None:
        yield
        return
    import asyncio

    from sterna.engines.door.door import Door
    from sterna.engines.door.serving import serve_door
    from sterna.interfaces.api.engine_home import own_token

    token, opened = own_token(home), asyncio.Event()
    door = Door(scheduler.household, lambda: (token,))
    task = asyncio.create_task(serve_door(door, host="127.0.0.1", port=port, told=lambda _: opened.set()))
    waiting = asyncio.create_task(opened.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if task.done() and (error := task.exception()) is not None:
            why = (getattr(error, "strerror", None) or str(error)).lower()
            raise InvalidRequest(field="--door-port", value=port, expected=f"a free port ({why})") from None
        yield
    finally:
        for each in (task, waiting):
            each.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)


async def _announcement(scheduler: "Scheduler", endpoint: "Endpoint", home: Path) -> str:
    from sterna.interfaces.reports.announcement import announcement_text

    health, nodes, policy = await scheduler.health(), await scheduler.nodes(), await scheduler.policy()
    return announcement_text(health, nodes, policy, url=endpoint.url, home=str(home))


def _rebalancers(run: UpOptions) -> tuple[str, ...] | None:
    """None: as they were set last."""
    names = None if run.rebalance is None else split_list([run.rebalance])
    return None if names is None else () if names == ["none"] else tuple(names)


def _virtual_nodes(run: UpOptions) -> int | None:
    """How many; None: the machine itself. Options that say what a node has mean a virtual one."""
    said = (run.gpus_per_node, run.cpus_per_node, run.memory_per_node)
    return 1 if run.nodes is None and any(value is not None for value in said) else run.nodes


def _require_consistent(run: UpOptions) -> None:
    """What can be told before anything is started, background or not."""
    from sterna.model.quantities import memory_bytes

    if run.memory_per_node is not None:
        memory_bytes(run.memory_per_node, field="--memory-per-node")
    chosen = settings(run.set_)
    if chosen and run.policy is None:
        raise InvalidRequest(field="--set", value=run.set_[0], expected="--policy beside it, whose option it is")
    if run.policy is not None:
        from sterna.policies.registry import policy

        policy(run.policy, chosen)
    names, moving = _rebalancers(run), settings(run.rebalance_set, flag="--rebalance-set")
    if names is None and moving:
        expected = "--rebalance beside it, whose option it is"
        raise InvalidRequest(field="--rebalance-set", value=run.rebalance_set[0], expected=expected)
    if names is not None:
        from sterna.lifecycle.rule_names import rebalancers

        rebalancers(names, moving)


def _require_alone(home: Path) -> None:
    """A clear error where an engine answers. The engine's lock, not this, keeps two engines from sharing a home."""
    from sterna.interfaces.client import Client

    client = Client(str(home), deadline_s=_ANSWERS_WITHIN_S)
    try:
        endpoint = client.endpoint()
        client.health()
    except SternaError:
        return
    raise Conflict(f"an engine already runs in {home}: process {endpoint.pid} at {endpoint.url}")


def _arguments(run: UpOptions, home: Path) -> list[str]:
    """The same options once more, for the process in the background."""
    pairs = {
        "--nodes": run.nodes,
        "--gpus-per-node": run.gpus_per_node,
        "--cpus-per-node": run.cpus_per_node,
        "--memory-per-node": run.memory_per_node,
        "--policy": run.policy,
        "--placement": run.placement,
        "--rate-limit": run.rate_limit,
        "--idle-cpu-share": run.idle_cpu_share,
        "--rebalance": run.rebalance,
        "--door-port": run.door_port,
        "--port": run.port,
        "--log-level": run.log_level,
        "--log-format": run.log_form,
        "--home": home,
    }
    said = [word for name, value in pairs.items() if value is not None for word in (name, str(value))]
    said += [word for setting in run.set_ for word in ("--set", setting)]
    said += [word for setting in run.rebalance_set for word in ("--rebalance-set", setting)]
    return said if run.monitor else [*said, "--no-monitor"]


def add_to(cli: typer.Typer) -> None:
    cli.command(epilog=_EPILOG)(up)
