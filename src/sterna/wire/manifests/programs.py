"""A container as a program: command, environment, hooks, time to stop. What only a cluster could tell is put aside."""

import re

from sterna.model.quantities import exact
from sterna.model.workload import Program
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.pods import Container, EnvVar, Hook, KeyRef, PodAt, ResourceFieldRef

_FIELD = re.compile(
    r"metadata\.(?:name|namespace|uid)|metadata\.(?:labels|annotations)\['[^']+'\]"
    r"|spec\.(?:nodeName|serviceAccountName)|status\.(?:host|pod)IPs?"
)
_FIELDS_SHOWN = (
    "one of metadata.name, metadata.namespace, metadata.uid, metadata.labels['...'], metadata.annotations['...'], "
    "spec.nodeName, spec.serviceAccountName, status.hostIP, status.podIP"
)
_NAME = re.compile(r"[^=\s\x00-\x1f]+")


def program_of(container: Container, pod: PodAt, index: int, findings: Findings) -> Program:
    path = pod.container_path(index)
    reader = _Environment(container, path, findings)
    reader.read()
    return Program(
        argv=(*container.command, *container.args) if container.command else (),
        env=tuple(reader.plain),
        env_fields=tuple(reader.fields),
        env_absent=tuple(reader.absent),
        cwd=container.working_dir,
        image=container.image or None,
        post_start=_hook(container.lifecycle.post_start, (*path, "lifecycle", "postStart"), findings),
        pre_stop=_hook(container.lifecycle.pre_stop, (*path, "lifecycle", "preStop"), findings),
        grace_s=float(pod.template.spec.termination_grace_period_seconds),
    )


class _Environment:
    def __init__(self, container: Container, path: Path, findings: Findings) -> None:
        self.plain: list[tuple[str, str]] = []
        self.fields: list[tuple[str, str]] = []
        self.absent: list[tuple[str, str]] = []
        self._container, self._path, self._findings = container, path, findings

    def read(self) -> None:
        for index, source in enumerate(self._container.env_from):
            for what, reference in (("config map", source.config_map_ref), ("secret", source.secret_ref)):
                if reference is not None:
                    self._elsewhere(f"envFrom[{index}]", what, reference, (*self._path, "envFrom", index))
        for index, variable in enumerate(self._container.env):
            path = (*self._path, "env", index)
            if not _NAME.fullmatch(variable.name):
                self._findings.wrong((*path, "name"), variable.name, 'a name without "=" and spaces')
            elif variable.value_from is None:
                self.plain.append((variable.name, variable.value))
            elif variable.value:
                self._findings.wrong((*path, "value"), variable.value, "either value or valueFrom")
            else:
                self._from(variable, (*path, "valueFrom"))

    def _from(self, variable: EnvVar, path: Path) -> None:
        source = variable.value_from
        if source is None or not (given := source.model_fields_set):
            expected = "one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef"
            self._findings.wrong(path, None, expected)
        elif len(given) > 1:
            self._findings.wrong(path, sorted(given), "one source")
        elif source.field_ref is not None:
            if _FIELD.fullmatch(source.field_ref.field_path):
                self.fields.append((variable.name, source.field_ref.field_path))
            else:
                where = (*path, "fieldRef", "fieldPath")
                self._findings.wrong(where, source.field_ref.field_path, _FIELDS_SHOWN)
        elif source.resource_field_ref is not None:
            self._amount(variable.name, source.resource_field_ref, (*path, "resourceFieldRef"))
        elif source.config_map_key_ref is not None:
            self._elsewhere(variable.name, "config map", source.config_map_key_ref, (*path, "configMapKeyRef"))
        elif source.secret_key_ref is not None:
            self._elsewhere(variable.name, "secret", source.secret_key_ref, (*path, "secretKeyRef"))

    def _amount(self, name: str, reference: ResourceFieldRef, path: Path) -> None:
        """Amounts of the container itself are known here; Kubernetes rounds them up to the divisor."""
        kind, _, resource = reference.resource.partition(".")
        resources = self._container.resources
        written = {"limits": resources.limits, "requests": {**resources.limits, **resources.requests}}.get(kind)
        divisor = exact(reference.divisor) or exact(1)  # "0" is how Kubernetes writes that there is none
        if written is None or not resource:
            self._findings.wrong((*path, "resource"), reference.resource, "limits.cpu, requests.memory, or alike")
        elif resource in written:
            self.plain.append((name, str(-(-exact(written[resource]) // divisor))))
        else:
            self.absent.append((name, f"{reference.resource}, which the container does not set"))

    def _elsewhere(self, name: str, what: str, reference: KeyRef, path: Path) -> None:
        if reference.optional:
            self._findings.set_aside(path, f"the {what} {reference.name} is not there, and it is optional")
        else:
            self.absent.append((name, f"the {what} {reference.name}"))


def _hook(hook: Hook | None, path: Path, findings: Findings) -> tuple[str, ...]:
    if hook is None:
        return ()
    if hook.exec is not None:
        if not hook.exec.command:
            findings.wrong((*path, "exec", "command"), [], "the words of a command")
        return tuple(hook.exec.command)
    if hook.sleep is not None:
        return ("sleep", str(hook.sleep.seconds))
    findings.set_aside(path, "only exec and sleep are run")
    return ()
