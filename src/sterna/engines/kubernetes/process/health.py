"""What probes ask: is the operator alive (`/healthz`), does it know the cluster (`/readyz`), and how does it stand.

Both answer JSON. A standby is as ready as a leader: it could take over at once.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from sterna.httpd import Handler, HttpServer, Limits, Reply, json_reply

log = logging.getLogger(__name__)

_LIMITS = Limits(connections=64, per_address=16, body_bytes=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    alive: bool
    synced: bool  # has everything been listed at least once?
    leads: bool
    leader: str  # the replica that leads, as last seen; empty: none
    cycles: int
    last_cycle_age_s: float | None  # None: there was none yet
    policy: str
    problem: str  # what is wrong at present, for people; empty: nothing
    jobs: int
    fuses_blown: int = 0  # objects that were written too often, since the start; and writes of those that had to wait
    writes_held_back: int = 0


async def serve_health(health: Callable[[], Health], *, host: str, port: int, told: Callable[[int], None]) -> None:
    """Until cancelled. `told` hears the port that it listens on: 0 asks for any that is free."""

    def alive(_: object) -> Reply:
        return _answer(now := health(), well=now.alive)

    def ready(_: object) -> Reply:
        return _answer(now := health(), well=now.synced)

    routes: dict[tuple[str, str], Handler] = {
        ("GET", "/healthz"): alive,
        ("GET", "/livez"): alive,
        ("GET", "/readyz"): ready,
    }
    async with HttpServer(routes, limits=_LIMITS) as server:
        bound = await server.start(host, port)
        told(bound)
        log.info("probes are answered", extra={"host": host, "port": bound})
        await asyncio.Event().wait()


def _answer(health: Health, *, well: bool) -> Reply:
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
        "fusesBlown": health.fuses_blown,
        "writesHeldBack": health.writes_held_back,
    }
    return json_reply(body, status=200 if well else 503)
