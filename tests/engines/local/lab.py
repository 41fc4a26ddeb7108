"""A local engine with real processes in a directory of its own: what its tests are made of.

async with lab(nodes=2, gpus=2) as engine:
    await engine.submit(toy("a", steps=50))
    await engine.until_phase("a", "Succeeded")
"""

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from sterna.compose.local_engine import open_local
from sterna.engines.local.api.service import LocalScheduler
from sterna.engines.local.launch.warden.client import connect_or_start
from sterna.engines.local.process.assembly import LocalConfig
from sterna.engines.local.world.machine_nodes import VirtualNodes
from sterna.wire.manifests import read_manifests
from tests.journal.shapes import SHAPES
from tests.waiting import until_async

WAIT_S = 40.0  # for anything; a noisy machine needs it, a good run does not
TOY = Path(__file__).with_name("toy_worker.py")


def manifest(
    name: str,
    command: list[str],
    *,
    workers: tuple[int, int] = (1, 1),
    gpus: int = 1,
    grace_s: float = 5,
    spec: str = "",
    template: str = "",
    container: str = "",
    annotations: dict[str, str] | None = None,
) -> str:
    """An ElasticJob. `spec`, `template` and `container` are further lines of YAML, in flow style."""
    limits = f"resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}," if gpus else ""
    return f"""
apiVersion: sterna.dev/v1alpha1
kind: ElasticJob
metadata: {{name: {name}, annotations: {json.dumps(annotations or {})}}}
spec:
  workers: {{min: {workers[0]}, max: {workers[1]}}}
  {spec}
  template:
    spec:
      terminationGracePeriodSeconds: {grace_s:g}
      {template}
      containers:
        - {{name: main, image: none, {limits} {container} command: {json.dumps(command)}}}
"""


def toy(name: str, *options: str, steps: int = 50, step_s: float = 0.02, **more: Any) -> str:
    return manifest(name, [sys.executable, "-S", "-E", str(TOY), str(steps), str(step_s), *options], **more)


class Lab:
    """One engine, running."""

    def __init__(self, scheduler: LocalScheduler, running: asyncio.Task[None]) -> None:
        self.scheduler = scheduler
        self.running = running
        self.home = scheduler.home.root

    async def submit(self, text: str) -> list[dict[str, Any]]:
        return await self.scheduler.submit(text, cwd=str(self.home))

    async def job(self, name: str) -> dict[str, Any]:
        return await self.scheduler.job(name)

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        async def looked() -> bool:
            held = await holds()
            if not held and self.running.done():
                await self.running
            return held

        await until_async(looked, what, patience_s=WAIT_S, every_s=0.02, story=self.story)

    async def until_phase(self, name: str, *phases: str) -> dict[str, Any]:
        async def holds() -> bool:
            return (await self.job(name))["phase"] in phases

        await self.until(holds, f"job {name} is {phases}")
        return await self.job(name)

    async def until_step(self, name: str, step: int) -> dict[str, Any]:
        async def holds() -> bool:
            job = await self.job(name)
            assert job["phase"] not in ("Failed",), await self.story()
            return job["step"] is not None and int(job["step"]) >= step

        await self.until(holds, f"job {name} is at step {step}")
        return await self.job(name)

    async def until_workers(self, name: str, count: int) -> dict[str, Any]:
        """Until it holds so many, and they run."""

        async def holds() -> bool:
            job = await self.job(name)
            running = [w for w in job["workerDetails"] if w["pid"] and w["phase"] != "leaving" and not w["standby"]]
            return bool(job["workers"]["current"] == count == len(running) and job["phase"] == "Running")

        await self.until(holds, f"job {name} has {count} workers")
        return await self.job(name)

    async def until_workers_of(self, name: str, members: set[str]) -> dict[str, Any]:
        """Until just these run, as role-ordinal."""

        async def holds() -> bool:
            workers = (await self.job(name))["workerDetails"]
            alive = [worker for worker in workers if worker["phase"] != "exited"]
            return {f"{w['role']}-{w['ordinal']}" for w in alive if w["pid"]} == members and len(alive) == len(members)

        await self.until(holds, f"job {name} consists of {members}")
        return await self.job(name)

    async def until_event(self, reason: str, job: str | None = None) -> dict[str, Any]:
        async def holds() -> bool:
            return any(event["reason"] == reason for event in await self.scheduler.events(job))

        await self.until(holds, f"event {reason}")
        return next(event for event in await self.scheduler.events(job) if event["reason"] == reason)

    async def story(self) -> str:
        events = [f"{e['at']} {e['job']} {e['reason']}: {e['message']}" for e in await self.scheduler.events()]
        jobs = [json.dumps(await self.job(job["id"]), indent=1) for job in await self.scheduler.jobs()]
        return "\n".join(events + jobs)


def fresh_home() -> Path:
    return Path(tempfile.mkdtemp(prefix="sterna-lab-")) / "home"


def config(home: Path, *, nodes: int = 1, gpus: int = 2, **more: Any) -> LocalConfig:
    more.setdefault("rate_limit_s", 0.05)
    more.setdefault("cgroups", "none")
    return LocalConfig(
        home=home,
        parse=read_manifests,
        nodes=VirtualNodes(nodes, gpus),
        shapes=SHAPES,
        **more,
    )


@asynccontextmanager
async def running(settings: LocalConfig, *, stop_jobs: bool = True) -> AsyncIterator[Lab]:
    """An engine in a home that is there already, and stays."""
    scheduler = open_local(settings)
    task = asyncio.create_task(scheduler.run())
    ready = asyncio.create_task(scheduler.ready())
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=WAIT_S)
    if task.done():
        await task
    try:
        yield Lab(scheduler, task)
    finally:
        with suppress(Exception):
            await scheduler.close(stop_jobs=stop_jobs)


@asynccontextmanager
async def lab(**settings: Any) -> AsyncIterator[Lab]:
    """An engine in a home of its own, and nothing left of it afterwards."""
    home = fresh_home()
    try:
        async with running(config(home, **settings)) as engine:
            yield engine
    finally:
        await swept(home)


async def swept(home: Path) -> None:
    """Nothing of this home runs or is left."""
    client = await connect_or_start(home)
    with suppress(Exception):
        await client.leave(kill=True, grace_s=0.0)
    client.close()
    shutil.rmtree(home.parent, ignore_errors=True)


def processes_of(home: Path) -> list[int]:
    """Training processes of this home that are alive, whoever holds them."""
    mark = f"STERNA_MAILBOX={home}"
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            environment = Path(f"/proc/{process.pid}/environ").read_bytes().decode(errors="replace")
            if any(part.startswith(mark) for part in environment.split("\0")):
                found.append(process.pid)
    return found


def traced(path: Path) -> list[tuple[int, int, int, float, int]]:
    """What toy workers wrote: incarnation, rank, step, moment, pid; in the order of time."""
    if not path.exists():
        return []
    rows = [line.split() for line in path.read_text().splitlines()]
    return sorted(((int(i), int(r), int(s), float(t), int(p)) for i, r, s, t, p in rows), key=lambda row: row[3])


def trained_by_one_at_a_time(path: Path) -> bool:
    """Did no older incarnation make a step after a newer one had made its first?"""
    incarnations = [row[0] for row in traced(path)]
    return incarnations == sorted(incarnations)
