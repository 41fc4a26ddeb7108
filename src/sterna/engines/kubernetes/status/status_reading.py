"""A job's status as it is read from the cluster. Whatever was written there, reading it never fails. Pure."""

from collections.abc import Mapping
from typing import Any

from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.apiserver.timestamps import moment_s, second_text
from sterna.engines.kubernetes.reconcile.job_view import JobStatus, ReplicaCount
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.status.standing_codec import standing_read
from sterna.model.conditions import OURS, TERMINAL, Condition, Conditions, ConditionType, Status
from sterna.model.phases import Phase

_TYPES = {kind.value: kind for kind in ConditionType}
_FIRST = (*OURS, ConditionType.EDIT_IGNORED)
_STATES = {state.value: state for state in Status}


def status_read(body: object) -> JobStatus:
    found: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    standing, note = standing_read(found.get("scheduling"))
    return JobStatus(
        body=found,
        conditions=_sensible(conditions_read(found.get("conditions")), standing),
        replicas=_replicas(found.get("replicaStatuses")),
        completed_s=moment_s(found.get("completionTime")),
        recorded=standing,
        note=note,
    )


def _sensible(conditions: Conditions, standing: Standing) -> Conditions:
    """Without an end that is not the job's: only its standing says that a job has ended, and how."""
    if standing.enqueued_s is None:
        return conditions  # no operator of ours has seen it: another one may have seen it end
    own = {Phase.SUCCEEDED: ConditionType.SUCCEEDED, Phase.FAILED: ConditionType.FAILED}.get(standing.phase)
    return tuple(found for found in conditions if found.type not in TERMINAL or found.type is own)


def conditions_read(value: object) -> Conditions:
    """Those that we know, each once, in their order."""
    conditions: dict[ConditionType, Condition] = {}
    for part in value if isinstance(value, list | tuple) else ():
        found = _condition(part)
        if found is not None and found.type not in conditions:
            conditions[found.type] = found
    return tuple(conditions.values())


def conditions_text(conditions: Conditions) -> list[Body]:
    """Ours go first: `kubectl get` prints the last one, and programs expect that to be one of those they know."""
    ours = sorted((c for c in conditions if c.type in _FIRST), key=lambda condition: _FIRST.index(condition.type))
    known = [condition for condition in conditions if condition.type not in _FIRST]
    return [_text(condition) for condition in (*ours, *known)]


def _text(condition: Condition) -> Body:
    return {
        "type": condition.type.value,
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        "lastUpdateTime": second_text(condition.updated_s),
        "lastTransitionTime": second_text(condition.transition_s),
        "observedGeneration": condition.observed_generation,
    }


def _condition(part: object) -> Condition | None:
    if not isinstance(part, Mapping):
        return None
    kind, state = _TYPES.get(str(part.get("type"))), _STATES.get(str(part.get("status")))
    if kind is None or state is None:
        return None
    transition_s = moment_s(part.get("lastTransitionTime")) or 0.0
    updated_s = moment_s(part.get("lastUpdateTime")) or transition_s
    generation = part.get("observedGeneration")
    return Condition(
        kind,
        state,
        str(part.get("reason") or ""),
        str(part.get("message") or ""),
        updated_s,
        transition_s,
        generation if isinstance(generation, int) else 0,
    )


def _replicas(value: object) -> dict[str, ReplicaCount]:
    if not isinstance(value, Mapping):
        return {}
    return {str(kind): _count(part) for kind, part in value.items() if isinstance(part, Mapping)}


def _count(part: Mapping[str, Any]) -> ReplicaCount:
    numbers = (part.get(key) for key in ReplicaCount._fields)
    return ReplicaCount(*(max(0, number) if isinstance(number, int) else 0 for number in numbers))
