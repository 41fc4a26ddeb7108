"""Moves that were begun are brought to their end: a job that let go in order to be elsewhere goes there. Pure.

A gang of which no worker survives a move lets go of everything before it takes up anything, unless there is room for
both. What comes after is another cycle's decision, maybe that of a scheduler that was started since: its placement sees
a job without a place, and knows nothing of where it was to go. The job's open change does.
"""

from collections.abc import Mapping

from sterna.lifecycle.changes import ChangeKind
from sterna.lifecycle.job_state import OpenChange
from sterna.model.ids import JobId
from sterna.model.jobs import Worker
from sterna.model.layout import Layout
from sterna.model.phases import Phase
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target
from sterna.placement.moving import Moving
from sterna.placement.rebalancing import finish_move
from sterna.planner.decide import Placing


def is_begun(phase: Phase, held: tuple[Worker, ...], change: OpenChange) -> bool:
    """Has the job let go of everything in order to be where the change leads?"""
    return phase is Phase.RESIZING and not held and change.kind == ChangeKind.MIGRATION and bool(change.after)


def finish(moving: Moving, moves: Mapping[JobId, OpenChange]) -> None:
    """Put these jobs where they were to go, each as a whole, as far as there is room."""
    for job_id, change in moves.items():
        finish_move(moving, job_id, change.after, why=change.why)


def placing(place: Placing, moves: Mapping[JobId, OpenChange]) -> Placing:
    """The placement, with moves that were begun on top of it."""
    if not moves:
        return place

    def placed(view: Snapshot, target: Target) -> Layout:
        moving = Moving(view, place(view, target))
        finish(moving, moves)
        return moving.layout

    return placed
