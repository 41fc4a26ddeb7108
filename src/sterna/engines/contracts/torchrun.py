"""torchrun's elastic agents: one for each worker, which meet again whenever one comes or goes.

RANK and WORLD_SIZE are not here: the agents agree on them and tell the processes they start.
"""

from collections.abc import Sequence

from sterna.engines.contracts.members import Member, leader
from sterna.engines.contracts.naming import worker_name
from sterna.lifecycle.gang_roles import TAKES_PART
from sterna.model.jobs import Role
from sterna.model.workload import Workload

# A peer that leaves breaks its neighbours' collectives, and the agent counts that as a failure: with torchrun's own
# default of 0 the first shrink would be the job's end.
MAX_RESTARTS = 100
# How long agents that are enough wait for more. torchrun's own 30 s would be added to every resize below the maximum.
LAST_CALL_S = 3


def elastic_environment(
    workload: Workload, role: Role, members: Sequence[Member], *, incarnation: int
) -> dict[str, str]:
    """Constant for the incarnation: agents that join later are given the same. Empty for roles beside the training."""
    if role not in TAKES_PART:
        return {}
    said = dict(workload.rendezvous)
    others = sum(template.replicas for template in workload.roles if template.role in (Role.MASTER, Role.CHIEF))
    env = {
        "PET_NNODES": f"{workload.workers_min + others}:{workload.workers_max + others}",
        "PET_NPROC_PER_NODE": str(workload.processes_per_worker),
        "PET_RDZV_BACKEND": said.get("rdzvBackend", "c10d"),
        "PET_RDZV_ENDPOINT": _endpoint(workload, members),
        "PET_RDZV_ID": said.get("rdzvId", f"{workload.namespace}-{workload.name}-{incarnation}"),
        "PET_MAX_RESTARTS": said.get("maxRestarts", str(MAX_RESTARTS)),
        "PET_RDZV_CONF": _configuration(said),
    }
    if said.get("standalone") == "true":
        env["PET_STANDALONE"] = "1"
    return env


def _endpoint(workload: Workload, members: Sequence[Member]) -> str:
    """A server of the owner's where the manifest names one; else one of ourselves, under whatever address it has."""
    said = dict(workload.rendezvous)
    host = said.get("rdzvHost")
    if host is None:
        first = leader(members)
        return f"{first.host}:{first.port}"
    for found in members:
        if host.split(".")[0] == worker_name(workload, found.role, found.ordinal):
            return f"{found.host}:{found.port}"
    return f"{host}:{said['rdzvPort']}" if "rdzvPort" in said else host


def _configuration(said: dict[str, str]) -> str:
    written = said.get("rdzvConf", "")
    if said.get("rdzvBackend", "c10d") != "c10d" or "last_call_timeout=" in written:
        return written
    return ",".join(filter(None, [written, f"last_call_timeout={LAST_CALL_S}"]))
