"""One role of a job: its pod, wherever the manifest writes it, becomes a program with a request and a limit."""

from typing import NamedTuple

from sterna.model.jobs import Role
from sterna.model.workload import RestartPolicy, RoleTemplate
from sterna.wire.manifests.amounts import amounts_of
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.held_pods import claims_of
from sterna.wire.manifests.job_shapes import Replica
from sterna.wire.manifests.pod_rules import traits_of
from sterna.wire.manifests.pods import Container, PodAt, PodTemplate
from sterna.wire.manifests.programs import program_of


class Part(NamedTuple):
    """One role as the manifest has it."""

    role: Role
    path: Path
    replicas: int
    pod: PodAt
    policy: RestartPolicy
    called: str = ""


def part_of(
    replica: Replica, path: Path, findings: Findings, *, role: Role, policy: RestartPolicy, called: str = ""
) -> Part:
    """A replica spec of Kubeflow's kinds. Its restart policy goes over the pod's own, even where it is the default."""
    if replica.template is None:
        findings.unread((*path, "template"), None, "a pod template with the container to run")
    template = replica.template or PodTemplate()
    pod = PodAt(template, (*path, "template", "spec"))
    chosen = replica.restart_policy or policy
    if template.spec.restart_policy not in (None, chosen):
        findings.warn((*pod.path, "restartPolicy"), f"not used: {chosen} is, the restartPolicy of the role")
    return Part(role, path, replica.replicas or 1, pod, chosen, called)


def template_of(part: Part, findings: Findings, *, main: str | None, image_required: bool = True) -> RoleTemplate:
    """`main` is the name that the container which decides about the job must have; None: the first one does."""
    index = _main_index(part, findings, main)
    containers = part.pod.template.spec.containers
    for number, container in enumerate(containers):
        if not container.image and (image_required or findings.for_pods):
            expected = "an image: Kubernetes needs one (processes do not use it, so any will do there)"
            findings.wrong((*part.pod.container_path(number), "image"), container.image, expected)
    _leave_out(part, index, findings)
    container = containers[index] if containers else Container()
    request, limit = amounts_of(part.pod, index, findings)
    return RoleTemplate(
        role=part.role,
        replicas=part.replicas,
        program=program_of(container, part.pod, index, findings),
        request=request,
        limit=limit,
        restart_policy=part.policy,
        pod=traits_of(part.pod, findings),
        on_host_network=part.pod.template.spec.host_network,
        called=part.called,
        claims=claims_of(part.pod, findings),
    )


def named_port(part: Part, name: str, *, main: str | None) -> int | None:
    """The port of this name; None: the manifest leaves it open."""
    for container in part.pod.template.spec.containers:
        if main is None or container.name == main:
            for port in container.ports:
                if port.name == name:
                    return port.container_port
    return None


def _main_index(part: Part, findings: Findings, main: str | None) -> int:
    containers = part.pod.template.spec.containers
    path = (*part.pod.path, "containers")
    names = [container.name for container in containers]
    if not containers:
        findings.wrong(path, [], "at least one container")
    elif main is not None and main not in names:
        findings.wrong((*path, 0, "name"), names[0], f"{main}: the container whose end decides about the job")
    return names.index(main) if main in names else 0


def _leave_out(part: Part, main: int, findings: Findings) -> None:
    """Says what a process cannot stand for."""
    spec = part.pod.template.spec
    if spec.init_containers:
        findings.set_aside((*part.pod.path, "initContainers"), "init containers are not run")
    if spec.volumes:
        findings.set_aside((*part.pod.path, "volumes"), "not mounted: paths are those of the machine")
    for number, container in enumerate(spec.containers):
        if number != main:
            findings.set_aside(part.pod.container_path(number), f"the container {container.name} is not run")
