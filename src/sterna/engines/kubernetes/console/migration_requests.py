"""Moves that users ask for: each is a Migration object, which the operator takes up and answers in its status.

Impossible requests are refused at once. Moves that the scheduler made by itself are in the history of their job.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.objects import Body, MigrationObject, NodeObject
from sterna.engines.kubernetes.apiserver.port import MIGRATIONS, NODES, Api, Missing, Refused
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.console.finding import NOT_INSTALLED, FoundJob
from sterna.engines.kubernetes.console.records import change_records
from sterna.engines.shared_records import moment
from sterna.lifecycle.change_record import ChangeFacts, change_record
from sterna.lifecycle.job_record import Record, nodes_of
from sterna.model.errors import Conflict, EngineRefused, InvalidRequest, NotFound
from sterna.model.jobs import Role, Worker
from sterna.model.migrations import MIGRATION_ENDED, MigrationPhase

_ANSWERED_WITHIN_S = 1.5  # if the operator answers at once, the user need not ask again
_LOOK_EVERY_S = 0.2
_ENDED = frozenset(map(str, MIGRATION_ENDED))


class Moves:
    def __init__(self, api: Api, *, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def ask(self, job: FoundJob, *, worker: int | None, to: str | None) -> Record:
        """The request as it stands after a moment. `Conflict` tells why it cannot be met."""
        await self._require_possible(job, worker, to)
        pending = await self._pending(job, worker, to)
        if pending is not None:
            return self._record(pending, [job])
        spec: Body = {"job": job.name, "kind": job.resource.kind}
        spec |= {key: value for key, value in (("worker", worker), ("to", to)) if value is not None}
        body = {"metadata": {"generateName": f"{job.name}-", "namespace": job.namespace}, "spec": spec}
        try:
            made = await self._api.create(MIGRATIONS, body, namespace=job.namespace, shape=MigrationObject)
        except Missing:
            raise EngineRefused(NOT_INSTALLED) from None
        return self._record(await self._answered(made), [job])

    async def all(self, jobs: Iterable[FoundJob], *, namespace: str | None, job_id: str | None) -> list[Record]:
        """Those asked for and those made unasked, the oldest first."""
        jobs = list(jobs)
        found = await self._listed(namespace)
        asked = [self._record(one, jobs) for one in found]
        known = {"/".join(one.key) for one in found}  # as a job remembers which request it follows
        changes = [change for job in jobs for change in change_records(job)]
        unasked = [change for change in changes if change["kind"] == "migration" and change["id"] not in known]
        moves = [move for move in (*asked, *unasked) if job_id in (None, move["job"])]
        return sorted(moves, key=lambda move: (move["requestedAt"] or "", str(move["id"])))

    async def _require_possible(self, job: FoundJob, worker: int | None, to: str | None) -> None:
        if to is not None:
            try:
                await self._api.get(NODES, to, shape=NodeObject)
            except Missing:
                raise NotFound("node", to) from None
            except Refused:
                pass  # a user who may not see nodes may still name one
        assigned = job.standing.assigned
        if not assigned:
            raise Conflict(f"job {job.id} holds no workers: there is nothing to move")
        moving = [found for found in assigned if worker is None or found[:2] == (Role.WORKER, worker)]
        if not moving:
            ordinals = ", ".join(str(found.ordinal) for found in assigned if found.role is Role.WORKER)
            raise InvalidRequest(field="worker", value=worker, expected=f"one of the job's workers: {ordinals}")
        if to is not None and all(found.node == to for found in moving):
            raise Conflict(f"job {job.id} is on {to} already")

    async def _pending(self, job: FoundJob, worker: int | None, to: str | None) -> MigrationObject | None:
        """The same request, or one that leaves the node to the scheduler, that is not answered yet."""
        for found in await self._listed(job.namespace):
            spec, status = _part(found.spec), _part(found.status)
            if spec.get("job") != job.name or spec.get("kind") not in (None, job.resource.kind):
                continue
            same = spec.get("worker") == worker and (to is None or spec.get("to") == to)
            if same and status.get("phase") not in _ENDED and not found.terminating:
                return found
        return None

    async def _answered(self, made: MigrationObject) -> MigrationObject:
        clock = asyncio.get_running_loop()
        until_s = clock.time() + _ANSWERED_WITHIN_S
        while _part(made.status).get("phase") in (None, "", MigrationPhase.PENDING) and clock.time() < until_s:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                made = await self._api.get(
                    MIGRATIONS, made.metadata.name, namespace=made.metadata.namespace, shape=MigrationObject
                )
            except (Missing, Refused):
                break
        return made

    async def _listed(self, namespace: str | None) -> list[MigrationObject]:
        """None: of all namespaces, or of the user's own where that is refused."""
        try:
            return (await self._api.listing(MIGRATIONS, namespace=namespace, shape=MigrationObject)).items
        except Missing:
            return []
        except Refused:
            if namespace is not None:
                raise
            return await self._listed(self._namespace)

    def _record(self, found: MigrationObject, jobs: Iterable[FoundJob]) -> Record:
        spec, status, meta = _part(found.spec), _part(found.status), found.metadata
        job_id = f"{meta.namespace}/{spec['job']}" if spec.get("job") else ""
        job = next((job for job in jobs if job.id == job_id), None)
        held: tuple[Worker, ...] = () if job is None else job.standing.assigned
        worker = status.get("worker", spec.get("worker"))
        here = ",".join(nodes_of(found for found in held if worker is None or found[:2] == (Role.WORKER, worker)))
        began_s = moment_s(status.get("startedAt"))
        facts = ChangeFacts(
            id=meta.name if meta.namespace == self._namespace else f"{meta.namespace}/{meta.name}",
            job_id=job_id,
            kind="migration",
            worker=worker,
            asked_from=status.get("from") or spec.get("node") or here,
            asked_to=status.get("to") or spec.get("to") or "",
            phase=status.get("phase") or str(MigrationPhase.PENDING),
            reason=status.get("reason") or "Requested",
            message=status.get("message") or spec.get("reason") or "",
            requested=True,
            requested_s=began_s or moment_s(meta.creation_timestamp),
            finished_s=moment_s(status.get("finishedAt")),
            downtime_s=status.get("downtimeSeconds"),
            step=status.get("committedStep"),
        )
        return change_record(facts, moment=moment)


def _part(raw: msgspec.Raw) -> dict[str, Any]:
    found = msgspec.json.decode(raw) if bytes(raw) else None
    return found if isinstance(found, dict) else {}
