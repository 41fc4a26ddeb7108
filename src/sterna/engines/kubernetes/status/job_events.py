"""What jobs' owners are told, as values: a closed list of reasons, messages with numbers.

Those of a look (`Reconciled.events`) are recorded once its status is written; those of an effect (`SuccessfulCreatePod`
and its like) by the part that carries it out. Reasons that name a kind (`TFJobRunning`) are those of conditions.
"""

from enum import StrEnum
from typing import NamedTuple

from sterna.lifecycle.condition_rules import Kinded, of_kind


class Reason(StrEnum):
    POD_CREATED = "SuccessfulCreatePod"
    POD_NOT_CREATED = "FailedCreatePod"
    POD_DELETED = "SuccessfulDeletePod"
    POD_NOT_DELETED = "FailedDeletePod"
    SERVICE_CREATED = "SuccessfulCreateService"
    SERVICE_NOT_CREATED = "FailedCreateService"
    SERVICE_DELETED = "SuccessfulDeleteService"
    SERVICE_NOT_DELETED = "FailedDeleteService"
    EXITED = "ExitedWithCode"
    POD_RESTART_POLICY = "SettedPodTemplateRestartPolicy"  # sic: what users of these kinds know it by
    POD_SCHEDULER = "SettedPodTemplateSchedulerName"
    QUEUED = "QueuedReason"
    PLACED = "Placed"
    SCALED_UP = "ScaledUp"
    SCALED_DOWN = "ScaledDown"
    MIGRATED = "Migrated"
    CONSIDERED = "MigrationConsidered"  # by a rebalancer, whether or not something moved
    PREEMPTED = "Preempted"
    RESTARTED = "Restarted"
    PROGRESSING = "Progressing"
    WATCHING = "Watching"
    CONVERGED = "Converged"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    WORKERS_LOST = "WorkersLost"
    EDIT_IGNORED = "EditIgnored"
    NO_CHECKPOINTS = "NoCheckpointDirectory"
    STATUS_UNREADABLE = "StatusUnreadable"
    REPORT_REFUSED = "ReportRefused"
    PATTERN_REFUSED = "LogPatternRefused"
    OPERATOR_PROBLEM = "OperatorProblem"


KINDS = ("TFJob", "PyTorchJob", "MPIJob", "ElasticJob")


def invalid_spec(kind: str) -> str:
    """`InvalidTFJobSpec`."""
    return f"Invalid{kind}Spec"


REASONS = frozenset(
    {
        *map(str, Reason),
        *(of_kind(kind, reason) for kind in KINDS for reason in Kinded),
        *map(invalid_spec, KINDS),
    }
)


class JobEvent(NamedTuple):
    """To be recorded about the job."""

    reason: str  # one of REASONS
    message: str
    warning: bool = False
