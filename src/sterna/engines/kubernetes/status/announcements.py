"""Events of a job, kept in its status until they are known to be recorded. Pure.

An operator that is killed between writing a status and recording what is to be told of it would never tell it: the next
one finds the status as it should be. So what is to be told is part of the status, and numbered; the next operator
records it again, under a name and with a number that make a repeat harmless (`event_recorder.py`). What is recorded
leaves with the next write, or with one of its own when there was none for a while.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from sterna.engines.kubernetes.status.job_events import OF_PODS, JobEvent
from sterna.engines.kubernetes.status.standing import Announcement, Standing

KEPT_MAX = 16  # of one job: only a flood has more at once
MESSAGE_MAX = 500
TIDY_S = 300.0  # what is recorded leaves the status after this time; the API server remembers events for an hour


def with_events(standing: Standing, events: Sequence[JobEvent], now_s: float) -> Standing:
    """With these to be told, after those that are still to be."""
    fresh = tuple(
        Announcement(number, now_s, event.reason, event.message[:MESSAGE_MAX], event.warning, standing.decision)
        for number, event in enumerate(events, standing.announced + 1)
    )
    kept = _kept((*standing.announcements, *fresh))
    return replace(standing, announced=standing.announced + len(fresh), announcements=kept)


def _kept(announcements: tuple[Announcement, ...]) -> tuple[Announcement, ...]:
    """The latest, and of what the job went through rather than what its single pods did."""
    surplus = len(announcements) - KEPT_MAX
    if surplus <= 0:
        return announcements
    of_pods = [found.number for found in announcements if found.reason in OF_PODS][:surplus]
    return tuple(found for found in announcements if found.number not in of_pods)[-KEPT_MAX:]


def without_told(standing: Standing, told: Collection[int]) -> Standing:
    """Without those that are recorded; the same object if none of these is there."""
    left = tuple(found for found in standing.announcements if found.number not in told)
    return standing if len(left) == len(standing.announcements) else replace(standing, announcements=left)


def is_untidy(standing: Standing, told: Collection[int], now_s: float) -> bool:
    """Is something there that was recorded long ago?"""
    return any(found.number in told and now_s >= found.at_s + TIDY_S for found in standing.announcements)


def tidy_s(standing: Standing) -> float | None:
    """When to look whether something can leave. None: there is nothing."""
    return min((found.at_s + TIDY_S for found in standing.announcements), default=None)
