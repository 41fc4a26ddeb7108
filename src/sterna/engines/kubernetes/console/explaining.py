"""Why a job waits, runs where it runs, shrank or moved, from its own status; and what would have to change.

The operator wrote down what its last decision said. Whether anybody is there to make the next one, the Lease tells.
"""

from collections.abc import Iterable

from sterna.engines.kubernetes.apiserver.objects import LeaseObject
from sterna.engines.kubernetes.apiserver.port import LEASES, Api, Missing, Refused
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.console.finding import FoundJob
from sterna.engines.kubernetes.console.records import NOT_LOOKED_AT, Record, job_record, moment, size_of
from sterna.engines.kubernetes.console.room import Room
from sterna.engines.kubernetes.process.settings import LEASE
from sterna.engines.kubernetes.reconcile.observed_pods import Seen
from sterna.lifecycle.remedies import SOONER, shortage
from sterna.model.phases import Phase
from sterna.model.why import Because, Why

_SKEW_S = 15.0  # the clock of whoever asks need not be the cluster's


async def absence(api: Api, *, namespace: str, now_s: float) -> str:
    """Why nobody decides at present. Empty: somebody does, or this user may not know."""
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


def explanation(job: FoundJob, pods: Iterable[Seen], room: Room | None, *, nobody: str, now_s: float) -> Record:
    """All but the history, which whoever asks adds. `room` None: the user may not see nodes."""
    standing = job.standing
    record = job_record(job, now_s=now_s, policy="")
    because = _because(job, record)
    told = job.looked_at and not job.managed_by
    return {
        "job": job.id,
        "phase": record["phase"],
        "summary": _summary(job, record, nobody),
        "because": because,
        "wouldChange": [] if standing.finished else _would_change(job, pods, room, nobody),
        "decision": None
        if not told
        else {
            "revision": None,
            "at": moment(standing.as_of_s),
            "workersNow": sum(1 for seen in pods if seen.runs and seen.place is not None and seen.place[0] == "worker"),
            "workersGranted": size_of(standing.assigned),
            "places": [worker.node for worker in standing.assigned],
            "changesSomething": standing.change is not None,
        },
    }


def _because(job: FoundJob, record: Record) -> Record | None:
    """As data, and in a sentence. None: nobody has said anything yet."""
    standing, reason = job.standing, record["reason"]
    if not reason:
        return None
    if reason == standing.reason and reason in set(Why):
        because = Because(Why(reason), standing.numbers)
        return {"why": reason, "numbers": dict(because.numbers), "sentence": because.sentence}
    return {"why": reason, "numbers": dict(standing.numbers), "sentence": record["message"]}


def _summary(job: FoundJob, record: Record, nobody: str) -> str:
    standing, message = job.standing, record["message"]
    since = f"; {nobody}, so this is how things stood then" if nobody and job.looked_at else ""
    if standing.finished:
        return f"it {standing.phase.value.lower()}: {message}"
    if job.managed_by or job.object.terminating:
        return str(message)
    if standing.assigned:
        size = size_of(standing.assigned)
        nodes = ", ".join(record["nodes"])
        doing = "is being moved or resized" if standing.phase is Phase.RESIZING else "runs"
        return f"it {doing} with {size} worker{'s' if size != 1 else ''} on {nodes}: {message}{since}"
    if job.suspended:
        return "it is suspended: its owner suspended it"
    if not job.looked_at:
        return f"it waits: {NOT_LOOKED_AT}" + (f"; {nobody}" if nobody else "")
    return f"it waits: {message or 'nobody has said why'}{since}"


def _would_change(job: FoundJob, pods: Iterable[Seen], room: Room | None, nobody: str) -> list[str]:
    found = [f"an operator runs: {nobody}"] if nobody else []
    if job.managed_by:
        return [f"{job.managed_by} looks after it, or managedBy is taken out of its spec"]
    if job.problem:
        return [*found, f"its spec makes sense: {job.problem}"]
    if not job.looked_at:
        return found or ["the next cycle looks at it"]
    reason = job.standing.reason
    if reason in set(Why) and Why(reason) in SOONER:
        found.append(SOONER[Why(reason)])
    found += [f"{seen.name} comes up: {seen.trouble.message}" for seen in pods if seen.trouble is not None]
    if not job.standing.assigned and not job.suspended and job.spec is not None and room is not None:
        found += shortage(job.spec, room.rooms())
    return found
