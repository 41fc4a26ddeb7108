"""What workers, services and labels are called, and the ports they listen on where the manifest says nothing else.

The words are those that programs and `kubectl` users of each kind already rely on.
"""

from sterna.model.jobs import Role
from sterna.model.pod_labels import label_domain, role_labels, usual_port
from sterna.model.workload import Workload

# By these labels programs and people find the pods of a job; one of them is on every pod and service of ours.
JOB_LABELS = ("tf-job-name", "training.kubeflow.org/job-name", "sterna.dev/job-name")


def worker_name(workload: Workload, role: Role, ordinal: int) -> str:
    """`job1-worker-2`: the name of the pod and of its service."""
    return f"{workload.name}-{workload.template(role).word}-{ordinal}"


def port_name(workload: Workload) -> str:
    return usual_port(workload.kind)[0]


def port_of(workload: Workload) -> int:
    """The port that the manifest fixes, or the kind's usual one."""
    return usual_port(workload.kind)[1] if workload.port is None else workload.port


def labels_of(workload: Workload, role: Role, ordinal: int, *, slot: str | None = None) -> dict[str, str]:
    """Labels of one worker. `slot` names its place in the plan; None: labels of what outlives it, like its service."""
    labels = role_labels(workload.kind, workload.name, workload.template(role).word)
    if workload.kind == "TFJob":
        labels["tf-replica-index"] = str(ordinal)
        slot_key, role_key = "tf-job-workerid", "tf-job-role"
    else:
        domain = label_domain(workload.kind)
        labels[f"{domain}/replica-index"] = str(ordinal)
        slot_key, role_key = "sterna.dev/slot", f"{domain}/job-role"
    if slot is not None:
        labels[slot_key] = slot
        if leads(workload, role, ordinal):
            labels[role_key] = "master"
    return labels


def leads(workload: Workload, role: Role, ordinal: int) -> bool:
    """Is this the worker whose end is the job's? The chief, master or launcher; worker 0 where there is none."""
    leaders = {template.role for template in workload.roles} & {Role.CHIEF, Role.MASTER, Role.LAUNCHER}
    return ordinal == 0 and role in (leaders or {Role.WORKER})
