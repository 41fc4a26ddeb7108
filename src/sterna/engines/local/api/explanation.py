"""Why a job waits, runs where it runs, shrank or moved, in numbers and in words; and what would have to change."""

from typing import Any

from sterna.engines.local.api.records import Record, moment
from sterna.engines.local.loop.engine import LocalEngine
from sterna.engines.local.store.job_book import LocalJob
from sterna.engines.local.world.node_index import Roster
from sterna.lifecycle.remedies import SOONER, shortage
from sterna.model.jobs import Job
from sterna.model.phases import Phase
from sterna.model.resources import NOTHING, Resources
from sterna.model.why import Because
from sterna.planner.reasons import Reasons


def explanation(job: LocalJob, engine: LocalEngine, roster: Roster, taken: dict[Any, Resources]) -> Record:
    """All but the history, which whoever asks adds."""
    row = job.row
    because = _because(job, engine)
    would = _would_change(job, because, roster, taken) if not row.finished else []
    return {
        "job": row.id,
        "phase": row.phase.value,
        "summary": _summary(job, because),
        "because": None
        if because is None
        else {"why": because.why.value, "numbers": dict(because.numbers), "sentence": because.sentence},
        "wouldChange": would,
        "decision": _decision(job, engine),
    }


def _because(job: LocalJob, engine: LocalEngine) -> Because | None:
    """Of the latest decision that saw the job. None: none did yet."""
    if engine.view is None or engine.decision is None or job.row.finished:
        return None
    seen = engine.view.by_id.get(job.row.id)
    return None if seen is None else Reasons(engine.view, engine.decision).of(seen)


def _summary(job: LocalJob, because: Because | None) -> str:
    row = job.row
    if row.finished:
        return f"it {row.phase.value.lower()}: {row.message}"
    if row.suspended:
        return "it is suspended: its owner suspended it"
    if row.assigned:
        nodes = ", ".join(sorted({worker.node for worker in row.assigned}))
        size = job.value.size if job.value is not None else len(row.assigned)
        doing = "is being moved or resized" if row.phase is Phase.RESIZING else "runs"
        why = row.message or (because.sentence if because is not None else "")
        return f"it {doing} with {size} worker{'s' if size != 1 else ''} on {nodes}: {why}"
    if because is None:
        return "it waits for its first decision"
    return f"it waits: {because.sentence}"


def _would_change(job: LocalJob, because: Because | None, roster: Roster, taken: dict[Any, Resources]) -> list[str]:
    if because is None:
        return ["the next cycle looks at it"]
    found = [SOONER[because.why]] if because.why in SOONER else []
    if job.row.assigned or job.row.suspended:
        return found
    rooms = [(node, node.allocatable.minus(taken.get(node.id, NOTHING))) for node in roster.cluster.nodes]
    return [*found, *shortage(job.spec, rooms)]


def _decision(job: LocalJob, engine: LocalEngine) -> Record | None:
    view, decision = engine.view, engine.decision
    if view is None or decision is None:
        return None
    seen: Job | None = view.by_id.get(job.row.id)
    return {
        "revision": decision.revision,
        "at": moment(view.now_s),
        "workersNow": seen.size if seen is not None else None,
        "workersGranted": decision.target.workers_of(job.row.id),
        "places": [worker.node for worker in decision.layout.workers_of(job.row.id)],
        "changesSomething": decision.changes_something,
    }
