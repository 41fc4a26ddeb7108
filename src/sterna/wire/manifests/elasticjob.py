"""ElasticJob, our own kind: any program, so many workers, and what happens to those that stay when others come or go.

The pod is a `template` as everywhere, or in short the fields of its one container straight in the spec.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sterna.model.jobs import Role
from sterna.model.workload import Contract, RestartPolicy, Success, Workload
from sterna.wire.fields import Count, Positive
from sterna.wire.manifests.assembling import Own, run_policy_of, workload_of
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.job_shapes import JobShape, RunPolicyBody
from sterna.wire.manifests.pods import (
    Container,
    ContainerResources,
    Lifecycle,
    Pairs,
    PodAt,
    PodSpec,
    PodTemplate,
    PodToleration,
    Policy,
    Port,
    Seconds,
    Text,
    Variables,
    Words,
)
from sterna.wire.manifests.roles import Part, template_of
from sterna.wire.manifests.shapes import Shape
from sterna.wire.manifests.sizes import bounds_of, said


class Sizes(Shape):
    min: Count | None = None
    max: Count | None = None
    initial: Count | None = None
    step: Count | None = None


class Shorthand(Shape):
    """One container without the pod around it, or the pod as `template`."""

    template: PodTemplate | None = None
    image: Text = ""
    command: Words = Field(default_factory=list)
    args: Words = Field(default_factory=list)
    env: Variables = Field(default_factory=list)
    working_dir: Text | None = None
    resources: ContainerResources = ContainerResources()
    lifecycle: Lifecycle = Lifecycle()
    termination_grace_period_seconds: Seconds = 30
    node_selector: Pairs = Field(default_factory=dict)
    tolerations: list[PodToleration] = Field(default_factory=list, max_length=100)
    restart_policy: Policy | None = None


class FixedRoleBody(Shorthand):
    replicas: Count = 1


class FixedRoles(Shape):
    any_case = True

    ps: FixedRoleBody | None = None
    chief: FixedRoleBody | None = None
    master: FixedRoleBody | None = None
    launcher: FixedRoleBody | None = None
    evaluator: FixedRoleBody | None = None


class ElasticSuccess(StrEnum):
    LEADER = "Leader"
    ALL_WORKERS = "AllWorkers"


class ElasticJobSpec(Shorthand):
    workers: Sizes = Sizes()
    roles: FixedRoles = FixedRoles()
    contract: Annotated[Contract, Field(strict=False)] = Contract.RESTART
    run_policy: RunPolicyBody = RunPolicyBody()
    success_policy: Annotated[ElasticSuccess, Field(strict=False)] | None = None
    processes_per_worker: Count = 1
    port: Port | None = None
    epochs: Positive | None = None
    priority: int | None = None
    accelerator: Text | None = None
    category: Text | None = None


class ElasticJob(JobShape):
    spec: ElasticJobSpec = ElasticJobSpec()


_CONTAINER_FIELDS = ("image", "command", "args", "env", "working_dir", "resources", "lifecycle")
_POD_FIELDS = ("termination_grace_period_seconds", "node_selector", "tolerations", "restart_policy")
_LEADERS = (Role.CHIEF, Role.MASTER, Role.LAUNCHER)


def workload_of_elasticjob(job: ElasticJob, findings: Findings) -> Workload:
    spec, sizes = job.spec, job.spec.workers
    fixed = [(role, getattr(spec.roles, role.value, None)) for role in Role if role is not Role.WORKER]
    parts = [_part(body, ("spec", "roles", role.value), role, body.replicas, findings) for role, body in fixed if body]
    parts.append(_part(spec, ("spec",), Role.WORKER, 1, findings))
    _check_contract(spec.contract, parts, findings)
    # torchrun ends with its members: a worker that is not among them at the end has no part in the outcome
    leaders = spec.contract is Contract.TORCHRUN or any(part.role in _LEADERS for part in parts)
    success = spec.success_policy or (ElasticSuccess.LEADER if leaders else ElasticSuccess.ALL_WORKERS)
    return workload_of(
        job,
        findings,
        roles=[template_of(part, findings, main=None, image_required=False) for part in parts],
        pods=[part.pod for part in parts],
        contract=spec.contract,
        success=Success.LEADER if success is ElasticSuccess.LEADER else Success.ALL_WORKERS,
        run_policy=run_policy_of(spec.run_policy, None, findings),
        bounds=bounds_of(
            job.metadata,
            findings,
            initial=said(("spec", "workers", "initial"), sizes.initial),
            low=said(("spec", "workers", "min"), sizes.min),
            high=said(("spec", "workers", "max"), sizes.max),
            step=said(("spec", "workers", "step"), sizes.step),
        ),
        own=Own(spec.epochs, spec.priority, spec.accelerator, spec.category, None, spec.port),
        policy=spec.run_policy,
        processes_per_worker=spec.processes_per_worker,
    )


def _part(body: Shorthand, path: Path, role: Role, replicas: int, findings: Findings) -> Part:
    if body.template is None:
        pod = PodAt(_in_full(body), path, in_template=False)
    else:
        pod = PodAt(body.template, (*path, "template", "spec"))
        fields = type(body).model_fields
        for name in sorted(body.model_fields_set.intersection((*_CONTAINER_FIELDS, *_POD_FIELDS))):
            key = fields[name].alias or name
            findings.wrong((*path, key), key, "either template or this: with a template it stands inside it")
    return Part(role, path, replicas, pod, pod.template.spec.restart_policy or RestartPolicy.ON_FAILURE)


def _in_full(body: Shorthand) -> PodTemplate:
    container = Container.model_construct(name="main", **{name: getattr(body, name) for name in _CONTAINER_FIELDS})
    pod = {name: getattr(body, name) for name in _POD_FIELDS}
    return PodTemplate.model_construct(spec=PodSpec.model_construct(containers=[container], **pod))


def _check_contract(contract: Contract, parts: list[Part], findings: Findings) -> None:
    roles = {part.role for part in parts}
    needed = {Contract.PARAMETER_SERVER: Role.PS, Contract.DISCOVERY: Role.LAUNCHER}.get(contract)
    if needed is not None and needed not in roles:
        findings.wrong(("spec", "roles"), sorted(roles - {Role.WORKER}), f"{needed}, which contract {contract} needs")
    for part in parts:
        if part.role not in (Role.PS, Role.WORKER) and part.replicas > 1:
            findings.wrong((*part.path, "replicas"), part.replicas, "1")
