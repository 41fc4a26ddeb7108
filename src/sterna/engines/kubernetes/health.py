"""What probes ask: is the operator alive (`/healthz`), does it know the cluster (`/readyz`), and how does it stand.

Both answer JSON. A standby is as ready as a leader: it could take over at once.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from aiohttp import web

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    alive: bool
    synced: bool  # has everything been listed at least once?
    leads: bool
    leader: str  # who, as last seen; empty: nobody
    cycles: int
    last_cycle_age_s: float | None  # None: there was none yet
    policy: str
    problem: str  # what is wrong at present, for people; empty: nothing
    jobs: int


async def serve_health(health: Callable[[], Health], *, host: str, port: int, told: Callable[[int], None]) -> None:
    """Until cancelled. `told` hears the port that it listens on: 0 asks for any that is free."""

    async def healthz(_: web.Request) -> web.Response:
        return _answer(health(), well=health().alive)

    async def readyz(_: web.Request) -> web.Response:
        return _answer(health(), well=health().synced)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/livez", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound: int = runner.addresses[0][1]
        told(bound)
        log.info("probes are answered", extra={"host": host, "port": bound})
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _answer(health: Health, *, well: bool) -> web.Response:
    body = {
        "ok": well,
        "role": "leader" if health.leads else "standby",
        "leader": health.leader,
        "synced": health.synced,
        "cycles": health.cycles,
        "lastCycleAgeSeconds": health.last_cycle_age_s,
        "policy": health.policy,
        "problem": health.problem,
        "jobs": health.jobs,
    }
    return web.json_response(body, status=200 if well else 503, dumps=lambda value: msgspec.json.encode(value).decode())
