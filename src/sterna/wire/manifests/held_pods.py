"""What a pod waits for before it may be placed: gates that another controller removes, claims that must be bound."""

from collections.abc import Iterator, Sequence

from sterna.wire.manifests.findings import Findings
from sterna.wire.manifests.pods import PodAt


def gates_of(pods: Sequence[PodAt], findings: Findings) -> tuple[str, ...]:
    """By name. A job is started as a whole, so the gates of one role hold all of it back."""
    names: dict[str, None] = {}
    for pod in pods:
        written = (pod.template.spec.model_extra or {}).get("schedulingGates") or []
        if not isinstance(written, list):
            findings.wrong((*pod.path, "schedulingGates"), written, "a list")
            continue
        for number, gate in enumerate(written):
            name = gate.get("name") if isinstance(gate, dict) else None
            if isinstance(name, str) and name:
                names[name] = None
            else:
                findings.wrong((*pod.path, "schedulingGates", number, "name"), name, "the name of a gate")
    return tuple(names)


def claims_of(pod: PodAt, findings: Findings) -> tuple[str, ...]:
    """Names of the claims that its volumes are."""
    return tuple(dict.fromkeys(_claims(pod, findings)))


def _claims(pod: PodAt, findings: Findings) -> Iterator[str]:
    for number, volume in enumerate(pod.template.spec.volumes):
        source = volume.get("persistentVolumeClaim") if isinstance(volume, dict) else None
        if source is None:
            continue
        name = source.get("claimName") if isinstance(source, dict) else None
        if isinstance(name, str) and name:
            yield name
        else:
            path = (*pod.path, "volumes", number, "persistentVolumeClaim", "claimName")
            findings.wrong(path, name, "the name of a claim")
