"""The monitor itself: takes reports, reads files and counters, keeps windows, and sends batches to the scheduler.

No global state: several may live in one process, which is how the local engine and the tests use it. Each of its loops
survives whatever goes wrong in one round.
"""

import asyncio
import contextlib
import logging
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sterna.httpd import HttpServer, Limits
from sterna.monitor.forwarding import Deliver, Forwarding
from sterna.monitor.intake import Intake
from sterna.monitor.log_following import Following
from sterna.monitor.matcher import Matcher
from sterna.monitor.surroundings import Pattern, Surroundings
from sterna.monitor.told_tokens import ToldTokens
from sterna.monitor.usage.gpus import Gpus
from sterna.monitor.usage.measuring import Measuring
from sterna.monitor.watched import Watched
from sterna.monitor.windows import PODS_MAX, WINDOW, Windows
from sterna.protocol.reports import Report, is_of_job
from sterna.protocol.tokens import Gate

log = logging.getLogger(__name__)

_LAST_WORDS_S = 2.0  # for sending what is left when the monitor stops
_LOOK_AGAIN_S = 0.2  # least time between two looks for pods that were not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    node: str
    host: str = "127.0.0.1"
    port: int = 8081  # 0: any that is free
    health_host: str = "127.0.0.1"
    health_port: int | None = None  # where probes are answered, apart from all other requests. None: nowhere
    forward_s: float = 1.0
    follow_s: float = 0.5
    measure_s: float = 10.0  # 0: nothing is measured
    silent_after_s: float = 60.0
    forget_after_s: float = 6 * 3600.0  # what is left of a silent worker: its last evaluation and number
    window: int = WINDOW
    pods_max: int = PODS_MAX
    cgroup_root: Path = Path("/sys/fs/cgroup")
    proc_root: Path = Path("/proc")
    log_root: Path | None = (
        None  # where a kubelet keeps the logs of its pods; None: no kubelet, pods are told by watch()
    )
    epochs_dir: Path | None = None  # Voda's training logs, <job>.csv
    epochs_namespace: str = "default"  # of the jobs that those belong to
    patterns: tuple[Pattern, ...] = ()
    limits: Limits = Limits()


class Monitor:
    """`secrets`: what it is known by itself, the first being what it sends. `deliver`: how batches reach the scheduler.

    `is_told`: none of them is the installation's secret, and the scheduler says whose a job's token is.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        secrets: Callable[[], Sequence[str]],
        deliver: Deliver,
        is_told: bool = False,
        gpus: Gpus | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._secrets = secrets
        self.windows = Windows(window=settings.window, pods_max=settings.pods_max)
        self._watched: dict[str, Watched] = {}
        self._told: set[str] = set()  # pods that watch() told of, which no look around takes away
        self._follow: Mapping[str, str] = {}
        self._looked_s = -_LOOK_AGAIN_S
        self._surroundings = Surroundings(log_root=settings.log_root, patterns=settings.patterns)
        self._matcher = Matcher()
        self._measuring = Measuring(cgroup_root=settings.cgroup_root, proc=settings.proc_root, gpus=gpus)
        self.forwarding = Forwarding(
            self.windows,
            deliver,
            node=settings.node,
            monitor=f"{settings.node}-{uuid.uuid4().hex[:12]}",
            interval_s=settings.forward_s,
            followed=self._follow_these,
            chance=random.Random(),
            told=lambda tokens: self._told_tokens.take(tokens),
        )
        self._told_tokens = ToldTokens(clock=clock, ask=self.forwarding.ask_tokens)
        self._following = Following(
            last_seq=self.windows.last_seq, matcher=self._matcher, faulted=self.forwarding.faulted
        )
        intake = Intake(
            self.windows,
            Gate(secrets, told=lambda: self._told_tokens.owners),
            wall=wall,
            clock=clock,
            knows=self._knows,
            took=self.forwarding.took,
            ready=lambda: None if secrets() else "no token has been read",
            may_be_known=self._told_tokens.met_stranger if is_told else lambda: False,
        )
        self._server = HttpServer(intake.routes(), fallback=intake.fallback, admit=intake.admit, limits=settings.limits)
        self._probes = HttpServer(intake.probes(), limits=replace(settings.limits, connections=32, per_address=16))
        self.health_port: int | None = None  # that probes are answered on. None: on none
        self._running: asyncio.Task[None] | None = None

    # -- from outside -------------------------------------------------------------------------------------------------

    async def start(self) -> int:
        """Listen and begin; the port. Raises OSError."""
        settings = self._settings
        port = await self._server.start(settings.host, settings.port)
        if settings.health_port is not None:
            self.health_port = await self._probes.start(settings.health_host, settings.health_port)
        self.look_around()
        self._running = asyncio.create_task(self._run(), name="monitor")
        log.info("monitor listens", extra={"node": settings.node, "port": port, "health_port": self.health_port})
        return port

    async def stop(self) -> None:
        """Take no more, send what is left if the scheduler takes it quickly, and end."""
        await self._server.stop()
        await self._probes.stop()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    await self.forwarding.send_all()
        await self._matcher.stop()
        self._measuring.close()

    def watch(self, watched: Watched) -> None:
        """Look at this worker, or look at it otherwise than before. Before it starts is best: its first lines count."""
        self._told.add(watched.pod)
        self._add(watched)

    def unwatch(self, pod: str) -> None:
        """It is gone. What it reported is still sent."""
        self._told.discard(pod)
        self._remove(pod)

    # -- rounds -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._again(self._settings.follow_s, self.follow))
            if self._settings.measure_s > 0:
                group.create_task(self._again(self._settings.measure_s, self.measure))
            group.create_task(self._again(self._settings.silent_after_s / 12, self.expire))
            group.create_task(self._forward())

    async def _again(self, every_s: float, do: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await do()
            except Exception:  # the boundary of a round: the next one may go well
                log.exception("round failed", extra={"round": do.__name__})

    async def _forward(self) -> None:
        while True:
            try:
                await self.forwarding.run()
            except Exception:
                log.exception("round failed", extra={"round": "forward"})
                await asyncio.sleep(self._settings.forward_s)

    async def follow(self) -> None:
        """Read what watched workers wrote."""
        for report in await self._following.news(self._watched.values(), self._wall()):
            self.windows.take(report, self._clock())
        self.forwarding.took()

    async def measure(self) -> None:
        """Look for pods, and at what each uses."""
        self._take_up(await asyncio.to_thread(self._seen))
        workers = tuple(self._watched.values())
        used, load = await asyncio.to_thread(self._measuring.usage, workers, self._clock())
        at_s = self._wall()
        for watched in workers:
            usage = used.get(watched.pod)
            if usage is not None and watched.pod in self._watched:
                report = Report(watched.pod, 0, at_s, usage=usage, job_uid=watched.job_uid)
                self.windows.measured(report, self._clock())
        self.forwarding.measured(load)

    async def expire(self) -> None:
        self._told_tokens.refresh()
        for pod in self.windows.expire(
            self._clock(),
            silent_after_s=self._settings.silent_after_s,
            forget_after_s=self._settings.forget_after_s,
        ):
            log.info("worker silent", extra={"pod": pod, "after_s": self._settings.silent_after_s})

    # -- which pods are here ------------------------------------------------------------------------------------------

    def look_around(self) -> None:
        """See which pods and training logs there are."""
        self._take_up(self._seen())

    def _seen(self) -> list[Watched]:
        settings = self._settings
        seen = []
        if settings.log_root is not None:
            seen += self._surroundings.watched(self._measuring.pods(), self._follow)
        if settings.epochs_dir is not None:
            with contextlib.suppress(OSError):
                for path in sorted(settings.epochs_dir.glob("*.csv")):
                    seen.append(Watched(f"{settings.epochs_namespace}/{path.stem}", epochs=path))
        return seen

    def _take_up(self, seen: list[Watched]) -> None:
        self._looked_s = self._clock()
        for watched in seen:
            if watched.pod not in self._told:
                self._add(watched)
        for pod in self._watched.keys() - self._told - {watched.pod for watched in seen}:
            self._remove(pod)

    def _add(self, watched: Watched) -> None:
        if self._watched.get(watched.pod) != watched:
            self._watched[watched.pod] = watched
            self._following.watch(watched)

    def _remove(self, pod: str) -> None:
        self._watched.pop(pod, None)
        self._following.unwatch(pod)
        self.windows.gone(pod)

    def _follow_these(self, follow: Mapping[str, str]) -> None:
        """Which pods' logs to follow, and how, as the scheduler says."""
        if follow != self._follow:
            self._follow = follow
            self.look_around()

    def _knows(self, pod: str) -> bool:
        """Is it here? A new pod may report before the next look around, so for an unknown pod it looks at once."""
        if self._settings.log_root is None and not self._told:
            return True  # nothing says which pods are here
        if self._is_here(pod):
            return True
        if self._settings.log_root is None or self._clock() - self._looked_s < _LOOK_AGAIN_S:
            return False
        self.look_around()
        return self._is_here(pod) or self._surroundings.pods() is None

    def _is_here(self, pod: str) -> bool:
        """It, or some pod of the job that has this name."""
        if pod in self._watched:
            return True
        namespace, _, name = pod.rpartition("/")
        others = (watched.rpartition("/") for watched in self._watched)
        return any(where == namespace and is_of_job(other, name) for where, _, other in others)
