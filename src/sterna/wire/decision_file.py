"""A decision as data: target, layout, plan, and the why of every job. What `-o json` prints and a journal keeps.

Only written, never read: to have a decision again, decide its snapshot again.
"""

from typing import Any, assert_never

from sterna.model.considering import ConsideredMove
from sterna.model.events import (
    Event,
    JobFinished,
    JobMigrated,
    JobPreempted,
    JobResized,
    JobStarted,
    JobSubmitted,
    JobWaits,
    NodeDrained,
    NodeJoined,
    NodeLost,
)
from sterna.model.jobs import Job, Role
from sterna.model.plan import Action, Decision, Grow, Outcome
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because
from sterna.planner.reasons import Reasons
from sterna.wire.snapshot_text import API_VERSION, memory_record, workers_record

Record = dict[str, Any]


def decision_record(view: Snapshot, decision: Decision) -> Record:
    """In the order in which a reader asks: how much each job gets, where, what is done about it, and why."""
    reasons = Reasons(view, decision)
    return {
        "apiVersion": API_VERSION,
        "kind": "Decision",
        "revision": decision.revision,
        "nowSeconds": view.now_s,
        "wakeSeconds": decision.wake_s,
        "target": [  # a list, because grants come in order of precedence
            {"job": job_id, "workers": workers, "floor": floor, **because_record(because)}
            for job_id, (workers, floor, because) in decision.target.grants.items()
        ],
        "layout": {job_id: workers_record(workers) for job_id, workers in sorted(decision.layout.workers.items())},
        "plan": [
            {"afterRelease": step.after_release, "actions": [action_record(action) for action in step.actions]}
            for step in decision.steps
        ],
        "jobs": [_verdict(job, decision, reasons) for job in view.jobs],
        **({"considered": [considered_record(move) for move in decision.considered]} if decision.considered else {}),
        "memory": memory_record(decision.memory),
    }


def because_record(because: Because) -> Record:
    """The reason as a word, as numbers and as a sentence."""
    numbers = {"numbers": dict(because.numbers)} if because.numbers else {}
    return {"why": because.why, **numbers, "sentence": because.sentence}


def action_record(action: Action) -> Record:
    verb = "grow" if isinstance(action, Grow) else "shrink"
    return {"do": verb, "job": action.job_id, "to": workers_record(action.to), **because_record(action.because)}


def considered_record(move: ConsideredMove) -> Record:
    """What a rebalancer looked at: `to` is null where the worker stays."""
    seconds = {"benefitSeconds": move.benefit_s, "costSeconds": move.cost_s}
    worker = workers_record((move.worker,))[0]
    return {
        "by": move.by,
        "job": move.job_id,
        "worker": worker,
        "to": move.to,
        **seconds,
        **because_record(move.because),
    }


def outcome_record(outcome: Outcome) -> Record:
    action, held, message, after_s = outcome
    return {"action": action_record(action), "held": held, "message": message, "afterSeconds": after_s}


def event_record(event: Event) -> Record:
    about: Record
    match event:
        case JobSubmitted(job_id=job_id):
            about = {"job": job_id}
        case JobStarted(job_id=job_id, after=after, because=because):
            about = {"job": job_id, "after": workers_record(after), **because_record(because)}
        case JobResized() | JobMigrated():
            moved = {"before": workers_record(event.before), "after": workers_record(event.after)}
            about = {"job": event.job_id, **moved, **because_record(event.because)}
        case JobPreempted(job_id=job_id, before=before, because=because):
            about = {"job": job_id, "before": workers_record(before), **because_record(because)}
        case JobWaits(job_id=job_id, because=because):
            about = {"job": job_id, **because_record(because)}
        case JobFinished(job_id=job_id, phase=phase, message=message):
            about = {"job": job_id, "phase": phase, "message": message}
        case NodeJoined() | NodeLost() | NodeDrained():
            about = {"node": event.node_id}
        case _:
            assert_never(event)
    return {"event": type(event).__name__, "atSeconds": event.at_s, **about}


def _verdict(job: Job, decision: Decision, reasons: Reasons) -> Record:
    """What becomes of one job, the elastic workers counted."""
    wanted = decision.layout.workers_of(job.id)
    sizes = {"workersNow": job.size, "workersNext": sum(worker.role is Role.WORKER for worker in wanted)}
    chosen = decision.chosen.get(job.id)
    pool = {"pool": because_record(chosen)} if chosen is not None else {}
    return {"job": job.id, "phase": job.phase, **sizes, **because_record(reasons.of(job)), **pool}
