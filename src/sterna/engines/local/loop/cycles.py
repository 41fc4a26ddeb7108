"""What runs all the time: cycles of the core when something asks for one, jobs carried on when something happens.

Nothing here waits for anything slow while others could go on: cycles are paced, every job is carried on by a task of
its own, and a source of news (the warden, a worker's datagram, a timer) only leaves a note and wakes a task.
"""

import asyncio
import logging
import math
from collections.abc import Callable

from sterna.engines.decision_ids import DecisionIds
from sterna.engines.local.launch.warden.values import ProcessState
from sterna.engines.local.loop.decision_events import DecisionEvents
from sterna.engines.local.loop.engine import LocalEngine
from sterna.engines.local.loop.job_runner import Runner
from sterna.engines.local.loop.rules import Rules
from sterna.engines.local.reconcile.row_changes import finish
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.loop import try_cycle
from sterna.engines.pacing import Happening, Pacer
from sterna.lifecycle.outcome import Finish
from sterna.model.errors import EngineUnavailable, InvalidRequest
from sterna.model.ids import JobId
from sterna.model.phases import Phase
from sterna.protocol import WakeSocket

log = logging.getLogger(__name__)

SCAN_S = 1.0  # statuses are looked at this often even if no datagram says so
KEEP_S = 5.0  # progress is written down this often
RETRY_S = 2.0
_AT_ONCE_MAX = 16  # jobs carried on at the same time


class SchedulerLoop:
    def __init__(
        self,
        book: Book,
        engine: LocalEngine,
        runner: Runner,
        journal: DecisionEvents,
        rules: Rules,
        *,
        on_cycle: Callable[[], None] = lambda: None,
        on_gone: Callable[[LocalJob], None] = lambda _: None,
        on_scan: Callable[[], None] = lambda: None,
        on_carried: Callable[[LocalJob, EngineUnavailable | None], None] = lambda job, error: None,
    ) -> None:
        self.pacer = Pacer(rate_limit_s=rules.rate_limit_s)
        self.cycles = 0
        self.problem: str = ""  # why the latest cycle failed
        self._book = book
        self._engine = engine
        self._runner = runner
        self._journal = journal
        self._ids = DecisionIds()
        self._rules = rules  # as they may be changed while everything runs
        self._on_cycle = on_cycle
        self._on_gone = on_gone
        self._on_scan = on_scan
        self._on_carried = on_carried  # told what kept a job from being carried on; None: nothing did
        self._dirty: dict[JobId, None] = {}
        self._carried: set[JobId] = set()
        self._timers: dict[JobId, float] = {}
        self._work = asyncio.Event()
        self._asked = asyncio.Event()
        self._cut_short = False  # the latest plan waits for room that is being let go of
        self._paused = False

    # -- news ---------------------------------------------------------------------------------------------------------

    def notice(self, happening: Happening) -> None:
        """Something happened that a decision may depend on."""
        self.pacer.notice(happening)
        self._asked.set()

    def mark(self, job: LocalJob) -> None:
        """Something happened to this job: look at it."""
        self._dirty[job.row.id] = None
        self._work.set()

    def ended(self, state: ProcessState) -> None:
        """The warden tells of an end; its row follows when the job is looked at."""
        job = self._book.by_process.get(state.id)
        if job is None:
            return
        process = job.processes[state.id]
        process.told(state)
        self._runner.heard(job, process)
        self.mark(job)

    def woken(self, socket: WakeSocket) -> None:
        """Workers say that their status is worth reading."""
        for uid in dict.fromkeys(socket.received()):
            job = self._book.by_process.get(uid)
            if job is not None and self._runner.heard(job, job.processes[uid]):
                self.mark(job)

    def pause_cycles(self) -> None:
        """Decide nothing more; what is under way goes on."""
        self._paused = True

    @property
    def at_rest(self) -> bool:
        return not self._dirty and not self._carried

    # -- tasks --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        for job in self._book.jobs.values():
            self.mark(job)
        self.notice(Happening.STARTED_UP)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cycling())
            group.create_task(self._carrying(group))
            group.create_task(self._scanning())

    async def _cycling(self) -> None:
        while True:
            wait_s = self._until_next_cycle_s()
            if wait_s > 0 or self._paused:
                self._asked.clear()
                wait_s = self._until_next_cycle_s()
                if wait_s > 0 or self._paused:
                    await _wait(self._asked, None if math.isinf(wait_s) or self._paused else wait_s)
                    continue
            await self._cycle()

    def _until_next_cycle_s(self) -> float:
        now_s = self._book.timeline.now()
        wake_s = self._engine.wake_s
        if wake_s is not None and now_s >= wake_s:
            self._engine.wake_s = None
            self.pacer.notice(Happening.TIMER)
        due_s = self.pacer.due_s(now_s)
        if due_s is not None and self._cut_short and not self._engine.anybody_leaves:
            return 0.0  # the room that the plan waited for is there: that is no new question
        waits = [moment - now_s for moment in (due_s, self._engine.wake_s) if moment is not None]
        return max(0.0, min(waits, default=math.inf))

    async def _cycle(self) -> None:
        ticket = self.pacer.begin()
        rules, decision_id = self._rules, self._ids.next()
        self._engine.decision_id = decision_id
        journal = self._journal.cycle(decision_id, rules.about())
        result = await try_cycle(self._engine, rules.size, rules.place, journal, rules.settings, retry_after_s=RETRY_S)
        self.pacer.end(ticket, self._book.timeline.now())
        self.cycles += 1
        decision, error = result.decision, result.error
        self._cut_short = decision is not None and any(step.after_release for step in decision.steps)
        if error is None:
            try:
                self._on_cycle()
            except EngineUnavailable as trouble:
                error = trouble
        if error is None:
            self.problem = ""
        else:
            self._say(error)
            self._engine.wake_s = self._book.timeline.now() + (result.again_after_s or RETRY_S)

    def _say(self, error: Exception) -> None:
        if str(error) == self.problem:
            return
        self.problem = str(error) or type(error).__name__
        log.error("cycle failed", exc_info=error, extra={"decision": self._engine.decision_id})
        self._book.event("CycleFailed", self.problem, warning=True)

    async def _carrying(self, group: asyncio.TaskGroup) -> None:
        """Start a task for every job that something happened to, one at a time for each job."""
        while True:
            now_s = self._book.timeline.now()
            for job_id, moment in list(self._timers.items()):
                if moment <= now_s:
                    del self._timers[job_id]
                    self._dirty[job_id] = None
            for job_id in list(self._dirty):
                if job_id in self._carried or len(self._carried) >= _AT_ONCE_MAX:
                    continue
                del self._dirty[job_id]
                job = self._book.jobs.get(job_id)
                if job is not None:
                    self._carried.add(job_id)
                    group.create_task(self._carry(job))
            self._work.clear()
            if any(job_id not in self._carried for job_id in self._dirty) and len(self._carried) < _AT_ONCE_MAX:
                continue
            next_s = min(self._timers.values(), default=math.inf) - self._book.timeline.now()
            await _wait(self._work, None if math.isinf(next_s) else max(0.0, next_s))

    async def _carry(self, job: LocalJob) -> None:
        moment: float | None = None
        try:
            moment = await self._runner.reconcile(job)
            self._tell_if_gone(job)
            self._on_carried(job, None)
        except EngineUnavailable as error:
            log.warning("job must wait", extra={"job": job.row.id, "why": str(error)})
            self._on_carried(job, error)
            moment = self._book.timeline.now() + error.retry_after_s
        except InvalidRequest as error:  # its manifest asks for something that cannot be had
            moment = self._cannot_be_carried_on(job, error)
        except Exception as error:  # the boundary of one job: the others must go on
            log.exception("job could not be carried on", extra={"job": job.row.id})
            self._book.event("EngineProblem", f"{type(error).__name__}: {error}", job=job.row.id, warning=True)
            moment = self._book.timeline.now() + RETRY_S
        finally:
            self._carried.discard(job.row.id)
            self._work.set()
            self._tell(job)
        if moment is not None:
            self._timers[job.row.id] = moment
        else:
            self._timers.pop(job.row.id, None)

    def _cannot_be_carried_on(self, job: LocalJob, error: InvalidRequest) -> float:
        """The job fails. Where it has ended already something else is wrong, and is not tried again without a pause."""
        if job.row.finished:
            log.error("job that has ended could not be carried on", extra={"job": job.row.id, "why": str(error)})
            return self._book.timeline.now() + RETRY_S
        finish(self._book, job, Finish(Phase.FAILED, "CannotStart", str(error)))
        return self._book.timeline.now()

    def _tell(self, job: LocalJob) -> None:
        """What the core should know of what happened to this job, whatever became of the call that noted it."""
        ends, finished = job.told
        job.told = (job.ends, job.row.finished)
        if job.row.finished and not finished:
            well = job.row.phase is Phase.SUCCEEDED
            self.notice(Happening.JOB_COMPLETED if well else Happening.JOB_FAILED)
        elif job.ends > ends:  # counted, because one may have been planned and be gone within one call
            self.notice(Happening.WORKERS_GONE)

    def _tell_if_gone(self, job: LocalJob) -> None:
        if (job.row.finished or job.row.deleting) and not job.live:
            self._on_gone(job)

    async def _scanning(self) -> None:
        kept_s = self._book.timeline.now()
        while True:
            await asyncio.sleep(SCAN_S)
            self._on_scan()
            for job in list(self._book.busy.values()):
                for process in job.live:
                    if process.row.started_s is not None and self._runner.heard(job, process):
                        self.mark(job)
            now_s = self._book.timeline.now()
            if now_s - kept_s >= KEEP_S:
                kept_s = now_s
                try:
                    self._book.commit("progress", soft=True)
                except EngineUnavailable as error:
                    log.error("progress could not be written", extra={"why": str(error)})


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
