"""From a worker's row to the process that the warden is asked for: environment, directory, limits, hooks.

A process on this machine stands for a container: it gets the environment that the engine was started in (so that
the programs and libraries found there are found by it, too), the interpreter that runs the engine first in its PATH,
what the manifest says, and the contract of its kind. The image plays no part.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sterna.engines.contracts import Launch as ContractLaunch
from sterna.engines.contracts import Member, addresses_of, environment_of, launch_of, pod_fields
from sterna.engines.local.launch.warden.values import Launch
from sterna.engines.local.store.rows import JobRow, WorkerRow
from sterna.engines.local.world.machine_nodes import OfferedNode, cpus_usable
from sterna.model.jobs import Role
from sterna.model.workload import Contract, Workload
from sterna.protocol import STERNA_VARIABLES, worker_environment

HOST = "127.0.0.1"
CONTRACT_DIR = "contract"  # in the job's directory
_MPI_DIR = "/etc/mpi"
_NOT_INHERITED = (*STERNA_VARIABLES, "STERNA_HOME", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def base_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """What every worker inherits."""
    env = {
        name: value
        for name, value in (os.environ if given is None else given).items()
        if name not in _NOT_INHERITED and not name.startswith(("PET_", "TF_CONFIG"))
    }
    beside = os.path.dirname(sys.executable)
    path = env.get("PATH", os.defpath)
    if beside not in path.split(os.pathsep):
        env["PATH"] = f"{beside}{os.pathsep}{path}"
    env["PYTHONUNBUFFERED"] = env.get("PYTHONUNBUFFERED", "1")  # its output is readable while it runs
    return env


def ports_needed(workload: Workload, workers: Sequence[int]) -> tuple[bool, int]:
    """Whether they are held for the job's whole life, rather than for one incarnation; and how many."""
    if workload.contract is Contract.PARAMETER_SERVER:
        servers = sum(template.replicas for template in workload.roles if template.role is Role.PS)
        return True, len(addresses_of(workload, workers)) + servers
    if workload.contract is Contract.DISCOVERY:
        return False, 0
    return False, len(addresses_of(workload, workers)) if workload.kind == "TFJob" else 1


def members_of(workload: Workload, workers: Sequence[int], ports: Sequence[int]) -> list[Member]:
    """All members with an address on this machine. Where one port is enough, it is the one that all meet at."""
    places = addresses_of(workload, workers)
    if len(ports) < len(places):
        return [Member(role, ordinal, HOST, ports[0] if ports else 0) for role, ordinal in places]
    spare = iter(ports[len(places) :])
    return [
        Member(role, ordinal, HOST, port, next(spare, None) if role is Role.PS else None)
        for (role, ordinal), port in zip(places, ports, strict=False)
    ]


class Directories:
    """Where the things of one worker are."""

    def __init__(self, *, job: Path, checkpoints: Path, mailbox: Path, wake: Path) -> None:
        self.checkpoints = checkpoints
        self.mailbox = mailbox
        self.wake = wake
        self.contract = job / CONTRACT_DIR
        self.log = mailbox / "log"


def contract_of(
    workload: Workload,
    job: JobRow,
    row: WorkerRow,
    members: Sequence[Member],
    directories: Directories,
    *,
    told: Mapping[str, str] | None = None,
) -> ContractLaunch:
    """What is executed, with its environment; hooks included. `told`: what else the engine has to say to it."""
    found = environment_of(
        workload, row.place, members, incarnation=row.incarnation, files_dir=str(directories.contract)
    )
    ours = worker_environment(
        job=job.id,
        worker=row.uid,
        rank=row.rank,
        world_size=row.world_size,
        incarnation=row.incarnation,
        checkpoint_dir=directories.checkpoints,
        mailbox=directories.mailbox,
        wake=directories.wake,
        standby=row.standby,
        gang=workload.contract not in (Contract.PARAMETER_SERVER, Contract.DISCOVERY),
    )
    env = dict(found.env)
    if workload.contract is Contract.TORCHRUN and "PET_RDZV_CONF" in env:
        env["PET_RDZV_CONF"] = _rendezvous(env["PET_RDZV_CONF"], is_host=row.rank == 0)
        # Agents that share their store tell its address in the first round only: later ones would never get it.
        env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    fields = pod_fields(workload, row.place, uid=row.uid, host_ip=HOST, pod_ip=HOST)
    return launch_of(
        workload.template(row.role).program,
        given={**env, **ours, **(told or {})},
        fields=fields,
        moved={_MPI_DIR: str(directories.contract)},
        where=f"job {workload.id}: {workload.template(row.role).word}",
    )


def contract_files(
    workload: Workload, row: WorkerRow, members: Sequence[Member], ready: set[tuple[Role, int]], directory: Path
) -> dict[str, str]:
    """Files beside the workers, which change as others come and go."""
    found = environment_of(
        workload, row.place, members, incarnation=row.incarnation, ready=ready, files_dir=str(directory)
    )
    return found.files


def cores_for(uid: str, cpu_milli: int, usable: Sequence[int]) -> tuple[int, ...] | None:
    """As many cores as a limit allows, where no quota can be set; another worker gets others. None: all of them."""
    count = -(-cpu_milli // 1000)
    if not cpu_milli or count >= len(usable):
        return None
    first = sum(uid.encode()) % len(usable)
    return tuple(sorted(usable[(first + number) % len(usable)] for number in range(count)))


def _own_cores(uid: str, cpu_milli: int, cores: Sequence[int]) -> tuple[int, ...] | None:
    """Those of its node, and of them no more than its own limit allows."""
    own = cores_for(uid, cpu_milli, cores)
    return own if own is not None or len(cores) == len(cpus_usable()) else tuple(cores)


def launch_from(
    contract: ContractLaunch,
    workload: Workload,
    job: JobRow,
    row: WorkerRow,
    directories: Directories,
    *,
    inherited: Mapping[str, str],
    real_gpus: bool,
    pinned: bool,
    offer: OfferedNode | None = None,
) -> Launch:
    """`pinned`: limits of CPU are kept by choosing cores, since nothing better is to be had. `offer`: its node."""
    template = workload.template(row.role)
    cores = cpus_usable() if offer is None or offer.cores is None else offer.cores
    shared_milli = None if offer is None or pinned else offer.cpu_milli
    env = {**inherited, **contract.env}
    if real_gpus:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(row.devices)  # none given: none seen
    return Launch(
        id=row.uid,
        argv=contract.argv,
        env=env,
        cwd=template.program.cwd or job.cwd,
        log_path=str(directories.log),
        memory_bytes=template.limit.memory_bytes or None,
        cpu_milli=template.limit.cpu_milli or None,
        cpus=_own_cores(row.uid, template.limit.cpu_milli, cores) if pinned else None,
        node=row.node if shared_milli is not None else "",
        node_cpu_milli=shared_milli,
    )


def _rendezvous(conf: str, *, is_host: bool) -> str:
    """One agent holds the store that all meet at: on one machine each of them would believe to be it.

    And those that leave are noticed soon: torchrun's own 15 s would be added to every shrink.
    """
    ours = {"is_host": "true" if is_host else "false", "keep_alive_interval": "2", "keep_alive_max_attempt": "3"}
    return ",".join(filter(None, [conf, *(f"{key}={value}" for key, value in ours.items() if f"{key}=" not in conf)]))
