"""What all kinds share on the way to a workload: name, run policy, annotations, priority, where it may run."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from sterna.model.ids import NodeId
from sterna.model.jobs import Role
from sterna.model.workload import CleanUp, Contract, RoleTemplate, RunPolicy, Success, Workload
from sterna.wire.manifests.amounts import KUBESHARE
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.held_pods import gates_of
from sterna.wire.manifests.job_shapes import FlatRunPolicy, JobShape, Metadata, RunPolicyBody
from sterna.wire.manifests.pods import PodAt, mounts_of
from sterna.wire.manifests.shapes import meant
from sterna.wire.manifests.sizes import Bounds
from sterna.wire.manifests.where import where_of

OURSELVES = "sterna.dev/sterna"  # as managedBy: no other than the name left out
ANNOTATIONS = (
    *("min-workers", "max-workers", "workers-step", "category", "epochs", "accelerator", "priority", "contract"),
    "moves-between-pools",
    *("chief-in-ps", "checkpoint-dir", "metric", "judge", "monitor", "epoch-csv", "log-pattern"),
)
DRAGON_KUBESHARE = "DRAGON_KUBESHARE"
NAME_MAX = 63  # of a pod and its service, by DNS
PRIORITY_MAX = 10**9

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # of a job, and of the services that are named after it
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # it may begin with a digit, which a service may not
_COMPLETED = "abcde"  # as long as what an engine adds to generateName
_STAMP = re.compile(r"-\d{8}-\d{6}(?:-\d+)?$")  # what Voda's `create` puts behind a name
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")


class Own(NamedTuple):
    """What a kind has a field of its own for; None: the annotations say, or nothing does."""

    epochs: float | None = None
    priority: int | None = None
    accelerator: str | None = None
    category: str | None = None
    node_preference: str | None = None
    port: int | None = None


def workload_of(
    job: JobShape,
    findings: Findings,
    *,
    roles: Sequence[RoleTemplate],
    pods: Sequence[PodAt],  # of the roles, in their order: the workers' decides where the job may run
    contract: Contract,
    success: Success,
    run_policy: RunPolicy,
    bounds: Bounds,
    own: Own,
    policy: RunPolicyBody,
    processes_per_worker: int = 1,
    rendezvous: tuple[tuple[str, str], ...] = (),
    details: tuple[tuple[str, str], ...] = (),
) -> Workload:
    metadata = job.metadata
    where = where_of(pods, findings)
    workload = Workload(
        namespace=metadata.namespace,
        name=metadata.called,
        api_version=job.api_version,
        kind=job.kind,
        labels=tuple(sorted(metadata.labels.items())),
        annotations=tuple(sorted(metadata.annotations.items())),
        roles=tuple(roles),
        contract=contract,
        success=success,
        run_policy=run_policy,
        workers_min=bounds.low,
        workers_max=bounds.high,
        workers_initial=bounds.initial,
        workers_step=bounds.step,
        processes_per_worker=processes_per_worker,
        port=own.port,
        units_total=own.epochs if own.epochs is not None else _epochs(metadata, findings),
        accelerator=own.accelerator or _annotation(metadata, "accelerator") or where.accelerator,
        moves_between_pools=_flag(metadata, "moves-between-pools", findings),
        category=own.category or _annotation(metadata, "category") or _STAMP.sub("", metadata.called).removesuffix("-"),
        priority=_priority(metadata, own.priority, policy, pods[-1], findings),
        selector=where.selector,
        tolerations=where.tolerations,
        node_terms=where.terms,
        node_wishes=where.wishes,
        node_preference=NodeId(own.node_preference) if own.node_preference else where.preference,
        gates=gates_of(pods, findings),
        rendezvous=rendezvous,
        details=details,
    )
    _check_names(workload, findings)
    _check_annotations(metadata, findings)
    _check_checkpoints(metadata, pods[-1], findings)
    _check_kubeshare(metadata, pods, findings)
    return workload


def run_policy_of(nested: RunPolicyBody, flat: FlatRunPolicy | None, findings: Findings) -> RunPolicy:
    """Kubeflow has it under `runPolicy`, older manifests in the spec itself; either will do."""
    return RunPolicy(
        backoff_limit=_either("backoffLimit", nested, flat, findings),
        active_deadline_s=_seconds(_either("activeDeadlineSeconds", nested, flat, findings)),
        ttl_after_finished_s=_seconds(_either("ttlSecondsAfterFinished", nested, flat, findings)),
        clean_up=_either("cleanPodPolicy", nested, flat, findings) or CleanUp.RUNNING,
        suspend=nested.suspend,
        managed_by=None if nested.managed_by in (None, "", OURSELVES) else nested.managed_by,
    )


def contract_of(metadata: Metadata, allowed: Sequence[Contract], findings: Findings) -> Contract:
    """The first of those that the kind can have, unless an annotation says which."""
    text = _annotation(metadata, "contract")
    if text is None or text in allowed:
        return allowed[0] if text is None else Contract(text)
    path = ("metadata", "annotations", "sterna.dev/contract")
    findings.wrong(path, text, " or ".join(sorted(set(allowed))))
    return allowed[0]


def _either(key: str, nested: RunPolicyBody, flat: FlatRunPolicy | None, findings: Findings) -> Any:
    name = next(name for name, field in FlatRunPolicy.model_fields.items() if field.alias == key)
    inside, outside = getattr(nested, name), getattr(flat, name, None)
    if inside is not None and outside is not None and inside != outside:
        findings.wrong(("spec", key), outside, f"{inside} as in spec.runPolicy.{key}, or only one of the two")
    return outside if inside is None else inside


def _seconds(whole: int | None) -> float | None:
    return None if whole is None else float(whole)


def _annotation(metadata: Metadata, name: str) -> str | None:
    return metadata.annotations.get(f"sterna.dev/{name}")


def _flag(metadata: Metadata, name: str, findings: Findings) -> bool:
    text = _annotation(metadata, name) or "false"
    if text not in ("true", "false"):
        findings.wrong(("metadata", "annotations", f"sterna.dev/{name}"), text, '"true" or "false"')
    return text == "true"


def _epochs(metadata: Metadata, findings: Findings) -> float | None:
    text = _annotation(metadata, "epochs")
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or not float(text):
        findings.wrong(("metadata", "annotations", "sterna.dev/epochs"), text, 'a number above 0, in quotes: "90"')
        return None
    return float(text)


def _priority(metadata: Metadata, own: int | None, policy: RunPolicyBody, pod: PodAt, findings: Findings) -> int:
    """Larger goes first. A class that has only a name gets its number from the cluster."""
    key = "sterna.dev/priority"
    written: list[tuple[Path, str | int | None]] = [
        (("spec", "priority"), own),
        (("metadata", "annotations", key), metadata.annotations.get(key)),
        (("metadata", "labels", key), metadata.labels.get(key)),
        (("spec", "runPolicy", "schedulingPolicy", "priorityClass"), policy.scheduling_policy.priority_class or None),
        ((*pod.path, "priority"), pod.template.spec.priority),
        ((*pod.path, "priorityClassName"), pod.template.spec.priority_class_name or None),
    ]
    for path, value in written:
        if value is None:
            continue
        if isinstance(value, int) or _INTEGER.fullmatch(value):
            if abs(int(value)) > PRIORITY_MAX:
                findings.wrong(path, value, f"from -{PRIORITY_MAX} to {PRIORITY_MAX}")
            return int(value)
        if key in path:
            findings.wrong(path, value, 'a whole number, in quotes: "10"')
        else:
            findings.warn(path, f"not honoured: Sterna knows no number for the class {value}, so it counts as 0")
    return 0


def _check_names(workload: Workload, findings: Findings) -> None:
    expected = f'lower-case letters, digits and "-", at most {NAME_MAX} characters'
    name = f"{workload.name}{_COMPLETED}" if workload.name.endswith("-") else workload.name
    if not NAME.fullmatch(name) or len(name) > NAME_MAX:
        findings.wrong(("metadata", "name"), name or None, f"{expected}, beginning with a letter")
        return
    if not _NAMESPACE.fullmatch(workload.namespace) or len(workload.namespace) > NAME_MAX:
        findings.wrong(("metadata", "namespace"), workload.namespace or None, expected)
        return
    counts = [(t, workload.workers_max if t.role is Role.WORKER else t.replicas) for t in workload.roles]
    longest = max((f"{name}-{t.word}-{count - 1}" for t, count in counts), key=len)
    if len(longest) > NAME_MAX:
        most = NAME_MAX - (len(longest) - len(name))
        findings.wrong(("metadata", "name"), workload.name, f"at most {most} characters, for names like {longest}")


def _check_annotations(metadata: Metadata, findings: Findings) -> None:
    """Others under our domain may stand: an engine keeps notes there. A misspelt one would go unnoticed."""
    for key in metadata.annotations:
        domain, _, name = key.partition("/")
        if domain == "sterna.dev" and name not in ANNOTATIONS and (likely := meant(name, ANNOTATIONS)):
            findings.wrong(("metadata", "annotations", key), key, f'did you mean "sterna.dev/{likely}"?')


def _check_checkpoints(metadata: Metadata, pod: PodAt, findings: Findings) -> None:
    """Processes have a directory of the engine's. In a cluster it is the author's, in a volume that outlives pods."""
    text = _annotation(metadata, "checkpoint-dir")
    if text is None:
        return
    path = ("metadata", "annotations", "sterna.dev/checkpoint-dir")
    directory = PurePosixPath(text)
    if not directory.is_absolute() or ".." in directory.parts or "\0" in text:
        findings.wrong(path, text, "an absolute path inside a volume of the workers, like /checkpoints")
    elif not any(directory.is_relative_to(mounted) for mounted in mounts_of(pod)):
        findings.warn(path, f"no volume of the workers is mounted at {text} or above: checkpoints end with their pod")


def _check_kubeshare(metadata: Metadata, pods: Sequence[PodAt], findings: Findings) -> None:
    """The annotation that chose one of DRAGON's operators. Shares are counted with or without it, beside whole GPUs."""
    shared = any(key in pod.template.metadata.annotations for pod in pods for key in KUBESHARE)
    match metadata.annotations.get(DRAGON_KUBESHARE):
        case None | "false":
            pass
        case "true" if shared:
            pass
        case "true":
            findings.warn(("metadata", "annotations", DRAGON_KUBESHARE), f"no template has {', '.join(KUBESHARE)}")
        case text:
            findings.wrong(("metadata", "annotations", DRAGON_KUBESHARE), text, '"true" or "false"')
