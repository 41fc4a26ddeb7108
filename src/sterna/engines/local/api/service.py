"""The local engine as the API sees it: every request of a user.

    scheduler = LocalScheduler(Life(config))  # takes the home's lock, reads the store; `compose` does it
    await scheduler.run()                  # until `close`; jobs run, cycles decide
    await scheduler.close(stop_jobs=True)  # jobs commit, stop and wait for the next start

All methods answer plain records. State is changed and committed before a method returns; processes follow.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sterna.engines.local.api.explanation import explanation
from sterna.engines.local.api.log_reader import LogFile
from sterna.engines.local.api.records import (
    change_record,
    event_record,
    full_record,
    job_record,
    limits_text,
)
from sterna.engines.local.migrations import asked_moves
from sterna.engines.local.migrations.local_door import LocalHousehold
from sterna.engines.local.process.assembly import ParsedJob, named
from sterna.engines.local.process.daemon import Life
from sterna.engines.local.process.home import Home
from sterna.engines.local.progress.embedded_monitor import needs_monitor, require_patterns, require_watchable
from sterna.engines.local.reconcile import changes, job_conditions
from sterna.engines.local.reconcile.lost_seats import lose_node
from sterna.engines.local.store.job_book import LocalJob
from sterna.engines.local.store.rows import JobRow, Stage
from sterna.engines.local.world.job_value import holding, spec_of
from sterna.engines.local.world.node_index import measured_by_node, room_taken, workers_by_node
from sterna.engines.pacing import Happening
from sterna.engines.shared_records import node_record
from sterna.lifecycle import transitions
from sterna.lifecycle.changes import ChangeKind
from sterna.lifecycle.growth_news import judge_of
from sterna.lifecycle.job_record import Record
from sterna.lifecycle.rule_names import names_in, rebalancers, settings_in
from sterna.model.errors import Conflict, EngineUnavailable, InvalidRequest, NotFound
from sterna.model.ids import JobId, NodeId
from sterna.model.phases import Phase
from sterna.model.resources import NOTHING
from sterna.model.workload import Contract

_OURS = "sterna.dev"  # managedBy of jobs that are ours begins so


class LocalScheduler:
    def __init__(self, life: Life) -> None:
        self._life = life
        self._book = life.book
        self.household = LocalHousehold(life)  # what the scheduler's door opens onto

    @property
    def home(self) -> Home:
        return self._life.home

    async def run(self) -> None:
        await self._life.run()

    async def ready(self) -> None:
        """Until jobs are looked after."""
        await self._life.ready()

    async def close(self, *, stop_jobs: bool) -> None:
        await self._life.close(stop_jobs=stop_jobs)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    async def submit(self, manifest: str, *, cwd: str, dry_run: bool = False) -> list[Record]:
        """All documents of the text or none of them."""
        parsed = self._life.config.parse(manifest)
        await require_patterns(document.workload for document in parsed)
        jobs = [self._accepted(document, cwd) for document in parsed]
        seen: set[JobId] = set()
        for job in jobs:
            self._require_free(job.row.id, seen)
            seen.add(job.row.id)
        if not dry_run:
            for job in jobs:
                self._book.submitted(job)
                job_conditions.tell(self._book, job)
                self._book.event("Submitted", f"{job.workload.kind} {job.row.id} is accepted", job=job.row.id)
                if job.row.suspended:
                    self._say_suspended(job)
            try:
                self._book.commit("submit")
            except EngineUnavailable:
                for job in jobs:  # all or none, and what could not be written was never accepted
                    self._book.withdraw(job)
                raise
            self._life.notice(Happening.JOB_ACCEPTED)
        return [
            {**self._record(job), "warnings": [*doc.warnings, *self._warnings(job)]}
            for job, doc in zip(jobs, parsed, strict=True)
        ]

    async def jobs(self, *, namespace: str | None = None) -> list[Record]:
        return [
            self._record(job)
            for job in self._book.jobs.values()
            if namespace is None or job.workload.namespace == namespace
        ]

    async def job(self, job_id: str) -> Record:
        job = self._job(job_id)
        changes = [change for change in self._book.store.changes(job.row.id) if change.job_uid == job.row.uid]
        return full_record(job, self.home, changes, now_s=self._book.timeline.now(), policy=self._life.rules.size.name)

    async def explain(self, job_id: str) -> Record:
        job = self._job(job_id)
        self._life.engine.refresh()
        history = self._book.store.latest_events(job.row.id, limit=20)
        answer = explanation(job, self._life.engine, self._life.roster, room_taken(self._book))
        return {**answer, "history": [event_record(event) for event in history]}

    async def scale(self, job_id: str, *, minimum: int | None, maximum: int | None, workers: int | None) -> Record:
        job = self._unfinished(job_id)
        low, high = job.spec.workers_min, job.spec.workers_max
        if workers is not None:
            low = high = workers
        low, high = (low if minimum is None else minimum), (high if maximum is None else maximum)
        most = job.workload.workers_max
        if job.workload.contract is Contract.PARAMETER_SERVER and high > most:
            expected = f"at most {most}: TF_CONFIG lists as many workers, and does not change while the job lives"
            raise InvalidRequest(field=f"job {job.row.id}: workers.max", value=high, expected=expected)
        row = replace(job.row, bounds=(low, high), generation=job.row.generation + 1)
        job.spec = spec_of(job.workload, row)  # raises where the bounds make no sense
        self._book.set_job(job, bounds=row.bounds, generation=row.generation)
        self._book.event("Scaled", f"workers between {low} and {high} from now on", job=job.row.id)
        self._book.commit("scale")
        self._life.notice(Happening.PRIORITY_CHANGED)
        return self._record(job)

    async def suspend(self, job_id: str) -> Record:
        job = self._unfinished(job_id)
        if not job.row.suspended:
            values = transitions.suspended(job.row, job.spec, self._book.timeline.now())
            self._book.set_job(job, **values, assigned=(), suspended=True, warm=False)
            self._close_change(job, "the job was suspended")
            self._say_suspended(job)
            self._book.commit("suspend")
            self._life.mark(job)
            self._life.notice(Happening.JOB_SUSPENDED)
        return self._record(job)

    async def resume(self, job_id: str) -> Record:
        job = self._unfinished(job_id)
        if job.row.suspended:
            now_s = self._book.timeline.now()
            self._book.set_job(job, **transitions.resumed(job.row, now_s), suspended=False)
            message = "its owner resumed it"
            job_conditions.tell(self._book, job)
            self._book.event("Resumed", message, job=job.row.id)
            self._book.commit("resume")
            self._life.notice(Happening.JOB_RESUMED)
        return self._record(job)

    async def delete(self, job_id: str) -> Record:
        job = self._job(job_id)
        record = self._record(job)
        if not job.row.deleting:
            held = bool(job.row.assigned)
            self._close_change(job, "the job was deleted")
            values = holding(job.row, job.spec, (), self._book.timeline.now(), comes_back=False)
            self._book.set_job(job, **values, deleting=True)
            self._book.event("Deleted", "its owner deleted it", job=job.row.id)
            self._book.commit("delete")
            if job.live:
                self._life.mark(job)
            else:
                self._life.keeping.drop(job)
            self._life.notice(Happening.RUNNING_JOB_DELETED if held else Happening.WAITING_JOB_DELETED)
        return record

    async def logs(self, job_id: str, worker: str | None) -> list[LogFile]:
        """`worker`: a uid, an ordinal, or role-ordinal. None: of all processes, the newest last."""
        job = self._job(job_id)
        rows = sorted((process.row for process in job.processes.values()), key=lambda row: (row.created_s, row.rank))
        found = [
            LogFile(row.uid, self.home.mailbox(job.row.uid, row.uid) / "log", row.live)
            for row in rows
            if worker is None or worker in (row.uid, str(row.ordinal), f"{row.role}-{row.ordinal}")
        ]
        if not found and worker is not None:
            raise NotFound("worker", worker, hint="it has: " + ", ".join(row.uid for row in rows))
        return found

    # -- moves and nodes ----------------------------------------------------------------------------------------------

    async def migrate(self, job_id: str, *, worker: int | None, to: str | None) -> Record:
        job = self._unfinished(job_id)
        self._life.engine.refresh()
        change = asked_moves.ask(self._book, self._life.roster, job, worker=worker, to=to)
        self._book.event("MigrationRequested", change.message, job=job.row.id, data={"change": change.id})
        self._book.commit("migrate")
        self._life.notice(Happening.PRIORITY_CHANGED)
        return change_record(change)

    async def migrations(self, job_id: str | None = None) -> list[Record]:
        found = self._book.store.changes(None if job_id is None else JobId(_full(job_id)))
        return [change_record(change) for change in found if change.kind is ChangeKind.MIGRATION]

    async def nodes(self) -> list[Record]:
        self._life.engine.refresh()
        used, workers = room_taken(self._book), workers_by_node(self._book)
        measured = measured_by_node(self._book)
        limits = limits_text(self._life.limits)
        offered = self._life.roster.offered
        return [
            node_record(
                node,
                used=used.get(node.id, NOTHING),
                workers=workers.get(node.id, []),
                limits=[offered[node.id].limits, limits],
                schedulable=node.schedulable,
                virtual=offered[node.id].virtual,
                measured=measured.get(node.id),
            )
            for node in self._life.roster.cluster.nodes
        ]

    async def drain(self, node: str) -> Record:
        return await self._cordon(node, cordoned=True)

    async def uncordon(self, node: str) -> Record:
        return await self._cordon(node, cordoned=False)

    async def set_ready(self, node: str, *, ready: bool) -> Record:
        """A node is lost with all that is on it, or is back. No request of the API leads here."""
        row = self._life.roster.row(node)
        if row.ready != ready:
            now_s = self._book.timeline.now()
            flaps = self._life.roster.set_ready(self._book.store, row, ready=ready, now_s=now_s)
            reason, what = ("NodeReady", "is back") if ready else ("NodeLost", "is lost, with all that was on it")
            self._book.event(reason, f"node {node} {what}", node=NodeId(node), warning=not ready)
            if flaps:
                self._book.event("NodeFlapping", f"node {node}: {flaps}", node=NodeId(node), warning=True)
            if not ready:
                for job in self._book.jobs.values():
                    if lose_node(self._book, job, NodeId(node)):
                        self._life.mark(job)
            self._book.commit("node")
            self._life.notice(Happening.NODE_CHANGED)
        return await self._node(node)

    async def _cordon(self, node: str, *, cordoned: bool) -> Record:
        row = self._life.roster.row(node)
        if row.cordoned != cordoned:
            self._life.roster.set(self._book.store, replace(row, cordoned=cordoned))
            reason, what = ("NodeDrained", "is being emptied") if cordoned else ("NodeUncordoned", "may be used again")
            self._book.event(reason, f"node {node} {what}", node=NodeId(node))
            self._book.commit("node")
            self._life.notice(Happening.NODE_CHANGED)
        return await self._node(node)

    async def _node(self, node: str) -> Record:
        return next(record for record in await self.nodes() if record["name"] == node)

    # -- the whole ----------------------------------------------------------------------------------------------------

    async def events(self, job_id: str | None = None, *, after: int = 0, limit: int = 1000) -> list[Record]:
        wanted = None if job_id is None else JobId(_full(job_id))
        written = self._book.store.events(wanted, after=after, limit=limit)
        rest = self._book.unwritten_events(wanted, after=after) if self._life.storage.problem else []
        return [event_record(event) for event in [*written, *rest][:limit]]

    async def changed(self, *, after: int, timeout_s: float) -> int:
        """The number of the newest event once it is above `after`, or whatever it is when time is up."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._book.committed_event <= after:
                    await self._life.next_news()
        except TimeoutError:
            pass
        return self._book.committed_event

    async def policy(self) -> Record:
        rules = self._life.rules
        return {
            "policy": rules.size.name,
            "settings": dict(rules.policy_settings),
            "placement": rules.placement,
            "rateLimitSeconds": rules.rate_limit_s,
            "rebalance": list(rules.rebalancers),
            "rebalanceSettings": dict(rules.rebalance_settings),
        }

    async def set_policy(self, policy: str, settings: Mapping[str, str]) -> Record:
        """Among the settings may stand what belongs to no policy: `placement`, `rateLimitSeconds`, `rebalance` and
        `rebalanceSettings`. Rebalancers that are not mentioned stay as they are.
        """
        own = dict(settings)
        place, rate = own.pop("placement", None), own.pop("rateLimitSeconds", None)
        names, values = own.pop("rebalance", None), own.pop("rebalanceSettings", None)
        rules, loop = self._life.rules, self._life.loop
        if values is not None and names is None:
            names = ",".join(rules.rebalancers) or "none"
        if names is not None:
            rebalancers(names_in(names), settings_in(values or "", field="rebalanceSettings"))
        rules.use(policy, own, place)
        if names is not None:
            rules.use_rebalancers(names_in(names), settings_in(values or "", field="rebalanceSettings"))
        if rate is not None:
            rules.use_rate_limit(rate, None if loop is None else loop.pacer)
        self._book.event("PolicyChanged", f"jobs are shared out by {rules.size.name} from now on")
        self._book.commit("policy")
        self._life.notice(Happening.POLICY_CHANGED)
        return await self.policy()

    async def health(self) -> Record:
        life = self._life
        problem = life.storage.problem or ("" if life.loop is None else life.loop.problem)
        phases = Counter(job.row.phase.value for job in self._book.jobs.values())
        return {
            "ok": life.is_ready and not problem,
            "problem": problem,
            "version": life.config.version,
            "uptimeSeconds": self._book.timeline.now() - life.opened_s,
            "cycles": 0 if life.loop is None else life.loop.cycles,
            "jobs": {phase.value: phases.get(phase.value, 0) for phase in Phase},
            "limits": limits_text(life.limits),
            "monitor": life.watching.url,
        }

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _accepted(self, document: ParsedJob, cwd: str) -> LocalJob:
        workload = document.workload
        managed_by = workload.run_policy.managed_by
        if managed_by is not None and not managed_by.startswith(_OURS):
            expected = f"nothing, or a name that begins with {_OURS}: the controller that is named here runs the job"
            raise InvalidRequest(field=f"job {workload.id}: managedBy", value=managed_by, expected=expected)
        if not Path(cwd).is_absolute():
            raise InvalidRequest(field="cwd", value=cwd, expected="an absolute path")
        letters = self._life.config.letters
        job_id = JobId(workload.id + letters()) if workload.name.endswith("-") else workload.id
        submitted_s = self._life.next_arrival_s()
        suspended = workload.run_policy.suspend
        row = JobRow(
            uid=uuid.uuid4().hex,
            id=job_id,
            manifest=document.text,
            cwd=cwd,
            submitted_s=submitted_s,
            as_of_s=submitted_s,
            waiting_since_s=None if suspended else submitted_s,
            suspended=suspended,
            phase=Phase.SUSPENDED if suspended else Phase.WAITING,
        )
        workload = named(workload, row)
        judge_of(workload, self._book.judge_settings)  # refuses what cannot be meant, and so does the next
        require_watchable(workload)
        return LocalJob(row, workload, spec_of(workload, row))

    def _warnings(self, job: LocalJob) -> list[str]:
        if not needs_monitor(job.workload) or self._life.config.monitor_secret is not None:
            return []
        return ["its evaluations are not read: the engine was started with --no-monitor"]

    def _require_free(self, job_id: JobId, seen: set[JobId]) -> None:
        known = self._book.jobs.get(job_id)
        if job_id in seen:
            raise Conflict(f"job {job_id} stands twice in the manifest")
        if known is None:
            return
        if known.row.finished:
            state = known.row.phase.value.lower()
            raise Conflict(f"job {job_id} exists and has {state}: delete it first, or choose another name")
        raise Conflict(f"job {job_id} exists already")

    def _say_suspended(self, job: LocalJob) -> None:
        message = "its owner suspended it"
        self._book.set_job(job, reason="Suspended", message=message)
        job_conditions.tell(self._book, job)
        self._book.event("Suspended", message, job=job.row.id)

    def _close_change(self, job: LocalJob, message: str) -> None:
        if job.row.change is not None:
            changes.close(self._book, job, Stage.FAILED, message=message)

    def _record(self, job: LocalJob) -> Record:
        return job_record(job, now_s=self._book.timeline.now(), policy=self._life.rules.size.name)

    def _job(self, job_id: str) -> LocalJob:
        try:
            return self._book.jobs[JobId(_full(job_id))]
        except KeyError:
            raise NotFound("job", _full(job_id)) from None

    def _unfinished(self, job_id: str) -> LocalJob:
        job = self._job(job_id)
        if job.row.finished:
            raise Conflict(f"job {job.row.id} has {job.row.phase.value.lower()} already")
        if job.row.deleting:
            raise Conflict(f"job {job.row.id} is being deleted")
        return job


def _full(job_id: str) -> str:
    return job_id if "/" in job_id else f"default/{job_id}"
