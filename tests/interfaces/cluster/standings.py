"""How jobs stand, as an operator would have written it."""

import time

from sterna.engines.kubernetes.status.standing import Past, Progress, Seat, Standing
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase

NOW_S = time.time()


def at(*nodes: str) -> tuple[Seat, ...]:
    return tuple(Seat(Worker(Role.WORKER, ordinal, NodeId(node)), "abcde") for ordinal, node in enumerate(nodes))


def running(*nodes: str, **more: object) -> Standing:
    values = {"phase": Phase.RUNNING, "reason": "NextInOrder", "message": "it was next", "seats": at(*nodes)}
    moments = {"as_of_s": NOW_S, "first_started_s": NOW_S - 60, "started_s": NOW_S - 60, "enqueued_s": NOW_S - 90}
    return Standing(**{**values, **moments, **more})  # type: ignore[arg-type]


def moved(before: str, after: str) -> Standing:
    """It runs on both nodes, and its worker 0 went from the one to the other a while ago."""
    workers = at(before)[0].worker, at(after)[0].worker
    move = Past(
        kind="migration",
        why="NodeDrained",
        message="the node was emptied",
        before=workers[:1],
        after=workers[1:],
        began_s=NOW_S - 20,
        ended_s=NOW_S - 15,
        downtime_s=4.5,
        committed_step=60,
        result="Succeeded",
    )
    progress = Progress(step=70, epoch=2, units_done=7, units_total=10.0, save_s=0.5)
    return running(after, before, migrations=1, ran_s=30.0, incarnation=2, progress=progress, history=(move,))


DONE = Standing(phase=Phase.SUCCEEDED, reason="Completed", message="it is through", finished_s=NOW_S)
