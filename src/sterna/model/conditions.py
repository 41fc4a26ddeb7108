"""The conditions of a job as its status shows them: a list with rules, so a pure function from list to list.

The rules are those that users of TFJob know. A job that ended stays as it ended, running and restarting exclude each
other, and the newest change stands last because `kubectl get` prints the last one. What a job may do next is
`phases.py`, and which condition is true when is `lifecycle/condition_rules.py`; here is only the list.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple


class ConditionType(StrEnum):
    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    FIELDS_NOT_HONOURED = "FieldsNotHonoured"  # what its spec asks for and does not get, by path; first in the list
    # ours, which the kinds of others do not have; `OURS` below
    ADMITTED = "Admitted"  # it has its places
    GANG_READY = "GangReady"  # every worker it should hold is there and ready
    RESIZING = "Resizing"
    MIGRATING = "Migrating"
    PREEMPTED = "Preempted"  # it had to let go of everything, and waits to go on
    EDIT_IGNORED = "EditIgnored"  # its spec as it is now is not valid: it goes by the last one that was
    SAVE_FAILING = (
        "SaveFailing"  # its checkpoints, or what is kept about it, cannot be written; told by the local engine
    )


class Status(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(NamedTuple):
    type: ConditionType
    status: Status
    reason: str  # CamelCase, from a closed list
    message: str  # a sentence for people
    updated_s: float  # when anything about it last changed
    transition_s: float  # when its status last changed
    observed_generation: int = 0  # of the job's spec that this was said about

    def says_the_same(self, other: "Condition") -> bool:
        return self[:4] == other[:4]  # type, status, reason, message


Conditions = tuple[Condition, ...]

TERMINAL = frozenset({ConditionType.SUCCEEDED, ConditionType.FAILED})
OURS = (
    ConditionType.ADMITTED,
    ConditionType.GANG_READY,
    ConditionType.RESIZING,
    ConditionType.MIGRATING,
    ConditionType.PREEMPTED,
)

# What a condition does to others when it becomes True. TFJob leaves Restarting as it was when a job ends; we do not,
# because a finished job that claims to be restarting misleads users and programs that wait for it.
_EVICTS: Mapping[ConditionType, frozenset[ConditionType]] = {
    ConditionType.RUNNING: frozenset({ConditionType.RESTARTING}),
    ConditionType.RESTARTING: frozenset({ConditionType.RUNNING}),
}
_TURNS_FALSE: Mapping[ConditionType, frozenset[ConditionType]] = {
    ConditionType.RUNNING: frozenset({ConditionType.SUSPENDED}),
    ConditionType.RESTARTING: frozenset({ConditionType.SUSPENDED}),
    ConditionType.SUSPENDED: frozenset({ConditionType.RUNNING, ConditionType.RESTARTING}),
    ConditionType.SUCCEEDED: frozenset({ConditionType.RUNNING, ConditionType.RESTARTING}),
    ConditionType.FAILED: frozenset({ConditionType.RUNNING, ConditionType.RESTARTING}),
}


def said(
    kind: ConditionType, status: Status, *, reason: str, message: str, now_s: float, generation: int = 0
) -> Condition:
    """A condition as news: both times are now."""
    return Condition(kind, status, reason, message, now_s, now_s, generation)


def with_condition(conditions: Conditions, news: Condition) -> Conditions:
    """The list after `news`. News that say what is known already move nothing and touch no time."""
    if ended(conditions):
        return conditions  # the first ending wins, whatever is heard later
    old = next((condition for condition in conditions if condition.type is news.type), None)
    if old is not None and old.says_the_same(news):
        fresh = old._replace(observed_generation=max(old.observed_generation, news.observed_generation))
        return tuple(fresh if condition is old else condition for condition in conditions)
    if old is not None and old.status is news.status:
        news = news._replace(transition_s=old.transition_s)
    others = (condition for condition in conditions if condition is not old)
    if news.type is ConditionType.FIELDS_NOT_HONOURED:
        return (news, *others)  # about the spec rather than the job: the last one still tells how the job is
    return (*_after_effects(others, news), news)


def ended(conditions: Conditions) -> bool:
    return any(condition.type in TERMINAL and condition.status is Status.TRUE for condition in conditions)


def is_true(conditions: Conditions, kind: ConditionType) -> bool:
    return any(condition.type is kind and condition.status is Status.TRUE for condition in conditions)


def _after_effects(others: Iterable[Condition], news: Condition) -> Conditions:
    if news.status is not Status.TRUE:
        return tuple(others)
    evicted = _EVICTS.get(news.type, frozenset())
    denied = _TURNS_FALSE.get(news.type, frozenset())
    return tuple(
        _turned_false(other, news) if other.type in denied and other.status is not Status.FALSE else other
        for other in others
        if other.type not in evicted
    )


def _turned_false(condition: Condition, news: Condition) -> Condition:
    return news._replace(type=condition.type, status=Status.FALSE, transition_s=news.updated_s)
