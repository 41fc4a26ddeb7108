"""A seat for one more job, exactly: which workers above the minimum must go, and where do the jobs that start go?

An integer problem, solved by HiGHS. For every job that runs the unknowns say how many workers of each kind it keeps on
each node: never fewer than its least size, and its first worker and fixed roles stay. For every job that is to start
they say how many of its workers and fixed roles are on each node. Where shares of cards are involved, card by card.

Of all answers the one that lets fewest workers go is taken, those of jobs at the end of the policy's order first, and
a job that restarts when it is resized counts as several. A problem with more unknowns than `UNKNOWNS_MAX` is not posed,
and one that needs more than `BRANCHES_MAX` branches is given up: both are counts, so the answer is always the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import NamedTuple

import numpy as np

from sterna.model.ids import DeviceId, JobId
from sterna.model.jobs import Job, JobSpec, Role, Worker
from sterna.model.resources import WHOLE_GPU_MILLI, Resources
from sterna.placement.cards import UNCHECKED_BYTES
from sterna.placement.packing import numbered
from sterna.placement.room import Room

UNKNOWNS_MAX = 1_500
BRANCHES_MAX = 500
_RESTART = 8.0  # workers that a restart is worth


class Runner(NamedTuple):
    """A job that runs: some of `loose` may go, the others stay."""

    job: Job
    stays: tuple[Worker, ...]
    loose: tuple[Worker, ...]
    fewest: int  # of the loose ones that must stay


class Starter(NamedTuple):
    """A job that is to start with so many workers, on any nodes that admit it."""

    spec: JobSpec
    workers: int


class Seats(NamedTuple):
    kept: dict[JobId, tuple[Worker, ...]]  # of the loose workers of each runner
    started: dict[JobId, tuple[Worker, ...]]


def exact_seats(
    room: Room, nodes: Sequence[int], runners: Sequence[Runner], starters: Sequence[Starter]
) -> Seats | None:
    """Seats for all of them; None if there are none on these nodes, or the problem is too large.

    `room` holds everything but the loose workers and the starters. Earlier runners and starters are the dearer ones.
    """
    problem = _Problem(room, nodes)
    for rank, runner in enumerate(runners):
        problem.add_runner(runner, 1.0 + (len(runners) - rank) / (len(runners) + 1.0))
    for starter in starters:
        problem.add_starter(starter)
    for at in nodes:
        problem.close_node(at)
    answer = problem.solved()
    return None if answer is None else _seats(room, problem, answer, runners, starters)


class _Stay(NamedTuple):
    """So many of these workers, alike in all that matters, stay."""

    job_id: JobId
    workers: tuple[Worker, ...]


class _Come(NamedTuple):
    """So many workers of this role come to this node, on this card if it is a share."""

    job_id: JobId
    role: Role
    at: int
    card: DeviceId | None


@dataclass
class _Node:
    """What the unknowns take of one node, by their columns."""

    cpu: list[tuple[int, int]] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)
    whole: list[tuple[int, int]] = field(default_factory=list)  # cards that are counted and not named
    holds: dict[DeviceId, list[int]] = field(default_factory=dict)  # unknowns that take this very card
    shares: dict[DeviceId, list[tuple[int, int]]] = field(default_factory=dict)
    bytes_: dict[DeviceId, list[tuple[int, int]]] = field(default_factory=dict)


class _Problem:
    """Unknowns (columns) with their meaning, bounds and price; constraints (rows) over them."""

    def __init__(self, room: Room, nodes: Iterable[int]) -> None:
        self.room = room
        self.meaning: list[_Stay | _Come | None] = []
        self._most: list[float] = []
        self._price: list[float] = []
        self._rows: list[tuple[list[tuple[int, int]], float, float]] = []
        self._nodes = {at: _Node() for at in nodes}

    def add_runner(self, runner: Runner, worth: float) -> None:
        spec = runner.job.spec
        columns: list[int] = []
        for alike in _alike(runner.loose, self.room, shares=spec.request.shares_gpu):
            column = self._unknown(_Stay(spec.id, alike), len(alike), -worth)
            columns.append(column)
            at = self.room.frame.index[alike[0].node]
            self._takes(at, column, spec.request, alike[0].devices)
        if columns and runner.fewest:
            self._row([(column, 1) for column in columns], least=runner.fewest)
        if columns and spec.restarts_on_resize and set(runner.loose) <= set(runner.job.workers):
            resized = self._unknown(None, 1, _RESTART * worth)
            count = len(runner.loose)
            self._row([*((column, 1) for column in columns), (resized, count)], least=count)

    def add_starter(self, starter: Starter) -> None:
        spec, room = starter.spec, self.room
        wanted = [(fixed.role, fixed.replicas, fixed.request) for fixed in spec.fixed]
        for role, count, request in [*wanted, (Role.WORKER, starter.workers, spec.request)]:
            columns: list[int] = []
            for at in self._nodes:
                if room.frame.admits(at, spec):
                    columns += self._arrivals(spec.id, role, at, request, count)
            self._row([(column, 1) for column in columns], least=count, most=count)

    def close_node(self, at: int) -> None:
        """All that is put here must fit."""
        room, node = self.room, self._nodes[at]
        self._row(node.cpu, most=room.cpu[at])
        self._row(node.memory, most=room.memory[at])
        if not node.shares and not node.holds:
            self._row(node.whole, most=room.gpus[at])
            return
        taking: list[tuple[int, int]] = []  # every unknown that opens or takes one of the wholly free cards
        bits, named, shared = room.frame.bits[at], room.cards.named[at], room.cards.shared.get(at, {})
        given: list[tuple[int, int]] = []
        for card, bit in bits.items():
            shares, memory = node.shares.get(card, []), node.bytes_.get(card, [])
            holders = [(column, 1) for column in node.holds.get(card, [])]
            if named & bit:  # a card that is shared may have something left, any other has nothing
                left = shared.get(card, (0, 0))
                self._row(holders, most=0)
                self._row(shares, most=left[0])
                self._row(memory, most=left[1])
                continue
            opened, whole = self._unknown(None, 1, 0.0), self._unknown(None, 1, 0.0)
            self._row([*shares, (opened, -WHOLE_GPU_MILLI)], most=0)
            self._row(memory, most=room.frame.card_bytes[at][card] or UNCHECKED_BYTES)
            self._row([(opened, 1), (whole, 1), *holders], most=1)
            taking += [(opened, 1), (whole, 1), *holders]
            given.append((whole, 1))
        self._row(taking, most=max(0, room.gpus[at]))
        self._row([*given, *((column, -count) for column, count in node.whole)], least=0)

    def solved(self) -> list[int] | None:
        if len(self.meaning) > UNKNOWNS_MAX:
            return None
        if any(least > 0 and not row for row, least, _ in self._rows):
            return None  # some role of a job has nowhere to go at all
        from scipy.optimize import Bounds, LinearConstraint, milp  # here: slower to import than all of Sterna
        from scipy.sparse import csr_array

        rows = [row for row in self._rows if row[0]]
        if not rows:
            return [0] * len(self.meaning)
        starts = np.cumsum([0, *(len(row) for row, _, _ in rows)])
        columns = [column for row, _, _ in rows for column, _ in row]
        values = [float(value) for row, _, _ in rows for _, value in row]
        matrix = csr_array((values, columns, starts), shape=(len(rows), len(self.meaning)))
        found = milp(
            np.array(self._price),
            integrality=np.ones(len(self.meaning), np.int64),
            bounds=Bounds(0.0, np.array(self._most)),
            constraints=LinearConstraint(matrix, [least for _, least, _ in rows], [most for _, _, most in rows]),
            options={"node_limit": BRANCHES_MAX},
        )
        return None if found.x is None else [round(value) for value in found.x.tolist()]

    def _arrivals(self, job_id: JobId, role: Role, at: int, request: Resources, count: int) -> list[int]:
        if not request.shares_gpu:
            column = self._unknown(_Come(job_id, role, at, None), count, 0.0)
            self._takes(at, column, request, ())
            return [column]
        columns: list[int] = []
        for card in self.room.frame.bits[at]:
            column = self._unknown(_Come(job_id, role, at, card), count, 0.0)
            self._takes(at, column, request, (card,))
            columns.append(column)
        return columns

    def _takes(self, at: int, column: int, request: Resources, devices: tuple[DeviceId, ...]) -> None:
        """What one of these takes of its node."""
        node, known = self._nodes[at], self.room.frame.bits[at]
        cpu, memory, milli, gpu_bytes = request
        devices = devices if all(card in known for card in devices) else ()  # unknown cards are merely counted
        if cpu:
            node.cpu.append((column, cpu))
        if memory:
            node.memory.append((column, memory))
        if request.shares_gpu and devices:
            node.shares.setdefault(devices[0], []).append((column, milli))
            if gpu_bytes:
                node.bytes_.setdefault(devices[0], []).append((column, gpu_bytes))
        elif milli and devices:
            for card in devices:
                node.holds.setdefault(card, []).append(column)
        elif milli:
            node.whole.append((column, -(-milli // WHOLE_GPU_MILLI)))

    def _unknown(self, meaning: _Stay | _Come | None, most: int, price: float) -> int:
        self.meaning.append(meaning)
        self._most.append(most)
        self._price.append(price)
        return len(self.meaning) - 1

    def _row(self, row: Sequence[tuple[int, int]], *, least: float = -np.inf, most: float = np.inf) -> None:
        """In the largest unit that all amounts are multiples of, so that bytes do not drown in rounding."""
        sums: dict[int, int] = {}
        for column, value in row:  # a worker on two cards counts twice, and HiGHS wants each unknown once
            sums[column] = sums.get(column, 0) + value
        unit = gcd(*sums.values()) or 1
        down = least if least == -np.inf else -(-int(least) // unit)
        up = most if most == np.inf else int(most) // unit
        if sums or down > 0:
            self._rows.append(([(column, value // unit) for column, value in sums.items()], down, up))


def _alike(loose: Sequence[Worker], room: Room, *, shares: bool) -> list[tuple[Worker, ...]]:
    """Workers of one job that differ in their numbers alone; those that hold whole cards by name are each their own."""
    kinds: dict[tuple[object, ...], list[Worker]] = {}
    for worker in loose:
        own = worker.ordinal if worker.devices and not shares else -1
        kinds.setdefault((room.frame.index[worker.node], worker.devices, own), []).append(worker)
    return [tuple(kinds[kind]) for kind in kinds]


def _seats(
    room: Room, problem: _Problem, answer: Sequence[int], runners: Sequence[Runner], starters: Sequence[Starter]
) -> Seats | None:
    """The answer as workers, tried out on the room: what does not fit to the last byte is no answer."""
    specs: Mapping[JobId, JobSpec] = {
        **{runner.job.spec.id: runner.job.spec for runner in runners},
        **{starter.spec.id: starter.spec for starter in starters},
    }
    trial = room.copy()
    kept: dict[JobId, tuple[Worker, ...]] = {runner.job.spec.id: () for runner in runners}
    coming: list[tuple[_Come, int]] = []
    for meaning, count in zip(problem.meaning, answer, strict=True):
        if isinstance(meaning, _Stay):
            kept[meaning.job_id] += meaning.workers[:count]
        elif isinstance(meaning, _Come) and count:
            coming.append((meaning, count))
    for job_id, workers in kept.items():
        trial.hold(specs[job_id], workers)
    new: dict[JobId, list[Worker]] = {starter.spec.id: [] for starter in starters}
    for come, count in sorted(coming, key=lambda entry: entry[0].card is None):  # shares first, on their very cards
        request = specs[come.job_id].request_of(come.role)
        for _ in range(count):
            devices: tuple[DeviceId, ...] = () if come.card is None else (come.card,)
            if come.card is None and not trial.slots_at(come.at, request):
                return None
            if come.card is None:
                devices = trial.take(come.at, request)
            else:
                trial.occupy(come.at, request, devices)
            number = sum(worker.role is come.role for worker in new[come.job_id])
            new[come.job_id].append(Worker(come.role, number, room.frame.nodes[come.at].id, devices))
    if trial.overfull():
        return None
    return Seats(kept, {job_id: numbered(specs[job_id], (), workers) for job_id, workers in new.items()})
