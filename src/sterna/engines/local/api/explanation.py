"""What the local engine knows of why a job waits, runs where it runs, shrank or moved."""

from typing import Any

from sterna.engines.local.loop.engine import LocalEngine
from sterna.engines.local.store.job_book import LocalJob
from sterna.engines.local.world.node_index import Roster
from sterna.engines.shared_records import moment
from sterna.lifecycle import explanation as words
from sterna.lifecycle.job_record import Record
from sterna.model.resources import NOTHING, Resources
from sterna.model.why import Because
from sterna.planner.reasons import Reasons


def explanation(job: LocalJob, engine: LocalEngine, roster: Roster, taken: dict[Any, Resources]) -> Record:
    """All but the history, which the caller adds."""
    row, because = job.row, _because(job, engine)
    facts = words.ExplainFacts(
        job_id=row.id,
        phase=row.phase,
        message=row.message if row.assigned or row.finished else "",  # of a job that waits it may be an old one
        assigned=row.assigned,
        suspended=row.suspended,
        decided=because is not None,
        reason=None if because is None else words.Reason.of(because),
    )
    rooms = [(node, node.allocatable.minus(taken.get(node.id, NOTHING))) for node in roster.cluster.nodes]
    would_change = words.would_change(facts, job.spec, rooms)
    return words.explanation(facts, would_change=would_change, decision=_decision(job, engine))


def _because(job: LocalJob, engine: LocalEngine) -> Because | None:
    """Of the latest decision that saw the job. None: none did yet."""
    if engine.view is None or engine.decision is None or job.row.finished:
        return None
    seen = engine.view.by_id.get(job.row.id)
    return None if seen is None else Reasons(engine.view, engine.decision).of(seen)


def _decision(job: LocalJob, engine: LocalEngine) -> words.Decided | None:
    view, decision = engine.view, engine.decision
    if view is None or decision is None:
        return None
    seen = view.by_id.get(job.row.id)
    return words.Decided(
        revision=decision.revision,
        at=moment(view.now_s),
        workers_now=None if seen is None else seen.size,
        granted=decision.target.workers_of(job.row.id),
        places=[worker.node for worker in decision.layout.workers_of(job.row.id)],
        changes_something=decision.changes_something,
    )
