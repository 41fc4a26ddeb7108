"""What a Migration object says of itself: its phase as it is, and its status as it is to be written. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.objects import MigrationObject
from sterna.engines.kubernetes.status.standing import Change, Past
from sterna.lifecycle.asked_moves import Denied
from sterna.model.migrations import MigrationPhase

Status = dict[str, Any]


def key_of(found: MigrationObject) -> str:
    """What a job's change names it by: one that is made again under the same name is another one."""
    return f"{found.metadata.namespace}/{found.metadata.name}/{found.metadata.uid}"


def name_of(key: str) -> str:
    """For people."""
    return key.rpartition("/")[0]


def phase_of(found: MigrationObject) -> MigrationPhase:
    try:
        return MigrationPhase(_status(found).get("phase") or MigrationPhase.PENDING)
    except ValueError:
        return MigrationPhase.PENDING


def moving(found: MigrationObject, changes: Sequence[Change], now: str) -> Status:
    """Under way, by these changes of jobs."""
    left = sorted({w.node for change in changes for w in change.before if w not in change.after})
    reached = sorted({w.node for change in changes for w in change.after if w not in change.before})
    what = f"{len(changes)} job{'s' if len(changes) > 1 else ''}"
    message = f"{what}: from {', '.join(left)} to {', '.join(reached)}"
    places = {"from": ",".join(left), "to": ",".join(reached), "startedAt": now}
    return {**_said(found, MigrationPhase.MOVING, "Moving", message, now), **places}


def refused(found: MigrationObject, denied: Denied, now: str) -> Status:
    return {**_said(found, MigrationPhase.REFUSED, denied.refusal, denied.message, now), "finishedAt": now}


def over(found: MigrationObject, pasts: Sequence[Past], now: str) -> Status:
    """By how the changes that it was carried out by have ended; none: their jobs are gone."""
    failed = next((past for past in pasts if past.result != "Succeeded"), None)
    if not pasts:
        said = _said(found, MigrationPhase.FAILED, "JobGone", "the job ended or was deleted before it had moved", now)
    elif failed is not None:
        said = _said(found, MigrationPhase.FAILED, "Interrupted", failed.message or "the move was interrupted", now)
    else:
        message = f"training went on on {', '.join(sorted({w.node for past in pasts for w in past.after}))}"
        said = _said(found, MigrationPhase.SUCCEEDED, "Moved", message, now)
    left = sorted({w.node for past in pasts for w in past.before if w not in past.after})
    reached = sorted({w.node for past in pasts for w in past.after if w not in past.before})
    places = {"from": ",".join(left), "to": ",".join(reached)} if pasts else {}
    downtimes = [past.downtime_s for past in pasts if past.downtime_s is not None]
    steps = [past.committed_step for past in pasts if past.committed_step is not None]
    costs = {"downtimeSeconds": max(downtimes)} if downtimes else {}
    committed = {"committedStep": min(steps)} if steps else {}
    return {**said, **places, **costs, **committed, "finishedAt": now}


def _said(found: MigrationObject, phase: MigrationPhase, reason: str, message: str, now: str) -> Status:
    condition = {
        "type": phase.value,
        "status": "True",
        "reason": str(reason),
        "message": message,
        "observedGeneration": found.metadata.generation,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
    }
    known = [other for other in _status(found).get("conditions") or () if other.get("type") != phase.value]
    return {
        "phase": phase.value,
        "reason": str(reason),
        "message": message,
        "observedGeneration": found.metadata.generation,
        "conditions": [*({**other, "status": "False"} for other in known), condition],
    }


def _status(found: MigrationObject) -> Status:
    body = msgspec.json.decode(found.status) if bytes(found.status) else None
    return body if isinstance(body, dict) else {}
