"""Why a job waits, runs where it runs, shrank or moved, and what would have to change: the answer of `explain`. Pure.

The words are the same in every engine. What an engine alone knows (an operator that does not renew its lease, a pod
that cannot pull its image) is passed in as sentences.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sterna.lifecycle.gang_roles import size_of
from sterna.lifecycle.job_record import Record, nodes_of
from sterna.lifecycle.remedies import SOONER, shortage
from sterna.model.jobs import JobSpec, Worker
from sterna.model.nodes import Node
from sterna.model.phases import FINISHED, Phase
from sterna.model.resources import Resources
from sterna.model.why import Because, Why

FIRST_DECISION = "it waits for its first decision"
NEXT_CYCLE = "the next cycle looks at it"


class Reason(NamedTuple):
    """What was last said about the job: by a decision, or by what happened since."""

    why: str
    numbers: Mapping[str, float | str]
    sentence: str

    @staticmethod
    def of(because: Because) -> "Reason":
        return Reason(because.why.value, dict(because.numbers), because.sentence)


class Decided(NamedTuple):
    """What the latest decision that saw the job has for it."""

    revision: int | None  # None: this engine does not keep it
    at: str | None  # a moment, as text
    workers_now: int | None  # None: the decision did not see the job
    granted: int
    places: Sequence[str]
    changes_something: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainFacts:
    """What an engine knows of the job."""

    job_id: str
    phase: Phase
    message: str
    assigned: tuple[Worker, ...]
    suspended: bool
    decided: bool  # did a scheduler ever look at it?
    reason: Reason | None  # None: there is none to tell
    left_alone: bool = False  # no scheduler has a say about it, and `message` says why
    absent: str = ""  # why no scheduler decides at present. Empty: one does


def explanation(facts: ExplainFacts, *, would_change: list[str], decision: Decided | None) -> Record:
    """All but the history. `decision` None: none is known."""
    reason = facts.reason
    return {
        "job": facts.job_id,
        "phase": facts.phase.value,
        "summary": summary(facts),
        "because": None
        if reason is None
        else {"why": reason.why, "numbers": dict(reason.numbers), "sentence": reason.sentence},
        "wouldChange": [] if facts.phase in FINISHED else would_change,
        "decision": None
        if decision is None
        else {
            "revision": decision.revision,
            "at": decision.at,
            "workersNow": decision.workers_now,
            "workersGranted": decision.granted,
            "places": list(decision.places),
            "changesSomething": decision.changes_something,
        },
    }


def summary(facts: ExplainFacts) -> str:
    """How the job stands and why, in one sentence."""
    said = facts.message or (facts.reason.sentence if facts.reason is not None else "no reason is known")
    since = f"; {facts.absent}, so this is how things stood then" if facts.absent else ""
    if facts.phase in FINISHED:
        return f"it {facts.phase.value.lower()}: {facts.message}"
    if facts.left_alone:
        return facts.message
    if facts.assigned:
        size, nodes = size_of(facts.assigned), ", ".join(nodes_of(facts.assigned))
        doing = "is being moved or resized" if facts.phase is Phase.RESIZING else "runs"
        return f"it {doing} with {size} worker{'s' if size != 1 else ''} on {nodes}: {said}{since}"
    if facts.suspended:
        return "it is suspended: its owner suspended it"
    if not facts.decided:
        return f"{FIRST_DECISION}; {facts.absent}" if facts.absent else FIRST_DECISION
    return f"it waits: {said}{since}"


def would_change(
    facts: ExplainFacts,
    spec: JobSpec | None,
    rooms: Iterable[tuple[Node, Resources]] | None,
    *,
    troubles: Sequence[str] = (),
) -> list[str]:
    """What would have to happen for the job to get more, or to come up.

    `rooms` is what each node has free, None: not known. `troubles` say what keeps its workers from coming up.
    """
    if not facts.decided:
        return [NEXT_CYCLE]
    why = "" if facts.reason is None else facts.reason.why
    found = [*([SOONER[Why(why)]] if why in SOONER else []), *troubles]
    if not facts.assigned and not facts.suspended and spec is not None and rooms is not None:
        found += shortage(spec, rooms)
    return found
