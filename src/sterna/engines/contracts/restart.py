"""What a worker of a gang finds when the whole gang is started anew at every size: its rank and where rank 0 is.

`STERNA_*` comes from the engine. The names here are those that `torch.distributed` and most launchers read.
"""

from collections.abc import Sequence

from sterna.engines.contracts.members import Member, leader, place_in_world
from sterna.model.jobs import Role
from sterna.model.workload import Workload


def gang_environment(workload: Workload, role: Role, ordinal: int, members: Sequence[Member]) -> dict[str, str]:
    """Empty for roles that stand beside the training. With several processes a worker, RANK is the worker's."""
    place = place_in_world(role, ordinal, members)
    if place is None:
        return {}
    first = leader(members)
    return {
        "MASTER_ADDR": first.host,
        "MASTER_PORT": str(first.port),
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.size * workload.processes_per_worker),
        # the same for a program that is started through torchrun, which reads its options from PET_*
        "PET_MASTER_ADDR": first.host,
        "PET_MASTER_PORT": str(first.port),
        "PET_NNODES": str(place.size),
        "PET_NODE_RANK": str(place.rank),
        "PET_NPROC_PER_NODE": str(workload.processes_per_worker),
    }
