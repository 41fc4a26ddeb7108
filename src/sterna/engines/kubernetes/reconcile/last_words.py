"""What a job learns from the ends of its pods: last messages, places that are done, ends still to be answered. Pure.

Every end is taken into account once: the ends of pods that are still there are remembered in the standing, which is
written before anything follows from it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sterna.engines.kubernetes.reconcile.observed_pods import End, EndKind, Seen
from sterna.engines.kubernetes.reconcile.pod_ends import who
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason, names_in_words
from sterna.engines.kubernetes.status.standing import Progress, Standing
from sterna.lifecycle.gang_roles import Place, first_rank, size_of
from sterna.model.workload import Contract, RestartPolicy
from sterna.protocol import Status, WorkerPhase

_TOLD_MAX = 4  # events of pods that failed since the last look


class Heard(NamedTuple):
    standing: Standing
    fresh: tuple[Seen, ...]  # pods in their seats whose ends are not answered yet
    events: tuple[JobEvent, ...]


def heard(look: Look) -> Heard:
    standing = look.standing
    known = set(standing.answered)
    fresh: list[Seen] = []
    failed: list[tuple[Seen, End]] = []
    restarts = standing.restarts
    speaker = _speaker(look)
    for seen in sorted((*look.pods, *look.vanished), key=lambda found: found.name):
        for end in (seen.earlier, seen.end):
            if end is None or end.key in known:
                continue
            if end.word is not None and seen.place == speaker:
                standing = _with_word(look, standing, seen, end.word)
            if end.kind is EndKind.FAILED and look.is_seated(seen):
                failed.append((seen, end))
            if end is seen.earlier:
                restarts += look.is_seated(seen)
            elif look.is_seated(seen):
                fresh.append(seen)
    answered, done = _answered(look), _done(look)
    if (answered, done, restarts) != (standing.answered, standing.done, standing.restarts):
        standing = replace(standing, answered=answered, done=done, restarts=restarts)
    return Heard(standing, tuple(fresh), _told(failed))


def _told(failed: Sequence[tuple[Seen, End]]) -> tuple[JobEvent, ...]:
    """One event for each pod; of many that failed together, for the first few and for all others."""
    shown = failed if len(failed) <= _TOLD_MAX else failed[: _TOLD_MAX - 1]
    events = [JobEvent(Reason.EXITED, f"{who(seen)}: {end.message}", warning=True) for seen, end in shown]
    if rest := failed[len(shown) :]:
        names = names_in_words([seen.name for seen, _ in rest])
        events.append(JobEvent(Reason.EXITED, f"{len(rest)} more pods failed: {names}", warning=True))
    return tuple(events)


def _answered(look: Look) -> tuple[str, ...]:
    """Ends of pods that are still there; those of other pods are not asked about again."""
    ends: list[End | None] = []
    for seen in look.pods:
        ends += (seen.earlier, seen.end)
    return tuple(sorted(end.key for end in ends if end is not None))


def _done(look: Look) -> tuple[Place, ...]:
    through = {
        seen.place
        for seen in (*look.current.values(), *look.vanished)
        if seen.place is not None
        and look.is_seated(seen)
        and seen.end is not None
        and seen.end.kind is EndKind.COMPLETED
        and seen.policy is not RestartPolicy.ALWAYS
    }
    return tuple(sorted((look.done | through) & look.seats.keys()))


def _speaker(look: Look) -> Place | None:
    """The place whose messages count as the job's: that of rank 0."""
    first = first_rank(look.gang)
    return None if first is None else first[:2]


def _with_word(look: Look, standing: Standing, seen: Seen, word: Status) -> Standing:
    before = standing.progress or Progress()
    made = word.checkpoint.step if word.checkpoint is not None else None
    committed = word.step if made is None and word.phase is WorkerPhase.COMMITTED else made
    progress = Progress(
        step=word.step,
        epoch=word.epoch,
        units_done=word.units_done,
        units_total=word.units_total,
        save_s=word.save_s if word.save_s is not None else before.save_s,
        restart_s=before.restart_s,
        step_s=word.step_s if word.step_s is not None else before.step_s,
        workers=size_of(look.gang) if word.step_s is not None else before.workers,
    )
    lost = 0
    if look.workload.contract in (Contract.RESTART, Contract.TORCHRUN):  # the others have no step in common
        lost = max(0, before.step - (word.restored_step or 0))
    change = standing.change
    if change is not None and committed is not None and not look.is_seated(seen):
        change = change._replace(committed_step=committed)
    return replace(standing, progress=progress, steps_lost=standing.steps_lost + lost, change=change)
