"""The local engine as the loop sees it: reports how things stand, and takes decisions as what is intended from now on.

`apply` changes rows and commits; processes follow (`job_runner.py`). A shrink that no member of a gang survives is
joined with the growth that the same decision has for it: where there is room for both, the new gang is started beside
the old one, and the job is shown as holding the new places while the old ones are leaving.
"""

from collections.abc import Callable, Sequence

from sterna.engines.action_log import log_outcome
from sterna.engines.local.reconcile import intentions
from sterna.engines.local.store.job_book import Book, LocalJob
from sterna.engines.local.world.job_value import value_of
from sterna.engines.local.world.node_index import Roster, devices_taken, guests_of, measured_by_node, room_taken
from sterna.model.considering import ConsideredMove
from sterna.model.ids import JobId
from sterna.model.jobs import Job, Worker
from sterna.model.phases import Phase
from sterna.model.plan import Action, Decision, Grow, Held, Outcome, Shrink
from sterna.model.resources import NOTHING
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because


class LocalEngine:
    """Implements `Engine`."""

    def __init__(
        self,
        book: Book,
        roster: Roster,
        *,
        on_intended: Callable[[LocalJob], None],
        on_considered: Callable[[float, Sequence[ConsideredMove]], object] = lambda at_s, considered: None,
    ) -> None:
        self.decision: Decision | None = None  # the latest
        self.view: Snapshot | None = None  # ... and what it was made from
        self.decision_id = ""  # of the decision under way, as logs, events and the journal name it
        self.wake_s: float | None = None
        self._book = book
        self._roster = roster
        self._on_intended = on_intended
        self._on_considered = on_considered  # told of what rebalancers looked at, moved or not
        self._values: dict[JobId, Job] = {}  # of unfinished jobs, in order of arrival
        self._changed: set[JobId] = set()
        self._revision = 0
        book.on_change = self._note
        for job_id in book.jobs:
            self._note(job_id)

    # -- Engine -------------------------------------------------------------------------------------------------------

    async def observe(self) -> Snapshot:
        self._revision += 1
        self._roster.pass_time(self._book.timeline.now())
        self.view = self.snapshot()
        return self.view

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        began_s = self._book.timeline.now()
        self.refresh()
        outcomes = [self._take(action) for action in actions]
        self._book.commit("apply")
        took_s = self._book.timeline.now() - began_s  # of all of them: they are written by one commit
        for outcome in outcomes:
            job_id = outcome.action.job_id
            log_outcome(outcome, before=self._held(job_id), decision_id=self.decision_id, took_s=took_s)
            if (job := self._book.jobs.get(job_id)) is not None:
                self._on_intended(job)
        return outcomes

    async def remember(self, decision: Decision) -> None:
        self.decision = decision
        moments = (decision.wake_s, self._roster.next_change_s)
        self.wake_s = min((moment for moment in moments if moment is not None), default=None)
        self._book.remember(decision.memory)
        if decision.considered:
            self._on_considered(self._book.timeline.now(), decision.considered)
        for job_id in list(self._values):
            job = self._book.jobs[job_id]
            if job.row.phase is Phase.RESIZING and not job.row.assigned and not decision.layout.workers_of(job_id):
                intentions.give_up(self._book, job, decision.because_of(job_id))
        self._book.commit("remember")

    def _held(self, job_id: JobId) -> tuple[Worker, ...]:
        """As the decision under way saw it."""
        seen = None if self.view is None else self.view.by_id.get(job_id)
        return () if seen is None else seen.workers

    def _note(self, job_id: JobId) -> None:
        self._changed.add(job_id)

    # -- how things stand ---------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The world as the next decision would see it."""
        self.refresh()
        view = Snapshot(
            revision=self._revision,
            now_s=self._book.timeline.now(),
            cluster=self._roster.cluster,
            jobs=tuple(self._values.values()),
            memory=self._book.memory,
            usage=measured_by_node(self._book),
        )
        return view.prepared(by_id=self._values.copy())

    def refresh(self) -> None:
        """Work out anew the values of jobs that something happened to."""
        if not self._changed:
            return
        changed, self._changed = self._changed, set()
        for job_id in changed:
            job = self._book.jobs.get(job_id)
            if job is None or job.row.finished or job.row.deleting:
                self._values.pop(job_id, None)
                if job is not None:
                    job.value = None
            else:
                job.value = value_of(job, self._book.knowledge)
                self._keep_in_order(job_id, job.value)
        ended = [job for job in self._book.busy.values() if job.row.finished or job.row.deleting]
        self._roster.set_guests(guests_of(ended))

    @property
    def anybody_leaves(self) -> bool:
        self.refresh()
        return any(job.value is not None and job.value.leaving for job in self._book.busy.values())

    def _keep_in_order(self, job_id: JobId, value: Job) -> None:
        known = job_id in self._values
        self._values[job_id] = value
        if not known and len(self._values) > 1:
            *_, before, last = self._values.values()
            if (before.spec.submitted_s, before.id) > (last.spec.submitted_s, last.id):
                order = sorted(self._values.values(), key=lambda job: (job.spec.submitted_s, job.id))
                self._values = {job.id: job for job in order}

    # -- what is intended ---------------------------------------------------------------------------------------------

    def _take(self, action: Action) -> Outcome:
        job = self._book.jobs.get(action.job_id)
        if job is None or job.row.finished or job.row.deleting or job.row.suspended:
            return Outcome(action, Held.STALE, "the job is gone, has ended or was suspended")
        seen = None if self.view is None else self.view.by_id.get(action.job_id)
        if seen is not None and seen.spec.submitted_s != job.spec.submitted_s:
            return Outcome(action, Held.STALE, "the job is another one of that name by now")
        if isinstance(action, Shrink):
            return self._shrink(job, action)
        return self._grow(job, action)

    def _shrink(self, job: LocalJob, action: Shrink) -> Outcome:
        kept = [worker for worker in job.row.assigned if worker in action.to]
        after_it = self._growth_of(job.row.id)
        begun = job.row.warm and after_it is not None and job.row.assigned == after_it.to
        if len(kept) < len(job.row.assigned) and not begun:
            warm = after_it is not None and self._has_room_beside(job, after_it.to)
            if warm and after_it is not None:
                self._hold(job, after_it.to, action.because, warm=True, next_=after_it.to)
            else:
                next_ = action.to if after_it is None else after_it.to
                self._hold(job, tuple(kept), action.because, warm=False, next_=next_)
        return Outcome(action, Held.BEGUN if job.live else Held.DONE)

    def _grow(self, job: LocalJob, action: Grow) -> Outcome:
        assigned = job.row.assigned
        if assigned == action.to:
            return Outcome(action, Held.DONE)
        if not set(assigned) <= set(action.to) or (assigned and job.spec.restarts_on_resize):
            return Outcome(action, Held.STALE, "the job holds something else by now")
        self._hold(job, action.to, action.because, warm=False, next_=action.to)
        return Outcome(action, Held.DONE)

    def _hold(
        self,
        job: LocalJob,
        workers: tuple[Worker, ...],
        because: Because,
        *,
        warm: bool,
        next_: tuple[Worker, ...],
    ) -> None:
        """From now on the job is to hold `workers`, and `next_` once there is room for it."""
        by = self._proposal_for(job.row.id, next_)
        intentions.hold(self._book, job, workers, because, warm=warm, next_=next_, by=by)
        job.value = value_of(job, self._book.knowledge)

    def _proposal_for(self, job_id: JobId, workers: tuple[Worker, ...]) -> ConsideredMove | None:
        """The rebalancer's proposal by which the decision under way puts this job here, if it was one's."""
        moves = self.decision.considered if self.decision is not None else ()
        nodes = {worker.node for worker in workers}
        return next((move for move in moves if move.job_id == job_id and move.to in nodes), None)

    def _growth_of(self, job_id: JobId) -> Grow | None:
        """What the decision under way has for this job after the shrink."""
        if self.decision is None:
            return None
        for step in self.decision.steps:
            for action in step.actions:
                if isinstance(action, Grow) and action.job_id == job_id:
                    return action
        return None

    def _has_room_beside(self, job: LocalJob, workers: tuple[Worker, ...]) -> bool:
        """May a gang that is to take over be started now, beside everything that is there?"""
        trains = [process for process in job.live if process.row.incarnation == job.row.incarnation]
        if not job.spec.restarts_on_resize or not workers or not trains:
            return False
        if any(process.status is None or not process.row.wanted for process in trains):
            return False  # it never attached, so it would not know how to wait; or it is on its way out already
        used = room_taken(self._book)
        for worker in workers:
            used[worker.node] = used.get(worker.node, NOTHING).plus(job.spec.request_of(worker.role))
        nodes = self._roster.cluster.by_id
        for node_id in {worker.node for worker in workers}:
            room = nodes[node_id].allocatable
            if any(take > have for take, have in zip(used[node_id][:3], room[:3], strict=True)):
                return False
        if not self._roster.real_gpus:
            return True
        return devices_taken(self._book).isdisjoint((w.node, device) for w in workers for device in w.devices)
