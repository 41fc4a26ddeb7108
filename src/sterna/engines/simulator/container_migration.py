"""The five experiments of container-migration: three jobs at a time around parameter servers, piled up or balanced.

What is published: workers, preferred nodes, requests, limits and steps (`SCENARIOS`), and the cluster: three nodes of
four CPUs and 16 GiB. How long a step takes is not, nor what a parameter server uses: both are free here. Rows only.
"""

import math
from typing import NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.trace import EvaluationCurve, TraceRow

GIB, MIB = 1 << 30, 1 << 20
NODES = 3
CPUS_PER_NODE = 4
MEMORY_GIB_PER_NODE = 16
STEP_S = 0.3  # of one worker that has four CPUs to itself
SERVER_CPU_MILLI = 250  # what a parameter server uses, the chief beside it included
LIMIT = (4000, 8 * GIB)  # of every container
EVALUATED = EvaluationCurve(0.1, 0.97, round(math.log(10) / 150, 6))  # of a small CNN on MNIST, by worker-seconds


class Member(NamedTuple):
    workers: int
    node: int  # that it prefers, from 1
    cpu_milli: int = 250  # of every container
    memory_bytes: int = 500 * MIB
    steps: int = 1000


SCENARIOS: dict[str, tuple[Member, Member, Member]] = {
    "a": (Member(1, 1), Member(1, 1), Member(1, 1)),  # all piled up
    "b": (
        Member(2, 1, 500, GIB, 500),
        Member(1, 1, 500, GIB, 500),
        Member(1, 2, 1000, 2 * GIB, 500),
    ),
    "c": (Member(1, 1), Member(1, 2), Member(1, 3)),  # balanced
    "d": (Member(3, 1), Member(3, 1), Member(3, 1)),
    "e": (Member(3, 1), Member(3, 2), Member(3, 3)),
}


def container_migration_jobs(letter: str) -> tuple[TraceRow, ...]:
    """The three jobs of scenario a, b, c, d or e, submitted together."""
    return tuple(_row(number, member) for number, member in enumerate(SCENARIOS[letter]))


def _row(number: int, member: Member) -> TraceRow:
    cpu_limit_milli, memory_limit_bytes = LIMIT
    return TraceRow(
        id=JobId(f"job-{number:06}"),
        line=0,
        submitted_s=0.0,
        workers=member.workers,
        workers_min=member.workers,
        workers_max=member.workers,
        gpu_milli=0,
        cpu_milli=member.cpu_milli,
        memory_bytes=member.memory_bytes,
        duration_s=member.steps * STEP_S / member.workers,  # each step is taken by the first free worker
        serial_fraction=0.0,
        category="mnist-cnn",
        name=f"job{number + 1}",
        servers=1,
        cpu_limit_milli=cpu_limit_milli,
        memory_limit_bytes=memory_limit_bytes,
        cpu_demand_milli=cpu_limit_milli,
        server_demand_milli=SERVER_CPU_MILLI,
        node=NodeId(f"node-{member.node - 1:03}"),
        evaluation=EVALUATED,
    )
