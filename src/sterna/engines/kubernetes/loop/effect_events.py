"""What a job's owner is told of effects: how many pods and services were made or deleted, and which were not. Pure.

Effects that were tried together are told together: a job of forty workers has one event of forty pods, not forty that
would use up what may be told of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sterna.engines.kubernetes.reconcile.effects import (
    CREATIONS,
    AdoptPod,
    AdoptService,
    CreatePod,
    CreateService,
    DeletePod,
    DeleteService,
    Effect,
)
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason, names_in_words
from sterna.model.errors import SternaError


class Tried(NamedTuple):
    """One effect, and what became of it."""

    effect: Effect
    done: bool  # now; False: it was so already, or it failed
    error: SternaError | None = None


class _Words(NamedTuple):
    kind: type
    verb: str
    noun: str
    done: Reason
    failed: Reason


_ADOPTED = "Put back the owner reference, which was removed, of"
_TOLD = (
    _Words(CreatePod, "Created", "pod", Reason.POD_CREATED, Reason.POD_NOT_CREATED),
    _Words(DeletePod, "Deleted", "pod", Reason.POD_DELETED, Reason.POD_NOT_DELETED),
    _Words(AdoptPod, _ADOPTED, "pod", Reason.POD_ADOPTED, Reason.POD_NOT_ADOPTED),
    _Words(AdoptService, _ADOPTED, "service", Reason.SERVICE_ADOPTED, Reason.SERVICE_NOT_ADOPTED),
    _Words(CreateService, "Created", "service", Reason.SERVICE_CREATED, Reason.SERVICE_NOT_CREATED),
    _Words(DeleteService, "Deleted", "service", Reason.SERVICE_DELETED, Reason.SERVICE_NOT_DELETED),
)


def events_of_effects(tried: Sequence[Tried]) -> tuple[JobEvent, ...]:
    """Of each sort at most one event of what was done, and one of what could not be."""
    events: list[JobEvent] = []
    for words in _TOLD:
        alike = [found for found in tried if isinstance(found.effect, words.kind)]
        if done := [found.effect.name for found in alike if found.done]:
            what = f"{words.noun}" if len(done) == 1 else f"{len(done)} {words.noun}s"
            events.append(JobEvent(words.done, f"{words.verb} {what}: {names_in_words(done)}"))
        failed = [(found.effect.name, found.error) for found in alike if found.error is not None]
        if failed:
            names = names_in_words([name for name, _ in failed])
            events.append(JobEvent(words.failed, f"{names}: {failed[0][1]}", warning=True))
    if renamed := [each for found in tried if found.done and (each := _under_another_name(found.effect))]:
        more = f"; so are {len(renamed) - 1} more names" if len(renamed) > 1 else ""
        events.append(JobEvent(Reason.NAME_TAKEN, renamed[0] + more, warning=True))
    return tuple(events)


def _under_another_name(effect: Effect) -> str:
    """Empty: it has its usual one."""
    if not isinstance(effect, CREATIONS) or not effect.usual:
        return ""
    kind = effect.body["kind"]
    return f"{kind} {effect.usual} is there and is not of this job, or does not go; {effect.name} is used instead"
