"""What a training program finds when it starts, the same on one machine and in a cluster. Pure functions.

`environment_of` is the door; hosts, ports and directories are given by the engine that calls it.
"""

from sterna.engines.contracts.environment import ContractFiles, environment_of
from sterna.engines.contracts.executed_program import Launch, launch_of, pod_fields
from sterna.engines.contracts.members import Member, RankInWorld, addresses_of, place_in_world

__all__ = [
    "ContractFiles",
    "Launch",
    "Member",
    "RankInWorld",
    "addresses_of",
    "environment_of",
    "launch_of",
    "place_in_world",
    "pod_fields",
]
