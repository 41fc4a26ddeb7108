"""A job's life as a table. The tests walk it and the documentation draws it; a missing pair is our bug."""

from collections.abc import Mapping
from enum import StrEnum

from sterna.model.errors import InvariantBroken


class Phase(StrEnum):
    WAITING = "Waiting"  # accepted; holds nothing
    RUNNING = "Running"  # holds at least its minimum
    RESIZING = "Resizing"  # some of its workers are coming or going; it trains on, or is about to again
    SUSPENDED = "Suspended"  # by its owner; holds nothing and asks for nothing
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Trigger(StrEnum):
    STARTED = "started"
    RESIZED = "resized"
    SETTLED = "settled"
    PREEMPTED = "preempted"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


TRANSITIONS: Mapping[tuple[Phase, Trigger], Phase] = {
    (Phase.WAITING, Trigger.STARTED): Phase.RUNNING,
    (Phase.WAITING, Trigger.SUSPENDED): Phase.SUSPENDED,
    (Phase.WAITING, Trigger.FAILED): Phase.FAILED,  # refused: its deadline passed, or its owner made it invalid
    (Phase.RUNNING, Trigger.RESIZED): Phase.RESIZING,
    (Phase.RUNNING, Trigger.PREEMPTED): Phase.WAITING,
    (Phase.RUNNING, Trigger.SUSPENDED): Phase.SUSPENDED,
    (Phase.RUNNING, Trigger.SUCCEEDED): Phase.SUCCEEDED,
    (Phase.RUNNING, Trigger.FAILED): Phase.FAILED,
    (Phase.RESIZING, Trigger.RESIZED): Phase.RESIZING,
    (Phase.RESIZING, Trigger.SETTLED): Phase.RUNNING,
    (Phase.RESIZING, Trigger.PREEMPTED): Phase.WAITING,
    (Phase.RESIZING, Trigger.SUSPENDED): Phase.SUSPENDED,
    (Phase.RESIZING, Trigger.SUCCEEDED): Phase.SUCCEEDED,
    (Phase.RESIZING, Trigger.FAILED): Phase.FAILED,
    (Phase.SUSPENDED, Trigger.RESUMED): Phase.WAITING,
    (Phase.SUSPENDED, Trigger.FAILED): Phase.FAILED,
}

FINISHED = frozenset({Phase.SUCCEEDED, Phase.FAILED})  # nothing leads out of these: the first ending wins


def after(phase: Phase, trigger: Trigger) -> Phase:
    """The phase that follows, or `InvariantBroken` where the table has no such pair."""
    try:
        return TRANSITIONS[phase, trigger]
    except KeyError:
        raise InvariantBroken(f"a job that is {phase} cannot be {trigger}") from None
