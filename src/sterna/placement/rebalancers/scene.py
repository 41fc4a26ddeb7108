"""What rebalancers look at: where workers are once the layout is carried out, and which could go somewhere else.

Nothing is chosen here. What may move together is a `Unit`: one worker, or a whole job where no worker survives a move.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sterna.model.growth import Category
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.layout import Layout
from sterna.model.nodes import Node
from sterna.model.phases import Phase
from sterna.model.snapshot import Snapshot
from sterna.placement.frame import Frame, frame_of
from sterna.placement.room import Demand, Room
from sterna.placement.rule_check import open_beside

MOVABLE = frozenset({Role.WORKER, Role.EVALUATOR})  # the others hold what their job cannot lose


class HeldSeat(NamedTuple):
    job: Job
    worker: Worker

    @property
    def category(self) -> Category:
        return category_of(self.job)


@dataclass(frozen=True, slots=True)
class Unit:
    """What moves at once or not at all."""

    job: Job
    workers: tuple[Worker, ...]  # the elastic worker with the lowest ordinal stands for all of them

    @property
    def leaves(self) -> frozenset[NodeId]:
        return frozenset(worker.node for worker in self.workers)

    @property
    def demand(self) -> Demand:
        spec = self.job.spec
        return tuple((spec.request_of(worker.role), 1) for worker in self.workers)

    @property
    def order(self) -> tuple[float, JobId, str, int]:
        """Oldest job first: total, so that ties never depend on how a snapshot was put together."""
        worker = self.workers[0]
        return (self.job.spec.submitted_s, self.job.id, worker.role, worker.ordinal)

    def moved(self, room: Room, to: NodeId) -> None:
        """Let `room` hold the unit there instead of where it is. It must fit."""
        at = room.frame.index[to]
        room.release(self.job.spec, self.workers)
        for request, _ in self.demand:
            room.take(at, request)


@dataclass(frozen=True)
class Scene:
    view: Snapshot
    layout: Layout  # as placement made it, with the moves of the rebalancers before

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.view.nodes

    @property
    def now_s(self) -> float:
        return self.view.now_s

    @property
    def frame(self) -> Frame:
        return frame_of(self.view.cluster)

    @cached_property
    def residents(self) -> Mapping[NodeId, tuple[HeldSeat, ...]]:
        """Workers by node, every node of the pool named, in the order of jobs and workers."""
        by_node: dict[NodeId, list[HeldSeat]] = {node.id: [] for node in self.nodes}
        for job in self.view.jobs:
            for worker in self.layout.workers_of(job.id):
                if worker.node in by_node:
                    by_node[worker.node].append(HeldSeat(job, worker))
        return {node_id: tuple(seats) for node_id, seats in by_node.items()}

    @cached_property
    def room(self) -> Room:
        """What is free once the layout is carried out. For asking only."""
        room = Room.empty(self.frame)
        for job in self.view.jobs:
            room.hold(job.spec, self.layout.workers_of(job.id))
        return room

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All that may move: of jobs that run undisturbed, and that this cycle does not change anyway."""
        return tuple(unit for job in self.view.jobs if self._is_settled(job) for unit in _units_of(job))

    def units_on(self, node: NodeId) -> tuple[Unit, ...]:
        return tuple(unit for unit in self.units if node in unit.leaves)

    def targets(self, unit: Unit, room: Room | None = None) -> Iterator[NodeId]:
        """Where the unit could go as a whole, in the order of ids: admitted, with room, and no worker leaving it.

        On a node that a worker is leaving a newcomer would have to wait, and by then placement decides again. `room`
        is what is free after moves that are about to be proposed as well. None: there are none.
        """
        demand, leaves, spec = unit.demand, unit.leaves, unit.job.spec
        room = self.room if room is None else room
        lawful = open_beside(self.view, self.layout, unit.job, unit.workers)
        for at, node in enumerate(self.nodes):
            if (
                node.id not in leaves
                and node.id not in self._being_left
                and self.frame.admits(at, spec)
                and (lawful is None or lawful[at])
                and room.holds(at, demand)
            ):
                yield node.id

    @cached_property
    def _being_left(self) -> frozenset[NodeId]:
        left = {worker.node for job in self.view.leaving for worker in job.leaving}
        for job in self.view.holding:
            wanted = self.layout.workers_of(job.id)
            if wanted is not job.workers:
                left.update(worker.node for worker in job.workers if worker not in wanted)
        return frozenset(left)

    def _is_settled(self, job: Job) -> bool:
        return (
            job.phase is Phase.RUNNING
            and bool(job.workers)
            and not job.leaving
            and job.resumes_s <= self.now_s
            and self.layout.workers_of(job.id) == job.workers
        )


def category_of(job: Job) -> Category:
    return Category.PROGRESSING if job.growth is None else job.growth.category


def _units_of(job: Job) -> Iterator[Unit]:
    if job.spec.restarts_on_resize:  # no worker survives, so none stays behind: all roles go to one node
        elastic_first = sorted(job.workers, key=lambda worker: worker.role is not Role.WORKER)
        yield Unit(job, tuple(elastic_first))
        return
    for worker in job.workers:
        if worker.role in MOVABLE:
            yield Unit(job, (worker,))
