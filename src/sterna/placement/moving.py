"""A layout while moves are tried on it, one after another. What is free is worked out once, then kept up to date.

Hundreds of moves may be tried in one decision (requests of users, moves that were begun), and each must not cost a
look at the whole cluster. A group of moves is made as a whole or not at all.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Worker
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because
from sterna.placement.frame import frame_of
from sterna.placement.room import Room
from sterna.placement.rule_check import relates, unlawful


class Move(NamedTuple):
    job_id: JobId
    worker: Worker  # as the layout has it
    to: NodeId


class Moving:
    """`layout` is how it stands now; the layout that it was made from stays as it was."""

    def __init__(self, view: Snapshot, layout: Layout) -> None:
        self.view = view
        self.layout = layout
        self._workers: dict[JobId, tuple[Worker, ...]] | None = None  # None: nothing was moved yet
        self._becauses: dict[JobId, Because] = {}
        self._room: Room | None = None
        self._on_node: dict[NodeId, dict[JobId, None]] | None = None

    @property
    def room(self) -> Room:
        """What the layout leaves free. A caller that takes something on trial gives it back."""
        if self._room is None:
            self._room = Room.empty(frame_of(self.view.cluster))
            for job_id, held in self.layout.workers.items():
                self._room.hold(self._spec(job_id), held)
        return self._room

    def jobs_on(self, node: NodeId) -> Collection[JobId]:
        """Jobs that have workers there, in the order of the layout; those that came since are last."""
        if self._on_node is None:
            self._on_node = {}
            for job_id, held in self.layout.workers.items():
                for worker in held:
                    self._on_node.setdefault(worker.node, {})[job_id] = None
        return self._on_node.get(node, {}).keys()

    def make(self, moves: Sequence[Move], because: Because) -> bool:
        """All of these, or none. False: one of them does not fit or is not let in, or a rule between pods is broken."""
        made: list[tuple[Move, Worker]] = []
        for move in sorted(moves, key=lambda move: (move.job_id, move.worker.role, move.worker.ordinal)):
            if not self._is_sound(move):
                return self._undone(made)
            made.append((move, self._moved(move)))
        if not self._is_lawful(made):
            return self._undone(made)
        self._note(made, because)
        return True

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _spec(self, job_id: JobId) -> JobSpec:
        return self.view.by_id[job_id].spec

    def _is_sound(self, move: Move) -> bool:
        room, spec = self.room, self._spec(move.job_id)
        at = room.frame.index.get(move.to)
        return (
            at is not None
            and move.to != move.worker.node
            and move.worker in self.layout.workers_of(move.job_id)
            and room.frame.admits(at, spec)
            and room.slots_at(at, spec.request_of(move.worker.role)) > 0
        )

    def _is_lawful(self, made: Sequence[tuple[Move, Worker]]) -> bool:
        """Only where rules relate a job that moves to other pods is the layout looked at."""
        if not any(relates(self.view, self.view.by_id[move.job_id]) for move, _ in made):
            return True
        workers = dict(self.layout.workers)
        for move, new in made:
            workers[move.job_id] = tuple(new if held == move.worker else held for held in workers[move.job_id])
        return not unlawful(self.view, workers)

    def _undone(self, made: Sequence[tuple[Move, Worker]]) -> bool:
        for done, new in reversed(made):
            self._put_back(done, new)
        return False

    def _moved(self, move: Move) -> Worker:
        room, spec, worker = self.room, self._spec(move.job_id), move.worker
        room.release(spec, (worker,))
        devices = room.take(room.frame.index[move.to], spec.request_of(worker.role))
        return worker._replace(node=move.to, devices=devices)

    def _put_back(self, move: Move, new: Worker) -> None:
        room, spec = self.room, self._spec(move.job_id)
        room.release(spec, (new,))
        at = room.frame.index.get(move.worker.node)
        if at is not None:
            room.occupy(at, spec.request_of(move.worker.role), move.worker.devices)

    def _note(self, made: Sequence[tuple[Move, Worker]], because: Because) -> None:
        if not made:
            return
        if self._workers is None:
            self._workers, self._becauses = dict(self.layout.workers), dict(self.layout.becauses)
            self.layout = Layout(self._workers, self._becauses)
        by_job: dict[JobId, dict[Worker, Worker]] = {}
        for move, new in made:
            by_job.setdefault(move.job_id, {})[move.worker] = new
        for job_id, news in by_job.items():
            held = tuple(news.get(worker, worker) for worker in self._workers[job_id])
            self._workers[job_id], self._becauses[job_id] = held, because
            self._index(job_id, news, held)

    def _index(self, job_id: JobId, news: dict[Worker, Worker], held: tuple[Worker, ...]) -> None:
        if self._on_node is None:
            return
        here = {worker.node for worker in held}
        for old, new in news.items():
            if old.node not in here:
                self._on_node.get(old.node, {}).pop(job_id, None)
            self._on_node.setdefault(new.node, {})[job_id] = None
