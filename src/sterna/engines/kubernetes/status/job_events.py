"""What jobs' owners are told, as values: a closed list of reasons, messages with numbers.

Those of a look (`Reconciled.events`) are recorded once its status is written; those of an effect (`SuccessfulCreatePod`
and its like) by the part that carries it out. Reasons that name a kind (`TFJobRunning`) are those of conditions.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from sterna.lifecycle.condition_rules import Kinded, invalid_spec, of_kind


class Reason(StrEnum):
    POD_CREATED = "SuccessfulCreatePod"
    POD_NOT_CREATED = "FailedCreatePod"
    POD_DELETED = "SuccessfulDeletePod"
    POD_NOT_DELETED = "FailedDeletePod"
    POD_ADOPTED = "AdoptedPod"
    POD_NOT_ADOPTED = "FailedAdoptPod"
    SERVICE_ADOPTED = "AdoptedService"
    SERVICE_NOT_ADOPTED = "FailedAdoptService"
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
    ADMISSION_DENIED = "AdmissionDenied"
    EDIT_IGNORED = "EditIgnored"
    FIELDS_NOT_HONOURED = "FieldsNotHonoured"
    NAME_TAKEN = "NameTaken"
    NO_CHECKPOINTS = "NoCheckpointDirectory"
    STATUS_UNREADABLE = "StatusUnreadable"
    STATUS_OVERWRITTEN = "StatusOverwritten"
    REPORT_REFUSED = "ReportRefused"
    PATTERN_REFUSED = "LogPatternRefused"
    WRITTEN_TOO_OFTEN = "WrittenTooOften"
    OPERATOR_PROBLEM = "OperatorProblem"


OF_PODS = frozenset(  # told of each pod or service: there may be many, and they must not keep others from being told
    {
        Reason.POD_CREATED,
        Reason.POD_NOT_CREATED,
        Reason.POD_DELETED,
        Reason.POD_NOT_DELETED,
        Reason.SERVICE_CREATED,
        Reason.SERVICE_NOT_CREATED,
        Reason.SERVICE_DELETED,
        Reason.SERVICE_NOT_DELETED,
        Reason.EXITED,
    }
)
_SHOWN_MAX = 6  # names, or first and last of a row of names

KINDS = ("TFJob", "PyTorchJob", "MPIJob", "ElasticJob")

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


def names_in_words(names: Sequence[str]) -> str:
    """`job-ps-0, job-worker-0 ... job-worker-39`: of a row of numbers the first and the last."""
    rows: list[list[str]] = []
    for name in sorted(names, key=_order):
        if rows and _follows(rows[-1][-1], name):
            rows[-1].append(name)
        else:
            rows.append([name])
    told = [" ... ".join((row[0], row[-1])) if len(row) > 2 else ", ".join(row) for row in rows]
    left = sum(len(row) for row in rows[_SHOWN_MAX:])
    return ", ".join(told[:_SHOWN_MAX]) + (f" and {left} more" if left else "")


def _order(name: str) -> tuple[str, int, str]:
    head, number = _parts(name)
    return head, number, name


def _follows(one: str, other: str) -> bool:
    (head, number), (next_head, next_number) = _parts(one), _parts(other)
    return head == next_head and number >= 0 and next_number == number + 1


def _parts(name: str) -> tuple[str, int]:
    """Its number is -1 where it ends in none."""
    head, _, number = name.rpartition("-")
    return (head, int(number)) if number.isascii() and number.isdecimal() and len(number) < 10 else (name, -1)
