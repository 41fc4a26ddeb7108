"""What a cluster tells of why a job waits, runs where it runs, shrank or moved: its own status, its pods, its nodes.

The operator wrote down what its last decision said. The Lease tells whether an operator runs to make the next one.
"""

from collections.abc import Iterable

from sterna.engines.kubernetes.apiserver.objects import LeaseObject
from sterna.engines.kubernetes.apiserver.port import LEASES, Api, Missing, Refused
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.console.finding import FoundJob
from sterna.engines.kubernetes.console.node_room import Room
from sterna.engines.kubernetes.console.records import told_of
from sterna.engines.kubernetes.process.settings import LEASE
from sterna.engines.kubernetes.reconcile.observed_pods import Seen
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.shared_records import moment
from sterna.lifecycle import explanation as words
from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.job_record import Record
from sterna.model.jobs import Role
from sterna.model.why import Because, Why

_SKEW_S = 15.0  # the clock of the user's machine may differ from the cluster's


async def absence(api: Api, *, namespace: str, now_s: float) -> str:
    """Why no operator decides at present. Empty: one does, or this user may not read the Lease."""
    try:
        lease = await api.get(LEASES, LEASE, namespace=namespace, shape=LeaseObject)
    except Missing:
        return f"no operator has ever run in namespace {namespace}"
    except Refused:
        return ""
    if not lease.spec.holder_identity:
        return f"no operator holds the lease {namespace}/{LEASE}: it was given back"
    renewed_s = moment_s(lease.spec.renew_time)
    silent_s = 0.0 if renewed_s is None else now_s - renewed_s
    if silent_s <= (lease.spec.lease_duration_seconds or 15) + _SKEW_S:
        return ""
    return f"the operator has not renewed its lease {namespace}/{LEASE} for {silent_s:.0f} s"


def explanation(job: FoundJob, pods: Iterable[Seen], room: Room | None, *, absent: str) -> Record:
    """All but the history, which the caller adds. `room` None: the user may not see nodes."""
    standing = job.standing
    phase, reason, message = told_of(job)
    facts = words.ExplainFacts(
        job_id=job.id,
        phase=phase,
        message=message,
        assigned=standing.assigned,
        suspended=job.suspended,
        decided=job.looked_at,
        reason=_reason(standing, reason, message),
        left_alone=bool(job.managed_by) or job.object.terminating,
        absent=absent,
    )
    decision = words.Decided(
        revision=None,
        at=moment(standing.as_of_s),
        workers_now=sum(1 for seen in pods if seen.runs and seen.place is not None and seen.place[0] is Role.WORKER),
        granted=size_of(standing.assigned),
        places=[worker.node for worker in standing.assigned],
        changes_something=standing.change is not None,
    )
    return words.explanation(
        facts,
        would_change=_would_change(job, facts, pods, room),
        decision=decision if job.looked_at and not job.managed_by else None,
    )


def _reason(standing: Standing, reason: str, message: str) -> words.Reason | None:
    """What is most pressing need not be what was decided. None: nothing has been said yet."""
    if not reason:
        return None
    if reason == standing.reason and reason in set(Why):
        return words.Reason.of(Because(Why(reason), standing.numbers))
    return words.Reason(reason, dict(standing.numbers), message)


def _would_change(job: FoundJob, facts: words.ExplainFacts, pods: Iterable[Seen], room: Room | None) -> list[str]:
    found = [f"an operator runs: {facts.absent}"] if facts.absent else []
    if job.managed_by:
        return [f"{job.managed_by} looks after it, or managedBy is taken out of its spec"]
    if job.problem:
        return [*found, f"its spec makes sense: {job.problem}"]
    if found and not facts.decided:
        return found
    troubles = [f"{seen.name} comes up: {seen.trouble.message}" for seen in pods if seen.trouble is not None]
    rooms = None if room is None else room.rooms()
    return [*found, *words.would_change(facts, job.spec, rooms, troubles=troubles)]
