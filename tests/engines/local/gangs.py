"""Builders for one look at a job: `workload`, `process`, `gang`. Times are seconds since the job was submitted."""

from dataclasses import replace
from typing import Any

from sterna.engines.local.reconcile.gang import Gang, Process
from sterna.engines.local.store.rows import Exit, ExitKind, JobRow, WorkerRow, WorkerState
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.workload import Contract, Program, RestartPolicy, RoleTemplate, RunPolicy, Success, Workload
from sterna.protocol import Status
from sterna.protocol import WorkerPhase as Said

GRACE_S = 30.0


def workload(
    contract: Contract = Contract.RESTART,
    *,
    roles: tuple[Role, ...] = (),
    restarts: RestartPolicy = RestartPolicy.ON_FAILURE,
    success: Success = Success.LEADER,
    policy: RunPolicy = RunPolicy(),  # noqa: B008  (a value)
    pre_stop: tuple[str, ...] = (),
    post_start: tuple[str, ...] = (),
    workers: tuple[int, int] = (1, 4),
    kind: str = "ElasticJob",
) -> Workload:
    program = Program(argv=("train",), grace_s=GRACE_S, pre_stop=pre_stop, post_start=post_start)
    templates = tuple(
        RoleTemplate(role=role, replicas=1, program=program, request=Resources(gpu_milli=1000), restart_policy=restarts)
        for role in (*roles, Role.WORKER)
    )
    return Workload(
        name="a",
        api_version="sterna.dev/v1alpha1",
        kind=kind,
        roles=templates,
        contract=contract,
        success=success,
        run_policy=policy,
        workers_min=workers[0],
        workers_max=workers[1],
    )


def place(ordinal: int, node: str = "n1", role: Role = Role.WORKER) -> Worker:
    return Worker(role, ordinal, NodeId(node), (DeviceId(str(ordinal)),))


def status(phase: Said = Said.TRAINING, **values: Any) -> Status:
    return Status(pid=1, phase=phase, **values)


def process(
    ordinal: int,
    node: str = "n1",
    *,
    role: Role = Role.WORKER,
    inc: int = 1,
    state: WorkerState = WorkerState.RUNNING,
    runs: bool | None = None,
    said: Said | None = None,
    ended: bool = False,
    end: ExitKind | None = None,
    code: int | None = None,
    message: str = "",
    committed_s: float | None = None,
    hook_done: bool = True,
    rank: int | None = None,
    ack: int = 0,
    order_written: int | None = None,
    stop_told_s: float | None = None,
    known: bool | None = None,
    **row: Any,
) -> Process:
    """A process that runs, unless told otherwise. `end` makes it one that has ended."""
    if end is not None:
        state = WorkerState.EXITED
        row["exit"] = Exit(end, 0.0, code, None, False, message)
    alive = state in (WorkerState.RUNNING, WorkerState.LEAVING) if runs is None else runs
    row.setdefault("started_s", 1.0 if (alive and state is not WorkerState.PLANNED) or end is not None else None)
    if state is WorkerState.LEAVING:
        row.setdefault("notice_s", 0.0)
        row.setdefault("kill_s", row["notice_s"] + GRACE_S)
        row.setdefault("order_seq", 1)
    seat = place(ordinal, node, role)
    worker = WorkerRow(
        uid=row.pop("uid", f"a-{role}-{ordinal}-{inc}"),
        job_uid="u",
        role=role,
        ordinal=ordinal,
        rank=ordinal if rank is None else rank,
        world_size=4,
        node=seat.node,
        devices=seat.devices,
        incarnation=inc,
        standby=row.pop("standby", False),
        state=state,
        created_s=row.pop("created_s", 0.0),
        **row,
    )
    return Process(
        row=worker,
        known=(alive or ended) if known is None else known,
        runs=alive and not ended,
        ended=ended,
        status=None if said is None else status(said, ack=ack),
        committed_s=committed_s,
        hook_done=hook_done,
        order_written=worker.order_seq if order_written is None else order_written,
        stop_told_s=stop_told_s,
    )


def gang(
    *processes: Process,
    of: Workload | None = None,
    holds: tuple[Worker, ...] = (),
    now_s: float = 0.0,
    closing: bool = False,
    **job: Any,
) -> Gang:
    """A job that trains in incarnation 1 and is to hold `holds`."""
    row = JobRow(uid="u", id=JobId("default/a"), manifest="", cwd="/", submitted_s=0.0, phase=Phase.RUNNING)
    job.setdefault("incarnation", 1)
    job.setdefault("incarnation_last", max([job["incarnation"], *(p.row.incarnation for p in processes)]))
    row = replace(row, assigned=holds, **job)
    return Gang(job=row, workload=of or workload(), processes=processes, now_s=now_s, closing=closing, warm_s=60.0)
