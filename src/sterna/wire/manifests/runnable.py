"""Can this be run as processes, without images, secrets and config maps? Only the process runner asks."""

from dataclasses import replace

from sterna.model.jobs import Role
from sterna.model.workload import RoleTemplate, Workload
from sterna.wire.manifests.reading import ManifestDocument, read_manifests
from sterna.wire.problems import InvalidDocument, Problem

WAITING = ("sleep", "infinity")


def read_runnable(text: str | bytes) -> tuple[ManifestDocument, ...]:
    """All jobs of a text as processes can run them. What only a cluster could do is among the warnings."""
    return tuple(
        replace(document, workload=require_runnable(document.workload), warnings=(*document.warnings, *document.aside))
        for document in read_manifests(text)
    )


def require_runnable(workload: Workload) -> Workload:
    """The workload as processes can run it; InvalidDocument where they cannot.

    Workers of an MPIJob often have no command: their image starts a server for the launcher to call. A process that
    only holds the place does as well, because the launcher of the same machine starts what it needs by itself.
    """
    roles = tuple(_with_command(workload, template) for template in workload.roles)
    problems = [problem for template in roles for problem in _problems(workload, template)]
    if workload.gates:
        expected = "none: what removes them watches a cluster, so the job could never start"
        problems.append(Problem(f"job {workload.id}: schedulingGates", ", ".join(workload.gates), expected))
    if problems:
        raise InvalidDocument(problems)
    return replace(workload, roles=roles)


def _with_command(workload: Workload, template: RoleTemplate) -> RoleTemplate:
    holds_place = workload.kind == "MPIJob" and template.role is Role.WORKER and not template.called
    if template.program.argv or not holds_place:
        return template
    return replace(template, program=replace(template.program, argv=WAITING))


def _problems(workload: Workload, template: RoleTemplate) -> list[Problem]:
    where, program = f"job {workload.id}: {template.word}", template.program
    found = []
    if not program.argv:
        expected = f"a command: the entry point of the image ({program.image or 'none'}) cannot be run as a process"
        found.append(Problem(f"{where}: command", None, expected))
    found += [
        Problem(f"{where}: env {name}", None, f"a plain value: {source} is not to be had without a cluster")
        for name, source in program.env_absent
    ]
    return found
