"""A week of a local engine in an hour: jobs come and are cancelled, and everything that can be killed is killed.

The engine with its monitor, the warden and the workers get SIGKILL, the engine is stopped and continued, its disk is
full for a while, and its wall clock jumps. What must hold is read from outside: the API, /proc and the home directory.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from sterna.model.errors import Conflict, EngineUnavailable, NotFound, SternaError
from tests.e2e.up import Up
from tests.soak.earned import Errand, complaint, drawn
from tests.soak.false_clock import FalseClock
from tests.soak.small_disk import SmallDisk
from tests.soak.week import Week
from tests.waiting import until

ARRIVAL_S = 0.5  # between two jobs, on average
TROUBLE_S = 2.0  # between two troubles, on average
OPEN_MAX = 60  # jobs that are not over; more would wait longer than the week
KILLS_A_JOB = 4  # each doubles the wait before the next try
PATIENCE_S = 240.0


class LocalWeek(Week):
    def __init__(self, engine: Up, place: Path, disk: SmallDisk, clock: FalseClock, seed: int) -> None:
        super().__init__(seed, arrival_s=ARRIVAL_S, trouble_s=TROUBLE_S)
        self.engine = engine
        self._place = place
        self._disk = disk
        self._clock = clock
        self._open: dict[str, Errand] = {}
        self._killed: dict[str, int] = {}

    # -- jobs

    def come_or_go(self) -> None:
        if self._open and (len(self._open) >= OPEN_MAX or self.chance.random() < 0.1):
            self._cancel(self.chance.choice(sorted(self._open)))
        else:
            self.jobs += 1
            errand = drawn(self.chance, self.jobs, self._place)
            self._insist(lambda: self.engine.client.submit(errand.text, cwd=str(self._place)))
            self._open[errand.name] = errand

    def _cancel(self, name: str) -> None:
        self._insist(lambda: self.engine.client.delete(name))
        del self._open[name]

    def _insist(self, act: Callable[[], object]) -> None:
        """Whatever is wrong meanwhile: an engine that is away, a disk that is full."""

        def done() -> bool:
            try:
                with suppress(Conflict, NotFound):  # done already, and only the answer was lost
                    act()
                return True
            except EngineUnavailable:
                return False

        until(done, "the engine does it", patience_s=PATIENCE_S, every_s=0.05, story=self.engine.said)

    # -- troubles

    def troubles(self) -> dict[Callable[[], None], int]:
        return {
            self._kill_engine: 4,
            self._kill_worker: 4,
            self._kill_warden: 1,
            self._pause_engine: 2,
            self._fill_disk: 1,
            self._set_clock: 2,
        }

    def mend(self) -> None:
        self._disk.clear()

    def _kill_engine(self) -> None:
        self.engine.kill()
        self.wait(self.chance.choice((0.0, 0.0, 1.0)))
        self.engine.start(wait=self.chance.random() < 0.5)  # sometimes it is killed before it is up

    def _kill_warden(self) -> None:
        for process in self.engine.processes():
            with suppress(psutil.Error):
                if "warden" in " ".join(process.cmdline()):
                    process.kill()

    def _kill_worker(self) -> None:
        uids = {job["uid"]: str(job["name"]) for job in self._jobs()}
        workers = [(process, uids.get(uid, "")) for process, uid in self._workers()]
        allowed = [(process, name) for process, name in workers if self._killed.get(name, 0) < KILLS_A_JOB]
        if allowed:
            process, name = self.chance.choice(allowed)
            with suppress(psutil.Error):
                process.kill()
                self._killed[name] = self._killed.get(name, 0) + 1

    def _pause_engine(self) -> None:
        self.engine.signal(signal.SIGSTOP)
        self.wait(self.chance.uniform(0.1, 1.5))
        self.engine.signal(signal.SIGCONT)

    def _fill_disk(self) -> None:
        self._disk.fill()
        self.wait(self.chance.uniform(0.5, 2.0))
        self._disk.clear()

    def _set_clock(self) -> None:
        self._clock.step_to(self.chance.choice((-1.0, 1.0)) * self.chance.choice((0.5, 60.0, 86_400.0)))

    # -- what must hold

    def settle(self) -> None:
        """Every job is over, with the verdict that its program earned; processes and jobs belong together."""
        self._until(lambda: [f"{job['name']} is {job['phase']}" for job in self._jobs() if not job["finishedAt"]])
        self._until(self._mismatches)
        phases = {str(job["name"]): str(job["phase"]) for job in self._jobs()}
        assert sorted(phases) == sorted(self._open), "jobs that nobody asked for, or that were lost"
        wrong = [complaint(errand, phases[name], self._place / name) for name, errand in self._open.items()]
        assert not any(wrong), "\n".join(filter(None, wrong)) + "\n" + self.engine.said()

    def leave_nothing(self) -> None:
        """With its last job deleted and the engine down, nothing of the week is left: no process, no file."""
        for name in sorted(self._open):
            self._cancel(name)
        self._until(lambda: [str(job["name"]) for job in self._jobs()])
        self._until(lambda: [path.name for path in (self.engine.home / "jobs").iterdir()])
        assert self.engine.stop() == 0, self.engine.said()
        gone = "nothing is left running"
        until(lambda: not self.engine.processes(), gone, patience_s=PATIENCE_S, story=self.engine.processes)
        aside = [str(path) for path in self.engine.home.rglob(".*") if path.suffix[1:].isdecimal()]  # .name.pid
        assert aside == [], "half-written files are left"

    def _mismatches(self) -> list[str]:
        """Processes without a job that wants them, and jobs that run without a process."""
        jobs = {str(job["uid"]): job for job in self._jobs()}
        uids = [uid for _, uid in self._workers()]
        stray = [f"a process of {uid}" for uid in uids if uid not in jobs or jobs[uid]["finishedAt"]]
        return stray + [
            f"{job['name']} runs" for uid, job in jobs.items() if job["phase"] == "Running" and uid not in uids
        ]

    def _until(self, wrong: Callable[[], list[str]]) -> None:
        found: list[str] = []

        def is_right() -> bool:
            try:
                found[:] = wrong()
            except EngineUnavailable as error:
                found[:] = [str(error)]
            return not found

        story = lambda: f"{', '.join(found[:20])}\n{self.engine.said()}"  # noqa: E731
        until(is_right, "all is as it should be", patience_s=PATIENCE_S, every_s=0.1, story=story)

    def _jobs(self) -> list[dict[str, object]]:
        try:
            return self.engine.insist(self.engine.client.jobs)
        except SternaError as error:
            raise EngineUnavailable(str(error), retry_after_s=0.1) from error

    def _workers(self) -> list[tuple[psutil.Process, str]]:
        """Processes of jobs, each with the uid of its job, whoever holds them."""
        mark, found = str(self.engine.home / "jobs") + os.sep, []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                mailbox = process.environ().get("STERNA_MAILBOX", "")
                if mailbox.startswith(mark) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append((process, mailbox.removeprefix(mark).split(os.sep)[0]))
        return found
