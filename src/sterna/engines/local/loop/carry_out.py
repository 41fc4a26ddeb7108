"""What the engine does to the world: processes through the warden, orders into mailboxes, the fence of checkpoints.

Each effect may be repeated. Nothing here decides: what is due is `effects_due.py`.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol, assert_never

from sterna.engines.contracts import Member
from sterna.engines.local.launch import worker_launch
from sterna.engines.local.launch.warden.requests import GRACE_S_MAX
from sterna.engines.local.launch.warden.values import Census, Hook, HookEnded, Launch, ProcessState
from sterna.engines.local.process.home import Home, written_aside
from sterna.engines.local.reconcile.effects_due import (
    PRE_STOP,
    Effect,
    ForgetEnd,
    LaunchProcess,
    RaiseFence,
    ReplaceTraining,
    RunHook,
    StopProcess,
    WriteOrder,
)
from sterna.engines.local.store.job_book import Book, LocalJob, LocalProcess
from sterna.engines.local.store.rows import WorkerRow
from sterna.engines.local.world.machine_nodes import OfferedNode
from sterna.model.errors import EngineUnavailable, InvalidRequest, NotFound, SternaError
from sterna.model.ids import NodeId
from sterna.model.jobs import Role
from sterna.protocol import Order, Orders, wake_worker, write_orders

_POST_START_S = 300.0  # a hook that has no deadline of its own
_RETRY_S = 1.0


class Warden(Protocol):
    """What is needed of the warden, which holds the processes."""

    async def start(self, launch: Launch) -> ProcessState: ...

    async def stop(self, process_id: str, *, grace_s: float) -> ProcessState: ...

    async def run_hook(self, process_id: str, hook: Hook) -> HookEnded: ...

    async def list_all(self) -> Census: ...

    async def forget(self, *process_ids: str) -> None: ...

    async def ports(self, owner_id: str, count: int) -> tuple[int, ...]: ...

    async def release_ports(self, *owner_ids: str) -> None: ...


EnvironmentOf = Callable[[LocalJob, WorkerRow], Awaitable[Mapping[str, str]]]  # what a worker is told besides


class Hands:
    def __init__(
        self,
        book: Book,
        home: Home,
        warden: Warden,
        *,
        wake: Path,
        real_gpus: bool,
        pinned: bool,
        on_dirty: Callable[[LocalJob], None],
        on_effect: Callable[[str], None] | None = None,
        inherited: Mapping[str, str] | None = None,
        offered: Mapping[NodeId, OfferedNode] | None = None,
        environment_of: EnvironmentOf | None = None,
    ) -> None:
        self._environment_of = environment_of or _nothing_more
        self._offered = offered or {}
        self._book = book
        self._home = home
        self._warden = warden
        self._wake = wake
        self._real_gpus = real_gpus
        self._pinned = pinned
        self._on_dirty = on_dirty
        self._on_effect = on_effect or (lambda _: None)
        self._inherited = dict(worker_launch.base_environment() if inherited is None else inherited)
        self._hooks: set[asyncio.Task[None]] = set()

    async def perform(self, job: LocalJob, effect: Effect) -> None:
        """Carry it out, and note what is known by having done so. OSErrors of ours are worth another try."""
        self._on_effect(f"before {type(effect).__name__}")
        try:
            await self._do(job, effect)
        except InvalidRequest:
            await self.release(job)  # it ends without an end that could be forgotten
            raise
        except OSError as error:
            raise EngineUnavailable(f"job {job.row.id}: {error}", retry_after_s=_RETRY_S) from error
        self._on_effect(f"after {type(effect).__name__}")

    async def release(self, job: LocalJob) -> None:
        """The job is gone: its ports are not needed any more."""
        owners = [f"{job.row.uid}.{number}" for number in range(job.row.incarnation_last + 1)]
        await self._warden.release_ports(job.row.uid, *owners)

    def stop_hooks(self) -> None:
        for task in self._hooks:
            task.cancel()

    async def _do(self, job: LocalJob, effect: Effect) -> None:
        match effect:
            case RaiseFence(incarnation):
                try:
                    await asyncio.to_thread(_raise_fence, self._home.checkpoints(job.row.uid), incarnation)
                except EngineUnavailable:  # full or read-only disk: no harm unless an older incarnation could save
                    if any(process.row.incarnation < incarnation for process in job.live):
                        raise
                job.fence = incarnation
            case WriteOrder(uid):
                self._write_order(job, job.processes[uid])
            case LaunchProcess(uid):
                await self._launch(job, job.processes[uid])
            case StopProcess(uid):
                await self._stop(job.processes[uid])
            case RunHook(uid, name):
                self._begin_hook(job, job.processes[uid], name)
            case ReplaceTraining(uid):
                _end_training(job.processes[uid])
            case ForgetEnd(uids):
                await self._forget(job, uids)
            case _:
                assert_never(effect)

    def _write_order(self, job: LocalJob, process: LocalProcess) -> None:
        row = process.row
        mailbox = self._made_mailbox(job, row)
        deadline_s = None if row.kill_s is None else self._book.timeline.mono_of(row.kill_s)
        orders = Orders(seq=row.order_seq, order=Order(row.order), reason=row.reason, deadline_mono_s=deadline_s)
        write_orders(mailbox, orders)
        process.order_written = row.order_seq
        wake_worker(mailbox)

    async def _launch(self, job: LocalJob, process: LocalProcess) -> None:
        row = process.row
        members = await self._members(job, row)
        directories = self._directories(job, row)
        self._made_mailbox(job, row)
        directories.checkpoints.mkdir(parents=True, exist_ok=True)
        self.write_contract_files(job, members=members)
        told = await self._environment_of(job, row)
        contract = worker_launch.contract_of(job.workload, job.row, row, members, directories, told=told)
        launch = worker_launch.launch_from(
            contract,
            job.workload,
            job.row,
            row,
            directories,
            inherited=self._inherited,
            real_gpus=self._real_gpus,
            pinned=self._pinned,
            offer=self._offered.get(row.node),
        )
        try:
            started = await self._warden.start(launch)
        except InvalidRequest as error:
            where = f"job {job.workload.id}: {job.workload.template(row.role).word}"
            field = error.field.removeprefix("launch.")
            raise InvalidRequest(field=f"{where}: {field}", value=error.value, expected=error.expected) from error
        process.told(started)
        for text in set(started.notes) - job.notes:
            job.notes.add(text)
            self._book.event("LimitNotInForce", text, job=job.row.id, warning=True, data={"worker": row.uid})

    async def _stop(self, process: LocalProcess) -> None:
        kill_s = process.row.kill_s or 0.0
        left_s = min(max(0.0, kill_s - self._book.timeline.now()), GRACE_S_MAX)
        try:
            process.told(await self._warden.stop(process.row.uid, grace_s=left_s))
        except NotFound:
            process.denied()
        process.stop_told_s = kill_s

    async def _forget(self, job: LocalJob, uids: tuple[str, ...]) -> None:
        """Their ends are in the store. Ports are let go first: once all is forgotten, nothing asks for that again."""
        if owners := _without_ports(job):
            await self._warden.release_ports(*owners)
        await self._warden.forget(*uids)
        for uid in uids:
            job.processes[uid].forgot()

    def _begin_hook(self, job: LocalJob, process: LocalProcess, name: str) -> None:
        """Beside everything else: a hook may take as long as the grace period."""
        job.hooks_begun.add((process.row.uid, name))
        task = asyncio.get_running_loop().create_task(self._run_hook(job, process, name))
        self._hooks.add(task)
        task.add_done_callback(self._hooks.discard)

    async def _run_hook(self, job: LocalJob, process: LocalProcess, name: str) -> None:
        row, problem = process.row, ""
        left_s = (row.kill_s or 0.0) - self._book.timeline.now() if name == PRE_STOP else _POST_START_S
        timeout_s = min(max(0.1, left_s), GRACE_S_MAX)
        try:
            members = await self._members(job, row)
            contract = worker_launch.contract_of(job.workload, job.row, row, members, self._directories(job, row))
            argv = contract.pre_stop if name == PRE_STOP else contract.post_start
            ended = await self._warden.run_hook(row.uid, Hook(name, argv, timeout_s))
            problem = "" if ended.succeeded else ended.message
        except SternaError as error:
            problem = str(error)
        if problem:
            self._book.event("HookFailed", f"{name} hook of {row.uid}: {problem}", job=job.row.id, warning=True)
        process.hooks_done.add(name)
        self._on_dirty(job)

    # -- what stands beside the processes -----------------------------------------------------------------------------

    def write_contract_files(self, job: LocalJob, *, members: list[Member] | None = None) -> None:
        """Lists of members, kept to those that run; written again when that changes."""
        rows = [process.row for process in job.live if process.row.wanted]
        if job.workload.kind != "MPIJob" or not rows:
            return
        running = {
            (p.row.role, p.row.ordinal) for p in job.live if p.row.wanted and p.state is not None and p.state.alive
        }
        ordinals = [row.ordinal for row in rows if row.role is Role.WORKER]
        all_members = members or worker_launch.members_of(job.workload, ordinals, ())
        directory = self._home.job(job.row.uid) / worker_launch.CONTRACT_DIR
        files = worker_launch.contract_files(job.workload, rows[0], all_members, running, directory)
        for name, text in files.items():
            if job.files.get(name) != text:
                directory.mkdir(parents=True, exist_ok=True)
                written_aside(directory / name, text, mode=0o755 if name.endswith(".sh") else 0o644)
                job.files[name] = text

    async def _members(self, job: LocalJob, row: WorkerRow) -> list[Member]:
        """All members of this worker's incarnation, with addresses that the warden holds for them."""
        workers = sorted(
            {
                process.row.ordinal
                for process in job.processes.values()
                if process.row.incarnation == row.incarnation and process.row.role is Role.WORKER
            }
        )
        for_life, count = worker_launch.ports_needed(job.workload, workers)
        if not count:
            return worker_launch.members_of(job.workload, workers, ())
        owner = job.row.uid if for_life else f"{job.row.uid}.{row.incarnation}"
        return worker_launch.members_of(job.workload, workers, await self._warden.ports(owner, count))

    def _directories(self, job: LocalJob, row: WorkerRow) -> worker_launch.Directories:
        uid = job.row.uid
        return worker_launch.Directories(
            job=self._home.job(uid),
            checkpoints=self._home.checkpoints(uid),
            mailbox=self._home.mailbox(uid, row.uid),
            wake=self._wake,
        )

    def _made_mailbox(self, job: LocalJob, row: WorkerRow) -> Path:
        mailbox = self._home.mailbox(job.row.uid, row.uid)
        os.makedirs(mailbox, mode=0o700, exist_ok=True)
        return mailbox


async def _nothing_more(job: LocalJob, row: WorkerRow) -> Mapping[str, str]:
    return {}


def _without_ports(job: LocalJob) -> list[str]:
    """The job's owners of ports that no live process belongs to: other incarnations, and all when it has ended."""
    left = {process.row.incarnation for process in job.live}
    over = {process.row.incarnation for process in job.processes.values()} - left
    if not job.row.finished:
        over.discard(job.row.incarnation)
    owners = [f"{job.row.uid}.{incarnation}" for incarnation in sorted(over)]
    return [job.row.uid, *owners] if job.row.finished and not left else owners


def _raise_fence(directory: Path, incarnation: int) -> None:
    from sterna.training.checkpoint import CheckpointProblem, raise_fence  # needed only where something is started

    directory.mkdir(parents=True, exist_ok=True)
    try:
        raise_fence(directory, incarnation)
    except CheckpointProblem as error:
        raise EngineUnavailable(str(error), retry_after_s=_RETRY_S) from error


def _end_training(process: LocalProcess) -> None:
    """End the process that trains below an agent; only if it is what its status says it is."""
    pid = process.status.pid if process.status is not None else 0
    process.replaced_pid = pid
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if f"STERNA_WORKER={process.row.uid}".encode() in environment:
            os.kill(pid, signal.SIGKILL)
    except OSError:
        pass  # it is gone already
