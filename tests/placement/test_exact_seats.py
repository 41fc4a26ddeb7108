"""The exact search against trying every way there is, in rooms of two or three nodes, with shares and without."""

from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import FixedRole, Job, JobSpec, Role, Worker
from sterna.model.nodes import Cluster, Node, cards
from sterna.model.resources import Resources
from sterna.placement import exact_seats as exact
from sterna.placement.exact_seats import Runner, Starter, exact_seats
from sterna.placement.frame import frame_of
from sterna.placement.room import Room
from tests.worlds import GIB

WHOLE = (Resources(1000, GIB, 1000), Resources(2000, 0, 2000), Resources(3000, 3 * GIB))
SHARES = (Resources(500, 0, 500, 6 * GIB), Resources(0, GIB, 334), Resources(1000, 0, 600, 4 * GIB))


def spec(name: str, request: Resources, *, ps: int = 0) -> JobSpec:
    fixed = (FixedRole(Role.PS, ps, Resources(1000)),) if ps else ()
    return JobSpec(id=JobId(name), submitted_s=0.0, request=request, workers_max=9, fixed=fixed)


def scene(seed: int) -> tuple[Room, list[Runner], list[Starter]]:
    """Runners that fill much of two or three nodes, and one or two starters that may or may not find room."""
    chance = Random(seed)
    requests = WHOLE + SHARES if seed % 2 else WHOLE
    nodes = [_node(chance, number) for number in range(chance.randint(2, 3))]
    room = Room.empty(frame_of(Cluster.of(nodes)))
    runners: list[Runner] = []
    for name in "ab"[: chance.randint(1, 2)]:
        job, workers = spec(name, chance.choice(requests)), []
        for ordinal in range(chance.randint(1, 4)):
            fits = [at for at in range(len(nodes)) if room.slots_at(at, job.request)]
            if fits:
                at = chance.choice(fits)
                workers.append(Worker(Role.WORKER, ordinal, nodes[at].id, room.take(at, job.request)))
        if workers:
            stays, loose = tuple(workers[:1]), tuple(workers[1:])
            room.release(job, loose)
            runners.append(Runner(Job(spec=job, workers=tuple(workers)), stays, loose, chance.randint(0, len(loose))))
    starters = [
        Starter(spec(name, chance.choice(requests), ps=chance.choice([0, 0, 1])), chance.randint(1, 3))
        for name in "xy"[: chance.randint(1, 2)]
    ]
    return room, runners, starters


def _node(chance: Random, number: int) -> Node:
    gpus = chance.choice([1, 2, 3])
    amounts = Resources(chance.choice([2, 4, 6]) * 1000, chance.choice([2, 8]) * GIB, gpus * 1000)
    devices = cards(gpus, memory_bytes=chance.choice([0, 8, 16]) * GIB)
    return Node(id=NodeId(f"n{number}"), allocatable=amounts, devices=devices)


def there_is_a_way(room: Room, runners: list[Runner], starters: list[Starter]) -> bool:
    for kept in _ways_to_keep(runners):
        trial = room.copy()
        for runner, workers in zip(runners, kept, strict=True):
            trial.hold(runner.job.spec, workers)
        if not trial.overfull() and _fits(trial, [request for starter in starters for request in _gang(starter)]):
            return True
    return False


def _ways_to_keep(runners: list[Runner]) -> Iterator[list[tuple[Worker, ...]]]:
    if not runners:
        yield []
        return
    for rest in _ways_to_keep(runners[1:]):
        for kept in combinations(runners[0].loose, runners[0].fewest):
            yield [kept, *rest]


def _gang(starter: Starter) -> list[Resources]:
    fixed = [role.request for role in starter.spec.fixed for _ in range(role.replicas)]
    return [*fixed, *([starter.spec.request] * starter.workers)]


def _fits(room: Room, requests: list[Resources]) -> bool:
    """Put the first anywhere, on any card, and the rest after it."""
    if not requests:
        return True
    first, *rest = requests
    for at in range(len(room.cpu)):
        bits = room.frame.bits[at]
        free = [card for card, bit in bits.items() if not room.cards.named[at] & bit]
        choices = combinations(bits, 1) if first.shares_gpu else combinations(free, first.whole_gpus)
        for devices in choices:
            room.occupy(at, first, devices)
            fine = not room.is_overfull(at) and _fits(room, rest)
            room.give(at, first, devices)
            if fine:
                return True
    return False


@pytest.mark.parametrize("batch", range(4))
def test_the_search_finds_seats_just_where_there_are_any(batch):
    found = 0
    for seed in range(batch * 60, batch * 60 + 60):
        room, runners, starters = scene(seed)
        seats = exact_seats(room, range(len(room.cpu)), runners, starters)
        assert (seats is not None) == there_is_a_way(room, runners, starters), f"seed {seed}"
        if seats is not None:
            found += 1
            trial = room.copy()
            for runner in runners:
                kept = seats.kept[runner.job.id]
                assert len(kept) >= runner.fewest, f"seed {seed}"
                assert set(kept) <= set(runner.loose), f"seed {seed}"
                trial.hold(runner.job.spec, kept)
            for starter in starters:
                workers = seats.started[starter.spec.id]
                assert sum(worker.role is Role.WORKER for worker in workers) == starter.workers
                assert len(workers) - starter.workers == starter.spec.fixed_count
                trial.hold(starter.spec, workers)
            assert not trial.overfull(), f"seed {seed}"
    assert 5 < found < 55, "the scenes are too easy or too hard to tell anything"


def test_no_more_workers_go_than_must_and_a_restart_counts_as_several():
    node = Node(id=NodeId("n"), allocatable=Resources(6000), devices=())
    worker = Resources(1000)
    runners = []
    for name, restarts in (("restarts", True), ("lasts", False)):
        workers = tuple(Worker(Role.WORKER, ordinal, NodeId("n")) for ordinal in range(3))
        job = JobSpec(id=JobId(name), submitted_s=0.0, request=worker, workers_max=3, restarts_on_resize=restarts)
        runners.append(Runner(Job(spec=job, workers=workers), workers[:1], workers[1:], 0))
    room = Room.empty(frame_of(Cluster.of([node])))
    for runner in runners:
        room.hold(runner.job.spec, runner.stays)
    seats = exact_seats(room, [0], runners, [Starter(spec("new", worker), 1)])
    assert seats is not None
    assert {job_id: len(kept) for job_id, kept in seats.kept.items()} == {"restarts": 2, "lasts": 1}


def test_a_problem_that_is_too_large_is_not_posed(monkeypatch):
    room, runners, starters = scene(1)
    monkeypatch.setattr(exact, "UNKNOWNS_MAX", 0)
    assert exact_seats(room, range(len(room.cpu)), runners, starters) is None
