"""Every request of a user, as commands ask it: the port of `interfaces/scheduler_port.py`, on a cluster.

    async with ClusterScheduler(api, namespace="research", read=..., parse=...) as scheduler:
        await scheduler.explain("research/mnist")

What is asked for is written and confirmed by the API server before a method returns; the operator follows.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import yaml

from sterna import __version__
from sterna.engines.kubernetes.apiserver.objects import Body, JobObject
from sterna.engines.kubernetes.apiserver.port import Api, Missing, PatchType, Refused, WriteConflict
from sterna.engines.kubernetes.console.configuration import PolicyConfig
from sterna.engines.kubernetes.console.explaining import absence, explanation
from sterna.engines.kubernetes.console.finding import Finder, FoundJob, Parse, Submitted
from sterna.engines.kubernetes.console.happened import events_of
from sterna.engines.kubernetes.console.migration_requests import Moves
from sterna.engines.kubernetes.console.news import News
from sterna.engines.kubernetes.console.node_room import Room, room_of, set_drained
from sterna.engines.kubernetes.console.printed import PodLog, logs_of
from sterna.engines.kubernetes.console.records import full_record, job_record
from sterna.engines.kubernetes.console.size_requests import operations, resized
from sterna.engines.kubernetes.console.submitting import Submitting
from sterna.engines.kubernetes.process.settings import NAMESPACE
from sterna.lifecycle.job_record import Record
from sterna.model.errors import Conflict, InvalidRequest, NotFound
from sterna.model.phases import Phase

_WRITES_MAX = 5  # attempts at one edit that conflicts with other writes
_HISTORY_SHOWN = 20

Read = Callable[[str], Sequence[Submitted]]  # of a manifest; raises InvalidRequest with all that is wrong with it


class ClusterScheduler:
    def __init__(
        self,
        api: Api,
        *,
        namespace: str,  # of whatever is named without one
        read: Read,
        parse: Parse,
        operator_namespace: str = NAMESPACE,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._read = read
        self._parse = parse
        self._operator_namespace = operator_namespace
        self._now = now
        self._finder = Finder(api, parse)
        self._policy = PolicyConfig(api, namespace=operator_namespace)
        self._moves = Moves(api, namespace=namespace)
        self._tasks = asyncio.TaskGroup()
        self._news = News(api, namespace=namespace, tasks=self._tasks)
        self._opened_s = now()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._news.stop()
        await self._tasks.__aexit__(None, None, None)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    async def submit(self, manifest: str, *, cwd: str, dry_run: bool = False) -> list[Record]:
        """All documents of the text or none. Programs run where their image says, so `cwd` is not used here."""
        documents = self._read(manifest)
        made = await Submitting(self._api, self._finder, namespace=self._namespace).submit(documents, dry_run=dry_run)
        policy = await self._policy.name()
        return [
            {**job_record(one.job, now_s=self._now(), policy=policy), "warnings": list(one.warnings)} for one in made
        ]

    async def jobs(self, *, namespace: str | None = None) -> list[Record]:
        found, policy = await asyncio.gather(self._finder.jobs(namespace), self._policy.name())
        return [job_record(job, now_s=self._now(), policy=policy) for job in found]

    async def job(self, job_id: str) -> Record:
        found, policy = await asyncio.gather(self._finder.job(self._full(job_id)), self._policy.name())
        pods = [found.seen(pod) for pod in await self._finder.pods(found)]
        manifest = yaml.safe_dump(found.document, sort_keys=False, allow_unicode=True)
        return full_record(found, pods, now_s=self._now(), policy=policy, manifest=manifest)

    async def explain(self, job_id: str) -> Record:
        job = await self._finder.job(self._full(job_id))
        pods, room, absent, history = await asyncio.gather(
            self._finder.pods(job),
            self._room(),
            absence(self._api, namespace=self._operator_namespace, now_s=self._now()),
            self.events(job.id),
        )
        seen = [job.seen(pod) for pod in pods]
        answer = explanation(job, seen, room, absent=absent)
        return {**answer, "history": history[-_HISTORY_SHOWN:]}

    async def scale(self, job_id: str, *, minimum: int | None, maximum: int | None, workers: int | None) -> Record:
        def steps(job: FoundJob) -> list[Body]:
            if job.workload is None:
                raise Conflict(f"job {job.id} cannot be scaled before its spec makes sense: {job.problem}")
            low, high = job.workload.workers_min, job.workload.workers_max
            if workers is not None:
                low = high = workers
            low, high = (low if minimum is None else minimum), (high if maximum is None else maximum)
            edits, _ = resized(job.document, job.workload, self._parse, low=low, high=high)
            version = job.object.metadata.resource_version
            return operations(job.document, edits, resource_version=version) if edits else []

        return await self._edit(job_id, steps, PatchType.JSON)

    async def suspend(self, job_id: str) -> Record:
        return await self._suspend(job_id, suspended=True)

    async def resume(self, job_id: str) -> Record:
        return await self._suspend(job_id, suspended=False)

    async def delete(self, job_id: str) -> Record:
        job = await self._finder.job(self._full(job_id))
        record = await self._record(job)
        try:
            await self._api.delete(job.resource, job.name, namespace=job.namespace, uid=job.object.metadata.uid)
        except (Missing, WriteConflict):
            raise NotFound("job", job.id) from None  # it was deleted meanwhile
        return record

    async def logs(self, job_id: str, worker: str | None) -> list[PodLog]:
        """`worker`: a pod, an ordinal, or role-ordinal. None: of all of them, the newest last."""
        job = await self._finder.job(self._full(job_id))
        return logs_of(self._api, job, await self._finder.pods(job), worker)

    # -- moves and nodes ----------------------------------------------------------------------------------------------

    async def migrate(self, job_id: str, *, worker: int | None, to: str | None) -> Record:
        return await self._moves.ask(await self._unfinished(job_id), worker=worker, to=to)

    async def migrations(self, job_id: str | None = None) -> list[Record]:
        if job_id is not None:
            job = await self._finder.job(self._full(job_id))
            return await self._moves.all([job], namespace=job.namespace, job_id=job.id)
        try:
            jobs = await self._finder.jobs(None)
        except Refused:
            jobs = await self._finder.jobs(self._namespace)
        return await self._moves.all(jobs, namespace=None, job_id=None)

    async def nodes(self) -> list[Record]:
        return (await room_of(self._api, namespace=self._namespace)).records()

    async def drain(self, node: str) -> Record:
        return await self._drain(node, drained=True)

    async def uncordon(self, node: str) -> Record:
        return await self._drain(node, drained=False)

    # -- the whole ----------------------------------------------------------------------------------------------------

    async def events(self, job_id: str | None = None, *, after: int = 0, limit: int = 1000) -> list[Record]:
        """Of one job, there or not; of all, those of the user's own namespace where others may not be seen."""
        full = None if job_id is None else self._full(job_id)
        if full is not None:
            found = await events_of(self._api, namespace=full.partition("/")[0], job_id=full, known=[full])
        else:
            try:
                found = await self._all_events(None)
            except Refused:
                found = await self._all_events(self._namespace)
        return [event for event in found if event["id"] > after][:limit]

    async def changed(self, *, after: int, timeout_s: float) -> int:
        """The number of the newest change once it is above `after`, or whatever it is when time is up."""
        return await self._news.after(after, timeout_s=timeout_s)

    async def policy(self) -> Record:
        return await self._policy.record()

    async def set_policy(self, policy: str, settings: Mapping[str, str]) -> Record:
        return await self._policy.set(policy, settings)

    async def health(self) -> Record:
        jobs, absent = await asyncio.gather(
            self.jobs(namespace=self._namespace),
            absence(self._api, namespace=self._operator_namespace, now_s=self._now()),
        )
        phases = Counter(job["phase"] for job in jobs)
        return {
            "ok": not absent,
            "problem": absent,
            "version": __version__,
            "uptimeSeconds": self._now() - self._opened_s,
            "cycles": None,
            "jobs": {phase.value: phases.get(phase.value, 0) for phase in Phase},
            "limits": "as the cluster enforces them",
            "monitor": None,  # there is one on every node, or none
        }

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _full(self, job_id: str) -> str:
        return job_id if "/" in job_id else f"{self._namespace}/{job_id}"

    async def _record(self, job: FoundJob) -> Record:
        return job_record(job, now_s=self._now(), policy=await self._policy.name())

    async def _unfinished(self, job_id: str) -> FoundJob:
        job = await self._finder.job(self._full(job_id))
        if job.standing.finished:
            raise Conflict(f"job {job.id} has {job.standing.phase.value.lower()} already")
        if job.object.terminating:
            raise Conflict(f"job {job.id} is being deleted")
        return job

    async def _suspend(self, job_id: str, *, suspended: bool) -> Record:
        def patch(job: FoundJob) -> Body:
            return {} if job.suspended == suspended else {"spec": {"runPolicy": {"suspend": suspended}}}

        return await self._edit(job_id, patch, PatchType.MERGE)

    async def _edit(self, job_id: str, edit: Callable[[FoundJob], Body | list[Body]], type_: PatchType) -> Record:
        """The job after an edit, which is made anew where another client wrote meanwhile. An empty one is not sent."""
        for _ in range(_WRITES_MAX):
            job = await self._unfinished(job_id)
            body = edit(job)
            if not body:
                return await self._record(job)
            try:
                found = await self._api.patch(
                    job.resource, job.name, body, namespace=job.namespace, type=type_, shape=JobObject
                )
            except Missing:
                raise NotFound("job", job.id) from None
            except WriteConflict:
                continue
            return await self._record(self._finder.read(job.resource, found))
        raise Conflict(f"job {self._full(job_id)} is being written by others all the time: try again")

    async def _drain(self, node: str, *, drained: bool) -> Record:
        await set_drained(self._api, node, drained=drained)
        found = next((record for record in await self.nodes() if record["name"] == node), None)
        if found is None:
            raise NotFound("node", node)
        return found

    async def _room(self) -> Room | None:
        try:
            return await room_of(self._api, namespace=self._namespace)
        except (Refused, InvalidRequest):
            return None

    async def _all_events(self, namespace: str | None) -> list[Record]:
        jobs = await self._finder.jobs(namespace)
        return await events_of(self._api, namespace=namespace, job_id=None, known=[job.id for job in jobs])
