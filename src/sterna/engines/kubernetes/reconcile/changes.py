"""The change in a job's standing: opened by a decision or a loss, closed once its pods show that it trains again. Pure.

Which kind it is, what is counted and how it is told are every engine's rules (`lifecycle/changes.py`). A change follows
what happens and never causes it.
"""

from dataclasses import replace
from typing import Any

from sterna.engines.kubernetes.reconcile.observed_pods import Seen
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.standing import Change, Past, Progress, Standing
from sterna.lifecycle.changes import ChangeKind, counted, disruptions_with, kind_going_on, kind_of
from sterna.lifecycle.gang_roles import first_rank, leader_of
from sterna.model.jobs import Worker
from sterna.model.phases import Phase, Trigger, after
from sterna.model.workload import Contract

SUCCEEDED, FAILED = "Succeeded", "Failed"
_HISTORY_KEPT = 20

Workers = tuple[Worker, ...]


def opened(
    standing: Standing, *, before: Workers, to: Workers, why: str, message: str, now_s: float, migration: str = ""
) -> Standing:
    """With a change from `before` to `to` open, or the open one going on to `to`."""
    if (change := standing.change) is not None:
        first = change.before or before
        kind = kind_going_on(change.kind, first, to)
        change = change._replace(before=first, after=to, kind=kind, migration=migration or change.migration)
        return replace(standing, change=change)
    if not before:
        return standing  # a start disrupts no worker
    return replace(
        standing, change=Change(kind_of(before, to), why, message, before, to, began_s=now_s, migration=migration)
    )


def restart_opened(standing: Standing, *, why: str, message: str, now_s: float) -> Standing:
    """Something ended or was lost that should not have."""
    if standing.change is not None:
        if standing.change.kind == ChangeKind.RESTART:
            return standing
        standing = closed(standing, FAILED, now_s=now_s, message=message)
    held = standing.assigned
    return replace(standing, change=Change(ChangeKind.RESTART, why, message, held, held, began_s=now_s))


def closed(
    standing: Standing, result: str, *, now_s: float, downtime_s: float | None = None, message: str | None = None
) -> Standing:
    """The change is over: what it cost is known as far as it ever will be. The newest of `history` tells."""
    change = standing.change
    if change is None:
        return standing
    past = Past(
        change.kind,
        change.why,
        change.message if message is None else message,
        change.before,
        standing.assigned,
        change.began_s,
        now_s,
        downtime_s,
        change.committed_step,
        result,
        change.migration,
    )
    values: dict[str, Any] = {"change": None, "history": (*standing.history, past)[-_HISTORY_KEPT:]}
    if result == SUCCEEDED:
        values |= counted(standing, change.kind)
        values["disruptions"] = disruptions_with(standing.disruptions, change.kind, now_s, downtime_s)
        if downtime_s is not None:
            values["progress"] = (standing.progress or Progress())._replace(restart_s=downtime_s)
    return replace(standing, **values)


def followed(look: Look, now_s: float) -> Standing:
    """The standing with its open change brought up to date with what the pods do."""
    standing, change = look.standing, look.standing.change
    if change is None:
        return _settled(standing) if look.all_run else standing
    leavers = [seen for seen in (*look.strays, *look.vanished) if not look.is_seated(seen)]
    if change.stopped_s is None and _somebody_stops(look):
        change = _with_stop(look, leavers, now_s)
        standing = standing if change is standing.change else replace(standing, change=change)
    gone = all(seen.over or look.is_out_of_reach(seen) for seen in look.strays)
    if not standing.seats:
        nothing_follows = change.kind == ChangeKind.PREEMPTION and standing.phase is not Phase.RESIZING
        return closed(standing, SUCCEEDED, now_s=now_s) if nothing_follows and gone else standing
    arrived = set(standing.assigned) == set(change.after) or change.kind == ChangeKind.RESTART
    if not gone or not arrived or not look.all_run:
        return standing
    return _settled(closed(standing, SUCCEEDED, now_s=now_s, downtime_s=_downtime_s(look, change)))


def _settled(standing: Standing) -> Standing:
    if standing.phase is Phase.RESIZING and standing.seats:
        return replace(standing, phase=after(standing.phase, Trigger.SETTLED))
    return standing


def _somebody_stops(look: Look) -> bool:
    change = look.standing.change
    return change is not None and (
        look.workload.contract is Contract.RESTART or not set(change.before) <= set(change.after)
    )


def _with_stop(look: Look, leavers: list[Seen], now_s: float) -> Change:
    """With the moment when the last of those that go was seen to have ended; unknown as long as one runs."""
    change = look.standing.change
    assert change is not None  # only asked while one is open
    if any(seen.end is None and not look.is_out_of_reach(seen) for seen in look.strays):
        return change
    moments = [seen.end.at_s for seen in leavers if seen.end is not None and seen.end.at_s is not None]
    return change._replace(stopped_s=max(moments, default=now_s))


def _downtime_s(look: Look, change: Change) -> float | None:
    """How long training stood still, from the last end to the new leader's start. None: it is not known."""
    match look.workload.contract:
        case Contract.RESTART:
            first = first_rank(look.standing.assigned)
            place = first[:2] if first is not None else leader_of(look.workload, look.standing.assigned)
            seen = look.current.get(place) if place is not None else None
            started_s = seen.started_s if seen is not None else None
            if started_s is None or change.stopped_s is None:
                return None
            return max(0.0, started_s - change.stopped_s)
        case Contract.PARAMETER_SERVER:
            return 0.0 if change.kind != ChangeKind.RESTART else None  # those that stay train on
        case _:
            return None
