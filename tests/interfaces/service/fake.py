"""A scheduler in memory behind the API's port: it keeps the contract of the real one and runs nothing.

What takes the real one a moment happens at once here. Where a job's processes would write, tests put files.
"""

import asyncio
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from sterna.engines.local.api.log_reader import LogFile
from sterna.interfaces.scheduler_port import Record
from sterna.model.errors import Conflict, InvalidRequest, NotFound, SternaError
from sterna.policies.registry import policy as policy_named

GPUS = 2
KINDS = ("ElasticJob", "PyTorchJob", "TFJob", "MPIJob")


class FakeScheduler:
    def __init__(self, *, nodes: int = 2) -> None:
        self._jobs: dict[str, Record] = {}
        self._logs: dict[str, list[LogFile]] = {}
        self._nodes = {f"node-{number}": True for number in range(1, nodes + 1)}  # name -> takes work?
        self._migrations: list[Record] = []
        self._events: list[Record] = []
        self._policy: Record = {"policy": "elastic-fifo", "settings": {}, "placement": "packed", "rateLimitSeconds": 1}
        self._numbers = itertools.count(1)
        self._happened = asyncio.Condition()
        self.breaks: BaseException | None = None  # raised by `jobs`, once set

    async def submit(self, manifest: str, *, cwd: str, dry_run: bool = False) -> list[Record]:
        try:
            documents = [document for document in yaml.safe_load_all(manifest) if document is not None]
        except yaml.YAMLError as error:
            raise InvalidRequest(field="manifest", value="", expected=f"YAML ({error})") from None
        if not documents:
            raise InvalidRequest(field="manifest", value=None, expected="at least one job")
        jobs = [self._job_of(document) for document in documents]
        for job in jobs:
            if job["id"] in self._jobs:
                raise Conflict(f"there is a job {job['id']} already: delete it first")
        if not dry_run:
            for job in jobs:
                self._jobs[job["id"]] = job
                self._logs[job["id"]] = []
                await self._tell(job["id"], "Submitted", "it waits for its turn")
            self._arrange()
        return [dict(job) for job in jobs]

    async def jobs(self, *, namespace: str | None = None) -> list[Record]:
        if self.breaks is not None:
            raise self.breaks
        return [dict(job) for job in self._jobs.values() if namespace in (None, job["namespace"])]

    async def job(self, job_id: str) -> Record:
        return {**self._found(job_id), "workerDetails": self._workers(job_id), "history": [], "manifest": "kind: x\n"}

    async def nodes(self) -> list[Record]:
        return [self._node(name) for name in self._nodes]

    async def migrations(self, job_id: str | None = None) -> list[Record]:
        return [dict(move) for move in self._migrations if job_id in (None, move["job"])]

    async def events(self, job_id: str | None = None, *, after: int = 0, limit: int = 1000) -> list[Record]:
        found = [event for event in self._events if event["id"] > after and job_id in (None, event["job"])]
        return found[:limit]

    async def explain(self, job_id: str) -> Record:
        job = self._found(job_id)
        return {
            "job": job_id,
            "phase": job["phase"],
            "summary": f"it is {job['phase']}: {job['message']}",
            "because": {"why": job["reason"], "numbers": {"gpus_free": self._free()}},
            "wouldChange": ["more GPUs"],
            "history": await self.events(job_id),
            "decision": {},
        }

    async def scale(self, job_id: str, *, minimum: int | None, maximum: int | None, workers: int | None) -> Record:
        job = self._found(job_id)
        sizes = job["workers"]
        least = workers or minimum or sizes["min"]
        most = workers or maximum or sizes["max"]
        if not 1 <= least <= most:
            raise InvalidRequest(field="max", value=most, expected=f"at least {least}")
        job["workers"] = {**sizes, "min": least, "max": most}
        await self._tell(job_id, "Scaled", f"from {least} to {most} workers")
        self._arrange()
        return dict(job)

    async def migrate(self, job_id: str, *, worker: int | None, to: str | None) -> Record:
        job = self._found(job_id)
        if to is None or to not in self._nodes:
            raise NotFound("node", str(to)) if to else InvalidRequest(field="to", value=to, expected="a node")
        if job["phase"] != "Running" or to in job["nodes"]:
            raise Conflict(f"{job_id} cannot move to {to}: it is {job['phase']} on {job['nodes']}")
        move = {
            "id": len(self._migrations) + 1,
            "job": job_id,
            "worker": worker,
            "from": job["nodes"][0],
            "to": to,
            "phase": "Succeeded",
            "reason": "Requested",
            "requestedAt": _now(),
            "finishedAt": _now(),
            "warm": True,
            "estimatedCostSeconds": 0.2,
            "saveSeconds": 0.05,
            "loadSeconds": 0.04,
            "downtimeSeconds": 0.31,
            "step": 7,
            "stepsLost": 0,
            "message": "moved",
        }
        self._migrations.append(move)
        job["nodes"], job["migrations"] = [to], job["migrations"] + 1
        await self._tell(job_id, "Migrated", f"to {to}")
        return dict(move)

    async def drain(self, node: str) -> Record:
        return await self._mark(node, takes_work=False)

    async def uncordon(self, node: str) -> Record:
        return await self._mark(node, takes_work=True)

    async def suspend(self, job_id: str) -> Record:
        self._unfinished(job_id)["phase"] = "Suspended"
        await self._tell(job_id, "Suspended", "its owner suspended it")
        self._arrange()
        return dict(self._found(job_id))

    async def resume(self, job_id: str) -> Record:
        job = self._unfinished(job_id)
        if job["phase"] == "Suspended":
            job["phase"] = "Waiting"
            await self._tell(job_id, "Resumed", "it waits for its turn")
        self._arrange()
        return dict(self._found(job_id))

    async def delete(self, job_id: str) -> Record:
        job = self._found(job_id)
        del self._jobs[job_id], self._logs[job_id]
        await self._tell(job_id, "Deleted", "its owner deleted it")
        self._arrange()
        return dict(job)

    async def policy(self) -> Record:
        return dict(self._policy)

    async def set_policy(self, policy: str, settings: Mapping[str, str]) -> Record:
        own = dict(settings)
        place, rate = own.pop("placement", None), own.pop("rateLimitSeconds", None)
        moves, values = own.pop("rebalance", None), own.pop("rebalanceSettings", "")
        if moves is not None:
            settings_of = dict(line.split("=", 1) for line in values.splitlines())
            self._policy |= {"rebalance": [] if moves == "none" else moves.split(","), "rebalanceSettings": settings_of}
        chosen = policy_named(policy, own)
        self._policy |= {"policy": chosen.name, "settings": own, "placement": place or chosen.placement}
        if rate is not None:
            self._policy["rateLimitSeconds"] = float(rate)
        await self._tell(None, "PolicyChanged", f"to {policy}")
        return dict(self._policy)

    async def logs(self, job_id: str, worker: str | None) -> list[LogFile]:
        self._found(job_id)
        files = self._logs[job_id]
        if worker is None:
            return list(files)
        chosen = [file for file in files if file.worker == worker or file.worker.split("-")[-2] == worker]
        if not chosen:
            raise NotFound("worker", worker)
        return chosen

    async def changed(self, *, after: int, timeout_s: float) -> int:
        try:
            async with asyncio.timeout(timeout_s), self._happened:
                await self._happened.wait_for(lambda: len(self._events) > after)
        except TimeoutError:
            pass
        return len(self._events)

    async def health(self) -> Record:
        counts: dict[str, int] = {}
        for job in self._jobs.values():
            counts[job["phase"]] = counts.get(job["phase"], 0) + 1
        return {"ok": True, "version": "0", "uptimeSeconds": 1.0, "jobs": counts, "limits": "memory: not enforced"}

    # what tests make happen

    async def finish(self, job_id: str, phase: str = "Succeeded", message: str = "done") -> None:
        self._jobs[job_id] |= {"phase": phase, "reason": phase, "message": message, "finishedAt": _now(), "nodes": []}
        self._jobs[job_id]["workers"] = {**self._jobs[job_id]["workers"], "current": 0}
        self._logs[job_id] = [file._replace(live=False) for file in self._logs[job_id]]
        await self._tell(job_id, phase, message)

    def wrote(self, job_id: str, worker: str, path: Path, *, live: bool = True) -> None:
        self._logs[job_id] = [file for file in self._logs[job_id] if file.path != path]
        self._logs[job_id].append(LogFile(worker, path, live))

    def change(self, job_id: str, **values: Any) -> None:
        self._jobs[job_id] |= values

    # helpers

    def _job_of(self, document: Any) -> Record:
        if not isinstance(document, dict) or document.get("kind") not in KINDS:
            kind = document.get("kind") if isinstance(document, dict) else document
            raise InvalidRequest(field="kind", value=kind, expected="one of: " + ", ".join(KINDS))
        metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
        name = metadata.get("name")
        if name is None and metadata.get("generateName"):
            name = f"{metadata['generateName']}{next(self._numbers):05}"
        if not isinstance(name, str):
            raise InvalidRequest(field="metadata.name", value=name, expected="a name")
        workers = spec.get("workers") or {"min": 1, "max": 1}
        for bound in ("min", "max"):
            if type(workers.get(bound)) is not int or workers[bound] < 1:
                field = f"spec.workers.{bound}"
                raise InvalidRequest(field=field, value=workers.get(bound), expected="a whole number of 1 or more")
        namespace = metadata.get("namespace", "default")
        return {
            "name": name,
            "namespace": namespace,
            "id": f"{namespace}/{name}",
            "uid": f"{name}-u1",
            "kind": document["kind"],
            "labels": dict(metadata.get("labels") or {}),
            "phase": "Waiting",
            "reason": "NoRoom",
            "message": "jobs ahead take the room",
            "workers": {"current": 0, "min": workers["min"], "max": workers["max"], "step": 1},
            "gpus": 0,
            "nodes": [],
            "policy": self._policy["policy"],
            "priority": 0,
            "submittedAt": _now(),
            "startedAt": None,
            "finishedAt": None,
            "waitingSeconds": 3.4,
            "runningSeconds": 3723.0,
            "totalSeconds": 3726.4,
            "progress": 0.42,
            "step": 7,
            "epoch": 1,
            "metrics": {"loss": 0.25},
            "restarts": 0,
            "resizes": 0,
            "migrations": 0,
            "stepsLost": 0,
            "incarnation": 1,
            "remainingSeconds": 12.0,
            "checkpoint": None,
            "conditions": [{"type": "Created", "status": "True", "reason": "Submitted", "message": "it is known"}],
        }

    def _arrange(self) -> None:
        """First come, first served, on whole nodes' worth of GPUs."""
        for job in self._jobs.values():
            if job["phase"] in ("Waiting", "Running"):
                job |= {"phase": "Waiting", "nodes": [], "gpus": 0, "workers": {**job["workers"], "current": 0}}
            elif job["phase"] == "Suspended":
                job |= {"nodes": [], "gpus": 0, "workers": {**job["workers"], "current": 0}}
        for job in self._jobs.values():
            size = min(job["workers"]["max"], self._free())
            if job["phase"] == "Waiting" and size >= job["workers"]["min"]:
                sizes = {**job["workers"], "current": size}
                free = next(name for name, takes in self._nodes.items() if takes)
                job |= {"phase": "Running", "reason": "NextInOrder", "message": "", "gpus": size, "nodes": [free]}
                job |= {"workers": sizes, "startedAt": job["startedAt"] or _now()}

    def _free(self) -> int:
        taken = sum(job["workers"]["current"] for job in self._jobs.values())
        return GPUS * sum(self._nodes.values()) - int(taken)

    def _found(self, job_id: str) -> Record:
        if job_id not in self._jobs:
            raise NotFound("job", job_id)
        return self._jobs[job_id]

    def _unfinished(self, job_id: str) -> Record:
        job = self._found(job_id)
        if job["phase"] in ("Succeeded", "Failed"):
            raise Conflict(f"{job_id} has {job['phase'].lower()}")
        return job

    async def _mark(self, node: str, *, takes_work: bool) -> Record:
        if node not in self._nodes:
            raise NotFound("node", node)
        self._nodes[node] = takes_work
        await self._tell(None, "NodeReady" if takes_work else "NodeDrained", node, node=node)
        self._arrange()
        return self._node(node)

    def _node(self, name: str) -> Record:
        held = [job for job in self._jobs.values() if name in job["nodes"]]
        used = sum(job["workers"]["current"] for job in held)
        return {
            "name": name,
            "labels": {},
            "ready": True,
            "schedulable": self._nodes[name],
            "virtual": True,
            "cpuMilli": 2000,
            "memoryBytes": 1 << 30,
            "gpus": GPUS,
            "limits": "GPUs are names only",
            "used": {"cpuMilli": 0, "memoryBytes": 0, "gpus": used},
            "workers": [f"{job['id']}/worker-{i}" for job in held for i in range(job["workers"]["current"])],
        }

    def _workers(self, job_id: str) -> list[Record]:
        job = self._jobs[job_id]
        return [
            {
                "name": f"{job['name']}-worker-{i}-abcde",
                "role": "worker",
                "ordinal": i,
                "rank": i,
                "node": job["nodes"][0],
                "devices": [],
                "pid": 100 + i,
                "phase": "training",
                "standby": False,
                "startedAt": _now(),
                "exitCode": None,
                "log": "log",
            }
            for i in range(job["workers"]["current"])
        ]

    async def _tell(self, job_id: str | None, reason: str, message: str, *, node: str | None = None) -> None:
        event = {"id": len(self._events) + 1, "at": _now(), "job": job_id, "node": node, "type": "Normal"}
        self._events.append({**event, "reason": reason, "message": message, "data": {}})
        async with self._happened:
            self._happened.notify_all()


class Broken(SternaError):
    """An error of ours that nobody expects."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
