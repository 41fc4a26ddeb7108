"""MPI and Horovod: the list of hosts as a file, and as a script that Horovod asks again and again.

Both hold the workers that are ready, no others: a launcher that is sent to a host that does not answer gives up.
"""

import shlex
from collections.abc import Mapping, Sequence

from sterna.engines.contracts.members import Member, of_role
from sterna.model.jobs import Role
from sterna.model.workload import Workload

HOSTFILE = "hostfile"
DISCOVER_HOSTS = "discover_hosts.sh"
FILES_DIR = "/etc/mpi"  # where operators of MPIJob have always put them, and commands in manifests look


def mpi_files(workload: Workload, members: Sequence[Member]) -> dict[str, str]:
    """For the launcher. `members` are those that are ready."""
    slots = _slots_by_host(workload, members)
    return {
        HOSTFILE: hostfile_text(slots, implementation=_implementation(workload)),
        DISCOVER_HOSTS: discover_hosts_text(slots),
    }


def hostfile_text(slots_by_host: Mapping[str, int], *, implementation: str = "OpenMPI") -> str:
    separator = " slots=" if implementation == "OpenMPI" else ":"  # Intel MPI and MPICH share Hydra's notation
    return "".join(f"{host}{separator}{slots}\n" for host, slots in slots_by_host.items())


def discover_hosts_text(slots_by_host: Mapping[str, int]) -> str:
    lines = (f"echo {shlex.quote(f'{host}:{slots}')}\n" for host, slots in slots_by_host.items())
    return "#!/bin/sh\n" + "".join(lines)


def mpi_environment(workload: Workload, role: Role, *, files_dir: str) -> dict[str, str]:
    env = {"K_MPI_JOB_ROLE": "launcher" if role is Role.LAUNCHER else "worker"}
    if "vodaEnvironment" in dict(workload.details):
        env["JOB_NAME"] = workload.name  # its examples name their checkpoints after it
    if role is not Role.LAUNCHER and not _launcher_works(workload):
        return env
    hostfile, slots = f"{files_dir}/{HOSTFILE}", str(workload.processes_per_worker)
    match _implementation(workload):
        case "Intel":
            env |= {
                "I_MPI_HYDRA_HOST_FILE": hostfile,
                "I_MPI_PERHOST": slots,
                "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
            }
        case "MPICH":
            env |= {"HYDRA_HOST_FILE": hostfile, "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10"}
        case _:
            env |= {
                "OMPI_MCA_orte_default_hostfile": hostfile,
                "OMPI_MCA_orte_set_default_slots": slots,
                "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
            }
    return env


def _slots_by_host(workload: Workload, members: Sequence[Member]) -> dict[str, int]:
    """In the order of the workers. On one machine several of them share a host, which must stand there once."""
    first = of_role(Role.LAUNCHER, members) if dict(workload.details).get("runLauncherAsWorker") == "true" else []
    slots: dict[str, int] = {}
    for found in (*first, *of_role(Role.WORKER, members)):
        slots[found.host] = slots.get(found.host, 0) + workload.processes_per_worker
    return slots


def _launcher_works(workload: Workload) -> bool:
    """A launcher without workers is the worker itself."""
    return all(template.role is Role.WORKER for template in workload.roles)


def _implementation(workload: Workload) -> str:
    return dict(workload.details).get("mpiImplementation", "OpenMPI")
