"""Workloads in a few words, and addresses for everybody in them."""

from collections.abc import Sequence
from typing import Any

from sterna.engines.contracts import Member, addresses_of
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.workload import Contract, Program, RoleTemplate, Workload

KINDS = {"TFJob": "kubeflow.org/v1", "PyTorchJob": "kubeflow.org/v1", "MPIJob": "kubeflow.org/v2beta1"}


def job(kind: str, contract: Contract, *fixed: tuple[Role, int], **fields: Any) -> Workload:
    """`job("TFJob", Contract.PARAMETER_SERVER, (Role.PS, 1), workers_max=4)`."""
    program = Program(argv=("python", "train.py"))
    roles = [RoleTemplate(role=role, replicas=replicas, program=program) for role, replicas in fixed]
    roles.append(RoleTemplate(role=Role.WORKER, replicas=1, program=program))
    fields = {"name": "job1", "api_version": KINDS.get(kind, "sterna.dev/v1alpha1"), **fields}
    return Workload(kind=kind, contract=contract, roles=tuple(roles), **fields)


def in_cluster(workload: Workload, workers: Sequence[int] = (0,)) -> list[Member]:
    """Everybody under the name of a service, on the port that the kind usually has."""
    return [
        Member(role, ordinal, f"{workload.name}-{workload.template(role).word}-{ordinal}.default.svc", 2222)
        for role, ordinal in addresses_of(workload, workers)
    ]


def on_one_machine(workload: Workload, workers: Sequence[int] = (0,)) -> list[Member]:
    """Everybody on the loopback, each on a port of its own."""
    return [
        Member(role, ordinal, "127.0.0.1", 40_000 + 2 * number)
        for number, (role, ordinal) in enumerate(addresses_of(workload, workers))
    ]


def worker(ordinal: int = 0, role: Role = Role.WORKER) -> Worker:
    return Worker(role, ordinal, NodeId("n1"))
