"""PyTorchJob. With `elasticPolicy` torchrun's agents meet again at every change; without it all start anew.

A master that has no workers is the worker. Beside workers it is a fixed role and rank 0.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from sterna.model.jobs import Role
from sterna.model.resources import Resources
from sterna.model.workload import Contract, RestartPolicy, Success, Workload
from sterna.wire.fields import Count, WholeNumber
from sterna.wire.manifests.assembling import Own, contract_of, run_policy_of, workload_of
from sterna.wire.manifests.findings import Findings
from sterna.wire.manifests.job_shapes import FlatRunPolicy, JobShape, Replica, RunPolicyBody
from sterna.wire.manifests.pods import Port, Text
from sterna.wire.manifests.roles import Part, named_port, part_of, template_of
from sterna.wire.manifests.shapes import Shape
from sterna.wire.manifests.sizes import bounds_of, said

CONTAINER, PORT = "pytorch", "pytorchjob-port"
REPLICAS = ("spec", "pytorchReplicaSpecs")
PROCESSES_MAX = 1024


def _processes(value: Any) -> int | str:
    """A number, as a number or as text, or one of torchrun's words."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 6 else value
    if value not in ("auto", "gpu", "cpu") and (type(number) is not int or not 1 <= number <= PROCESSES_MAX):
        raise PydanticCustomError("processes", '1 to 1024, "auto", "gpu" or "cpu"')
    checked: int | str = number
    return checked


_PROCESSES_SCHEMA = {
    "x-kubernetes-int-or-string": True,
    "minimum": 1,
    "maximum": PROCESSES_MAX,
    "pattern": "^(auto|gpu|cpu|0*[1-9][0-9]{0,3})$",
}
Processes = Annotated[int | str, PlainValidator(_processes), WithJsonSchema(_PROCESSES_SCHEMA)]


class PyTorchReplicas(Shape):
    any_case = True

    master: Replica | None = Field(default=None, alias="Master")
    worker: Replica | None = Field(default=None, alias="Worker")


class Setting(Shape):
    key: Text = ""
    value: Text = ""


class Backend(StrEnum):
    C10D = "c10d"
    ETCD = "etcd"
    ETCD_V2 = "etcd-v2"


class ElasticPolicy(Shape):
    min_replicas: Count | None = None
    max_replicas: Count | None = None
    rdzv_backend: Annotated[Backend, Field(strict=False)] | None = None
    rdzv_port: Port | None = None
    rdzv_host: Text | None = None
    rdzv_id: Text | None = None
    rdzv_conf: list[Setting] = Field(default_factory=list)
    standalone: bool = False
    n_proc_per_node: Processes | None = None
    max_restarts: WholeNumber | None = None
    metrics: list[Any] = Field(default_factory=list)


class PyTorchJobSpec(FlatRunPolicy):
    pytorch_replica_specs: PyTorchReplicas = PyTorchReplicas()
    run_policy: RunPolicyBody = RunPolicyBody()
    elastic_policy: ElasticPolicy | None = None
    nproc_per_node: Processes | None = None


class PyTorchJob(JobShape):
    spec: PyTorchJobSpec = PyTorchJobSpec()


def workload_of_pytorchjob(job: PyTorchJob, findings: Findings) -> Workload | None:
    spec, elastic = job.spec, job.spec.elastic_policy
    parts = _parts(spec.pytorch_replica_specs, findings)
    if not parts:
        return None
    workers = spec.pytorch_replica_specs.worker
    bounds = bounds_of(
        job.metadata,
        findings,
        initial=said((*REPLICAS, "Worker", "replicas"), workers.replicas) if workers else None,
        low=said(("spec", "elasticPolicy", "minReplicas"), elastic.min_replicas) if elastic else None,
        high=said(("spec", "elasticPolicy", "maxReplicas"), elastic.max_replicas) if elastic else None,
    )
    roles = [template_of(part, findings, main=CONTAINER) for part in parts]
    alone = len(parts) == 1 and not elastic  # torchrun ends with its members, so there worker 0 tells
    allowed = (Contract.TORCHRUN, Contract.RESTART) if elastic else (Contract.RESTART, Contract.TORCHRUN)
    return workload_of(
        job,
        findings,
        roles=roles,
        pods=[part.pod for part in parts],
        contract=contract_of(job.metadata, allowed, findings),
        success=Success.ALL_WORKERS if alone else Success.LEADER,
        run_policy=run_policy_of(spec.run_policy, spec, findings),
        bounds=bounds,
        own=Own(port=_port(elastic, parts)),
        policy=spec.run_policy,
        processes_per_worker=_processes_of(job, roles[-1].request, findings),
        rendezvous=_rendezvous(elastic, findings) if elastic else (),
    )


def _parts(replicas: PyTorchReplicas, findings: Findings) -> list[Part]:
    parts = []
    if replicas.master is not None:
        path, alone = (*REPLICAS, "Master"), replicas.worker is None
        role, called = (Role.WORKER, "master") if alone else (Role.MASTER, "")
        parts.append(
            part_of(replicas.master, path, findings, role=role, policy=RestartPolicy.ON_FAILURE, called=called)
        )
        if parts[0].replicas > 1:
            findings.wrong((*path, "replicas"), parts[0].replicas, "1: there is one master")
    if replicas.worker is not None:
        path = (*REPLICAS, "Worker")
        parts.append(part_of(replicas.worker, path, findings, role=Role.WORKER, policy=RestartPolicy.ON_FAILURE))
    if not parts:
        findings.wrong(REPLICAS, None, "a Master, a Worker, or both")
    return parts


def _port(elastic: ElasticPolicy | None, parts: list[Part]) -> int | None:
    if elastic and elastic.rdzv_port is not None and elastic.rdzv_backend in (None, Backend.C10D):
        return elastic.rdzv_port  # a worker of the job listens there
    return next((port for part in parts if (port := named_port(part, PORT, main=CONTAINER))), None)


def _processes_of(job: PyTorchJob, request: Resources, findings: Findings) -> int:
    """torchrun counts a machine's GPUs or CPUs; ours are those that the worker asks for, the machine is shared."""
    inner = job.spec.elastic_policy.n_proc_per_node if job.spec.elastic_policy else None
    outer = job.spec.nproc_per_node
    if None not in (inner, outer) and inner != outer:
        expected = f"{inner} as in spec.elasticPolicy.nProcPerNode, or only one of the two"
        findings.wrong(("spec", "nprocPerNode"), outer, expected)
    match outer if inner is None else inner:
        case int(number):
            return number
        case "auto" | "gpu":
            return min(max(1, request.whole_gpus), PROCESSES_MAX)
        case "cpu":
            return min(max(1, request.cpu_milli // 1000), PROCESSES_MAX)
    return 1


def _rendezvous(elastic: ElasticPolicy, findings: Findings) -> tuple[tuple[str, str], ...]:
    for index, setting in enumerate(elastic.rdzv_conf):
        if not setting.key or "=" in setting.key or "," in setting.key + setting.value:
            path = ("spec", "elasticPolicy", "rdzvConf", index)
            findings.wrong(path, f"{setting.key}={setting.value}", 'a key, and no "," in it or in its value')
    written = {
        "rdzvBackend": elastic.rdzv_backend,
        "rdzvHost": elastic.rdzv_host,
        "rdzvPort": elastic.rdzv_port,
        "rdzvId": elastic.rdzv_id,
        "rdzvConf": ",".join(f"{setting.key}={setting.value}" for setting in elastic.rdzv_conf) or None,
        "maxRestarts": elastic.max_restarts,
        "standalone": "true" if elastic.standalone else None,
    }
    return tuple((key, str(value)) for key, value in written.items() if value is not None)
