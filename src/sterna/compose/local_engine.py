"""The local engine from its request to its end: this machine, or virtual nodes on it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sterna.compose.decision_journals import SHAPES
from sterna.engines.local.api.service import LocalScheduler
from sterna.engines.local.process.assembly import LocalConfig
from sterna.engines.local.process.daemon import Life
from sterna.engines.local.world.machine_nodes import NodeChoice, ThisMachine, VirtualNodes
from sterna.wire.manifests import read_runnable


@dataclass(frozen=True, kw_only=True)
class LocalRules:
    """How decisions are made. None: as it was set last, else the default."""

    policy: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # of that policy
    placement: str | None = None  # None: the policy's own
    rate_limit_s: float | None = None
    rebalance: Sequence[str] | None = None
    rebalance_settings: Mapping[str, str] = field(default_factory=dict)
    idle_cpu_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class LocalRequest:
    home: Path
    nodes: int | None = None  # so many virtual ones. None: one, this machine as it is
    gpus_per_node: int = 0
    cpus_per_node: float | None = None  # None: the machine's
    memory_bytes_per_node: int | None = None  # None: the machine's
    rules: LocalRules = LocalRules()
    monitor_secret: str | None = None  # what tokens of jobs are made from. None: no monitor runs


async def run_local(serve: Callable[[LocalScheduler], Awaitable[bool]], request: LocalRequest) -> None:
    """The local engine for as long as `serve` lasts, which answers whether jobs are left running."""
    scheduler = open_local(_config(request))
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(scheduler.run())
            await scheduler.ready()
            leave_jobs = await serve(scheduler)
            await scheduler.close(stop_jobs=not leave_jobs)
    except BaseExceptionGroup as group:  # whichever of the two failed, the other was ended; jobs run on
        raise group.exceptions[0] from None


def open_local(config: LocalConfig) -> LocalScheduler:
    """Become the engine of this home. `Conflict`: another one is; `InvalidRequest`: its state cannot be used."""
    return LocalScheduler(Life(config))


def _config(request: LocalRequest) -> LocalConfig:
    rules = request.rules
    return LocalConfig(
        home=request.home,
        parse=read_runnable,
        nodes=_nodes(request),
        policy=rules.policy,
        settings=rules.settings,
        placement=rules.placement,
        rate_limit_s=rules.rate_limit_s,
        rebalance=rules.rebalance,
        rebalance_settings=rules.rebalance_settings,
        idle_cpu_share=rules.idle_cpu_share,
        monitor_secret=request.monitor_secret,
        shapes=SHAPES,
    )


def _nodes(request: LocalRequest) -> NodeChoice:
    if request.nodes is None:
        return ThisMachine()
    return VirtualNodes(
        count=request.nodes,
        gpus_per_node=request.gpus_per_node,
        cpus_per_node=request.cpus_per_node,
        memory_bytes_per_node=request.memory_bytes_per_node,
    )
