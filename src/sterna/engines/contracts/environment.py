"""What one worker finds in its environment, and the files it finds beside it, whatever kind its job is of."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sterna.engines.contracts.members import Member
from sterna.engines.contracts.mpi import FILES_DIR, mpi_environment, mpi_files
from sterna.engines.contracts.restart import gang_environment
from sterna.engines.contracts.tf_config import tf_config_environment
from sterna.engines.contracts.torchrun import elastic_environment
from sterna.model.jobs import Role, Worker
from sterna.model.workload import Contract, Workload


@dataclass(frozen=True, slots=True)
class ContractFiles:
    env: dict[str, str] = field(default_factory=dict)  # goes over what the manifest says under the same names
    files: dict[str, str] = field(default_factory=dict)  # name in `files_dir` and text; those ending in .sh are run


def environment_of(
    workload: Workload,
    worker: Worker,
    members: Sequence[Member],
    *,
    incarnation: int = 1,
    ready: Collection[tuple[Role, int]] | None = None,
    files_dir: str = FILES_DIR,
) -> ContractFiles:
    """Of `worker`, which is one of `members`: those that `addresses_of` names, of this incarnation.

    `ready` are those that work may be sent to, None: all. Only `files` depend on it: they are written again when it
    changes, while a running process keeps the `env` it was started with.
    """
    role, ordinal = worker.role, worker.ordinal
    match _style(workload):
        case Contract.PARAMETER_SERVER:
            return ContractFiles(tf_config_environment(workload, role, ordinal, members))
        case Contract.TORCHRUN:
            return ContractFiles(elastic_environment(workload, role, members, incarnation=incarnation))
        case Contract.DISCOVERY:
            there = [m for m in members if ready is None or (m.role, m.ordinal) in ready]
            return ContractFiles(mpi_environment(workload, role, files_dir=files_dir), mpi_files(workload, there))
        case Contract.RESTART:
            return ContractFiles(gang_environment(workload, role, ordinal, members))


def _style(workload: Workload) -> Contract:
    """Programs of a kind expect its environment even where the job is restarted at every size."""
    return {"TFJob": Contract.PARAMETER_SERVER, "MPIJob": Contract.DISCOVERY}.get(workload.kind, workload.contract)
