"""TFJob, in Kubeflow's shape (`runPolicy`, `successPolicy`) and in DRAGON's flat one (`min-instances`, ...).

With parameter servers the workers come and go while the others train on. Without them they train as one collective,
so a change of their number starts them anew.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sterna.model.jobs import Role
from sterna.model.workload import Contract, RestartPolicy, Success, Workload
from sterna.wire.fields import Count
from sterna.wire.manifests.assembling import Own, contract_of, run_policy_of, workload_of
from sterna.wire.manifests.findings import Findings
from sterna.wire.manifests.job_shapes import FlatRunPolicy, JobShape, Replica, RunPolicyBody
from sterna.wire.manifests.pods import Text
from sterna.wire.manifests.roles import Part, named_port, part_of, template_of
from sterna.wire.manifests.shapes import Shape
from sterna.wire.manifests.sizes import bounds_of, said

CONTAINER, PORT = "tensorflow", "tfjob-port"
REPLICAS = ("spec", "tfReplicaSpecs")


class TFReplicas(Shape):
    any_case = True

    ps: Replica | None = Field(default=None, alias="PS")
    chief: Replica | None = Field(default=None, alias="Chief")
    master: Replica | None = Field(default=None, alias="Master")
    evaluator: Replica | None = Field(default=None, alias="Evaluator")
    worker: Replica | None = Field(default=None, alias="Worker")


class TFSuccess(StrEnum):
    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


class TFJobSpec(FlatRunPolicy):
    tf_replica_specs: TFReplicas = TFReplicas()
    run_policy: RunPolicyBody = RunPolicyBody()
    success_policy: Annotated[TFSuccess, Field(strict=False)] = TFSuccess.DEFAULT
    enable_dynamic_worker: bool = False
    min_instances: Count | None = Field(default=None, alias="min-instances")
    max_instances: Count | None = Field(default=None, alias="max-instances")
    node_preference: Text | None = Field(default=None, alias="node-preference")
    priority: int | None = None


class TFJob(JobShape):
    spec: TFJobSpec = TFJobSpec()


_ROLES = {
    "PS": Role.PS,
    "Chief": Role.CHIEF,
    "Master": Role.MASTER,
    "Evaluator": Role.EVALUATOR,
    "Worker": Role.WORKER,
}


def workload_of_tfjob(job: TFJob, findings: Findings) -> Workload | None:
    spec = job.spec
    parts = _parts(spec.tf_replica_specs, findings)
    if not parts:
        return None
    elastic = parts[-1]
    workers = spec.tf_replica_specs.worker
    bounds = bounds_of(
        job.metadata,
        findings,
        initial=said((*REPLICAS, "Worker", "replicas"), workers.replicas) if workers else None,
        low=said(("spec", "min-instances"), spec.min_instances),
        high=said(("spec", "max-instances"), spec.max_instances),
    )
    if elastic.called and bounds.high > 1:
        findings.wrong(elastic.path, elastic.called, "a Worker beside it: this one cannot be many")
    served = any(part.role is Role.PS for part in parts)
    allowed = (Contract.PARAMETER_SERVER, Contract.RESTART) if served else (Contract.RESTART, Contract.PARAMETER_SERVER)
    return workload_of(
        job,
        findings,
        roles=[template_of(part, findings, main=CONTAINER) for part in parts],
        pods=[part.pod for part in parts],
        contract=contract_of(job.metadata, allowed, findings),
        success=Success.ALL_WORKERS if spec.success_policy is TFSuccess.ALL_WORKERS else Success.LEADER,
        run_policy=run_policy_of(spec.run_policy, spec, findings),
        bounds=bounds,
        own=Own(
            priority=spec.priority,
            node_preference=spec.node_preference,
            port=next((port for part in parts if (port := named_port(part, PORT, main=CONTAINER))), None),
        ),
        policy=spec.run_policy,
        details=_details(job, served, findings),
    )


def _parts(replicas: TFReplicas, findings: Findings) -> list[Part]:
    """Fixed roles first. A chief or master without workers is the worker."""
    parts = []
    for word, role in _ROLES.items():
        replica = getattr(replicas, role.value)
        if replica is not None:
            parts.append(part_of(replica, (*REPLICAS, word), findings, role=role, policy=RestartPolicy.NEVER))
    leaders = [part for part in parts if part.role in (Role.CHIEF, Role.MASTER)]
    for part in parts:
        if part.role is Role.EVALUATOR or (part.role in (Role.CHIEF, Role.MASTER) and len(leaders) == 1):
            if part.replicas > 1:
                findings.wrong((*part.path, "replicas"), part.replicas, "1")
        elif part.role is Role.MASTER:
            findings.wrong(part.path, "Master", "either a Chief or a Master")
    if parts and parts[-1].role is Role.WORKER:
        return parts
    if not leaders:
        findings.wrong(REPLICAS, [part.path[-1] for part in parts] or None, "a Worker, Chief or Master")
        return []
    alone = leaders[0]
    return [*(p for p in parts if p is not alone), alone._replace(role=Role.WORKER, called=alone.role.value)]


def _details(job: TFJob, served: bool, findings: Findings) -> tuple[tuple[str, str], ...]:
    details = [("enableDynamicWorker", "true")] if job.spec.enable_dynamic_worker else []
    key = "sterna.dev/chief-in-ps"
    match job.metadata.annotations.get(key):
        case None | "false":
            pass
        case "true" if served:
            details.append(("chiefInPs", "true"))
        case text:
            expected = '"true" or "false"' if text != "true" else 'a PS beside which the chief runs, or "false"'
            findings.wrong(("metadata", "annotations", key), text, expected)
    return tuple(details)
