"""Who leads: never two at once, whatever clocks, pauses and lost answers do; and somebody soon after one is gone."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, LeaseObject, LeaseSpec, Meta
from sterna.engines.kubernetes.apiserver.port import (
    CONFIG_MAPS,
    AlreadyExists,
    Missing,
    NotLeader,
    Resource,
    Unreachable,
    WriteConflict,
)
from sterna.engines.kubernetes.process.election import Election, Timing
from sterna.model.errors import InvalidRequest
from tests.cluster.control_plane import ControlPlane
from tests.engines.kubernetes.client.clocks import SteppedClock
from tests.engines.kubernetes.client.doors import config_map, opened, run, until
from tests.needs import seeds
from tests.waiting import others_run, until_async

TIMING = Timing(duration_s=15, renew_s=5, retry_s=2, margin_s=2)


class Board:
    """One lease, as the API server keeps it: a write over anything but the latest version is refused."""

    def __init__(self) -> None:
        self.lease: LeaseObject | None = None
        self.version = 0
        self.writes = 0

    def door(self) -> "Door":
        return Door(self)


class Door:
    """One process's way to the board. What `lose` says is lost on the way: requests, answers, or answers to writes."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.lose = ""  # "before", "after", "after writing"

    async def get(self, resource: Resource, name: str, **_: Any) -> LeaseObject:
        await self._travel("before")
        if self._board.lease is None:
            raise Missing("Lease", name)
        found = self._board.lease
        await self._travel("after")
        return found

    async def create(self, resource: Resource, body: dict[str, Any], **_: Any) -> LeaseObject:
        await self._travel("before")
        if self._board.lease is not None:
            raise AlreadyExists("there is one")
        return await self._written(body)

    async def patch(self, resource: Resource, name: str, body: dict[str, Any], **_: Any) -> LeaseObject:
        await self._travel("before")
        lease = self._board.lease
        if lease is None:
            raise Missing("Lease", name)
        if body["metadata"]["resourceVersion"] != lease.metadata.resource_version:
            raise WriteConflict("changed since")
        return await self._written(body)

    async def _written(self, body: dict[str, Any]) -> LeaseObject:
        spec = msgspec.convert(body["spec"], LeaseSpec)
        board = self._board
        if board.lease is None or board.lease.spec != spec:  # else nothing changed, its version neither
            board.version += 1
            board.writes += 1
            board.lease = LeaseObject(
                metadata=Meta(name="sterna", resource_version=str(board.version)),
                spec=spec,
            )
        lease = board.lease
        await self._travel("after", "after writing")
        return lease

    async def _travel(self, *when: str) -> None:
        await others_run()
        if self.lose in when:
            raise Unreachable("lost on the way", retry_after_s=1.0)


class Process:
    """A candidate with a clock of its own."""

    def __init__(self, api: Any, name: str, *, namespace: str = "n", **more: Any) -> None:
        self.api = api
        self.clock = SteppedClock(
            wall_s=random.Random(name).uniform(0, 2e9), mono_s=random.Random(name).uniform(0, 1e6)
        )
        self.election = Election(api, namespace=namespace, identity=name, timing=TIMING, clock=self.clock, **more)
        self.task: asyncio.Future[Any] = asyncio.ensure_future(self.election.run())

    @property
    def leads(self) -> bool:
        return self.election.valid

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def settle() -> None:
    await others_run(30)


async def pass_time(seconds: float, *processes: Process, step_s: float = 0.5) -> None:
    """For all of them alike, in small steps; never two leaders in between."""
    for _ in range(round(seconds / step_s)):
        for process in processes:
            process.clock.advance(step_s)
        await settle()
        assert sum(process.leads for process in processes) <= 1, "two lead"


@asynccontextmanager
async def candidates(*names: str, **more: Any) -> AsyncIterator[tuple[Board, list[Process]]]:
    board = Board()
    processes = [Process(board.door(), name, **more) for name in names]
    await settle()
    try:
        yield board, processes
    finally:
        for process in processes:
            await process.stop()


def test_one_of_two_leads_and_goes_on_leading():
    async def scene() -> None:
        async with candidates("a", "b") as (board, [a, b]):
            assert (a.leads, b.leads) == (True, False)
            await pass_time(120, a, b)
            assert (a.leads, a.election.epoch) == (True, 1)
            assert board.writes <= 1 + 120 / TIMING.renew_s + 1
            a.election.gate()
            with pytest.raises(NotLeader, match=a.election.identity):
                b.election.gate()
            assert b.election.holder == a.election.identity

    run(scene())


def test_r2_a_paused_leader_has_lost_its_lease_before_another_gets_it():
    async def scene() -> None:
        async with candidates("a", "b") as (_, [a, b]):
            a.clock.paused = True  # SIGSTOP, a long collection, a suspended machine
            for _ in range(80):
                await pass_time(0.5, a, b)
                if b.leads:
                    break
                assert not b.leads
            assert b.leads
            assert b.election.epoch == 2
            with pytest.raises(NotLeader):  # before any task of it has run again
                a.election.gate()
            a.clock.go_on()
            await settle()
            assert not a.leads
            await pass_time(60, a, b)
            assert (a.leads, b.leads) == (False, True)

    run(scene())


def test_r2_the_lease_is_not_valid_up_to_the_last_moment():
    async def scene() -> None:
        async with candidates("a") as (_, [a]):
            a.clock.paused = True
            a.clock.advance(TIMING.duration_s - TIMING.margin_s - 0.1)
            assert a.leads
            a.clock.advance(0.2)
            assert not a.leads

    run(scene())


def test_r2_a_live_holder_is_never_robbed_however_the_wall_clocks_jump():
    async def scene() -> None:
        async with candidates("a", "b") as (_, [a, b]):
            for jump_s in (600.0, -1200.0, 86_400.0, -1e6):
                b.clock.jump(jump_s)
                a.clock.jump(-jump_s / 2)
                await pass_time(40, a, b)
                assert (a.leads, b.leads, a.election.epoch) == (True, False, 1)

    run(scene())


def test_a_leader_that_cannot_renew_stops_and_the_other_takes_over():
    async def scene() -> None:
        async with candidates("a", "b") as (_, [a, b]):
            a.api.lose = "before"
            await pass_time(60, a, b)
            assert (a.leads, b.leads) == (False, True)
            a.api.lose = ""
            await pass_time(60, a, b)
            assert (a.leads, b.leads) == (False, True)

    run(scene())


def test_r3_renewals_whose_answers_are_lost_do_not_cost_the_lease_for_long():
    async def scene() -> None:
        async with candidates("a", "b") as (_, [a, b]):
            a.api.lose = "after writing"  # they do arrive, so nobody else can have it
            await pass_time(60, a, b)
            assert not b.leads
            a.api.lose = ""
            await pass_time(10, a, b)
            assert a.leads

    run(scene())


def test_r3_a_short_outage_is_survived_within_the_term():
    async def scene() -> None:
        async with candidates("a", "b") as (_, [a, b]):
            await pass_time(4, a, b)
            a.api.lose = b.api.lose = "before"
            await pass_time(6, a, b)
            assert a.leads
            a.api.lose = b.api.lose = ""
            await pass_time(20, a, b)
            assert (a.leads, a.election.epoch) == (True, 1)

    run(scene())


def test_a_leader_that_ends_gives_the_lease_back_at_once():
    async def scene() -> None:
        async with candidates("a", "b") as (_, [a, b]):
            await a.stop()
            with pytest.raises(NotLeader):
                a.election.gate()
            await pass_time(TIMING.retry_s + 1, b)
            assert b.leads
            assert b.election.epoch == 2

    run(scene())


def test_who_was_not_leader_gives_nothing_back():
    async def scene() -> None:
        async with candidates("a", "b") as (board, [a, b]):
            writes = board.writes
            await b.stop()
            assert board.writes == writes
            assert a.leads

    run(scene())


def test_a_process_of_the_same_name_is_another_process():
    async def scene() -> None:
        async with candidates("same", "same") as (_, [a, b]):
            await pass_time(60, a, b)
            assert (a.leads, b.leads) == (True, False)

    run(scene())


def test_a_deleted_lease_ends_the_term_and_numbers_still_grow():
    async def scene() -> None:
        async with candidates("a", epoch_above=lambda: 41) as (board, [a]):
            assert a.election.epoch == 42
            board.lease = None
            await pass_time(10, a)
            assert a.leads
            assert a.election.epoch == 43

    run(scene())


def test_work_runs_while_leading_and_is_cancelled_when_that_ends():
    async def scene() -> None:
        board, told = Board(), list[str]()
        clock = SteppedClock()
        door = board.door()
        election = Election(door, namespace="n", identity="a", timing=TIMING, clock=clock)  # type: ignore[arg-type]

        async def work(epoch: int) -> None:
            told.append(f"began {epoch}")
            try:
                await asyncio.Event().wait()
            finally:
                told.append(f"ended {epoch}")

        leading = asyncio.ensure_future(election.lead(work))
        await settle()
        assert told == ["began 1"]
        door.lose = "before"
        for _ in range(20):
            clock.advance(1.0)
            await settle()
        assert told == ["began 1", "ended 1"]
        door.lose = ""
        for _ in range(10):
            clock.advance(1.0)
            await settle()
        assert told == ["began 1", "ended 1", "began 2"]
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        assert told[-1] == "ended 2"
        assert board.lease is not None
        assert board.lease.spec.holder_identity == ""

    run(scene())


def test_what_work_raises_is_raised_and_the_lease_given_back():
    async def scene() -> None:
        board = Board()
        election = Election(board.door(), namespace="n", identity="a", timing=TIMING, clock=SteppedClock())  # type: ignore[arg-type]

        async def work(epoch: int) -> None:
            raise KeyError("a bug")

        with pytest.raises(KeyError, match="a bug"):
            await election.lead(work)
        assert board.lease is not None
        assert board.lease.spec.holder_identity == ""

    run(scene())


def test_r2_a_live_holder_whose_wall_clock_stands_still_is_not_robbed():
    async def scene() -> None:
        async with candidates("a", "b") as (_, [a, b]):
            for _ in range(120):
                await pass_time(0.5, a, b)
                a.clock.jump(-0.5)
                b.clock.jump(-0.5)
            assert (a.leads, b.leads, a.election.epoch) == (True, False, 1)

    run(scene())


@pytest.mark.parametrize("wall_s", [1_527_484_626.249820, 1_361_942_741.036566, 1_691_708_159.917562])
def test_r2_every_renewal_says_something_new_even_after_the_wall_clock_was_set_back(wall_s):
    """These moments and the next microsecond are the same when kept as floats: the server saw nothing, and two led."""

    async def scene() -> None:
        async with candidates("a", "b") as (board, [a, b]):
            a.clock.jump(wall_s - a.clock.wall())
            for _ in range(30):
                writes = board.writes
                await pass_time(TIMING.renew_s, a, b)
                a.clock.jump(-TIMING.renew_s)
                assert board.writes > writes
            assert (a.leads, b.leads, a.election.epoch) == (True, False, 1)

    run(scene())


def test_r2_a_write_that_changed_nothing_is_no_renewal():
    async def scene() -> None:
        async with candidates("a") as (board, [a]):
            lease = board.lease
            assert lease is not None

            async def unmoved(*_: Any, **__: Any) -> LeaseObject:
                return lease

            a.api.patch = unmoved
            await pass_time(TIMING.duration_s, a)
            assert not a.leads

    run(scene())


@pytest.mark.parametrize("seed", seeds(60))
def test_r2_never_two_leaders_whatever_happens(seed):
    """Pauses, lost requests and answers, wall clocks that are set, clocks that drift by 1 %, processes that go."""

    async def scene() -> None:
        chance = random.Random(seed)
        board = Board()
        processes = [Process(board.door(), f"p{number}", chance=chance) for number in range(3)]
        drift = [chance.uniform(0.99, 1.01) for _ in processes]
        epochs: list[tuple[int, str]] = []
        led_s = 0.0
        for _ in range(600):
            step_s = chance.choice([0.1, 0.5, 1.0, 3.0])
            for number, process in enumerate(processes):
                process.clock.advance(step_s * drift[number])
                event = chance.random()
                if event < 0.02:
                    process.clock.paused = True
                elif event < 0.06:
                    process.clock.go_on()
                elif event < 0.08:
                    process.clock.jump(chance.uniform(-1e5, 1e5))
                elif event < 0.12:
                    process.api.lose = chance.choice(["", "", "before", "after", "after writing"])
                elif event < 0.123:
                    await process.stop()
                    processes[number] = Process(board.door(), f"p{number}", chance=chance)
            await others_run(chance.randrange(12))
            leaders = [process.election for process in processes if process.leads]
            assert len(leaders) <= 1, f"two lead (seed {seed})"
            led_s += step_s * len(leaders)
            epochs += [(leader.epoch, leader.identity) for leader in leaders]
        for process in processes:
            process.clock.go_on()
            process.api.lose = ""
        await pass_time(60, *processes)
        assert [process.leads for process in processes].count(True) == 1, "somebody leads when all is well"
        assert led_s > 0
        assert epochs == sorted(epochs, key=lambda term: term[0]), "terms are numbered in order"
        assert len({number for number, _ in epochs}) == len(set(epochs)), "a number is one leader's alone"
        for process in processes:
            await process.stop()

    run(scene())


@pytest.mark.parametrize(
    "times",
    [{"duration_s": 8}, {"renew_s": 0.0}, {"retry_s": -1.0}, {"margin_s": -1.0}, {"renew_s": 20.0}],
    ids=str,
)
def test_times_that_cannot_work_are_refused(times):
    with pytest.raises(InvalidRequest, match="election"):
        Timing(**times)


# -- on the real API server -------------------------------------------------------------------------------------------


async def slowly(holds: Callable[[], bool], *processes: Process) -> None:
    """Time passes for these, and slowly enough that answers of a busy server come in time."""

    def later() -> bool:
        for process in () if holds() else processes:
            process.clock.advance(0.5)
        return holds()

    await until_async(later, every_s=0.2)


def test_r2_two_processes_on_one_real_lease(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/sterna"

    def lease() -> dict[str, Any]:
        return control_plane.api().get(path)

    async def scene() -> None:
        async with opened(control_plane) as first, opened(control_plane) as second:
            a = Process(first, "a", namespace=namespace)
            await until(lambda: a.leads, "a leads")
            b = Process(second, "b", namespace=namespace)
            await until(lambda: b.election.holder == a.election.identity, "b knows")
            control_plane.api().patch(path, {"metadata": {"annotations": {"by": "a person"}}})
            for _ in range(3):  # renewals go on although somebody touched the lease, which keeps its annotation
                before = lease()["spec"]["renewTime"]
                await slowly(lambda before=before: lease()["spec"]["renewTime"] != before, a, b)  # type: ignore[misc]
                await until(lambda: a.leads, "a knows that it leads")
                assert not b.leads
            assert lease()["metadata"]["annotations"] == {"by": "a person"}

            guarded = first.guarded(a.election.gate)
            await guarded.create(CONFIG_MAPS, config_map("of-a"), namespace=namespace, shape=ConfigMapObject)
            a.clock.paused = True
            a.clock.advance(TIMING.duration_s)
            with pytest.raises(NotLeader):
                await guarded.create(CONFIG_MAPS, config_map("late"), namespace=namespace, shape=ConfigMapObject)
            await slowly(lambda: b.leads, b)
            assert b.election.epoch == 2
            a.clock.go_on()
            await slowly(lambda: a.election.holder == b.election.identity, a)
            await b.stop()  # and gives it back
            assert not lease()["spec"]["holderIdentity"]
            await slowly(lambda: a.leads, a)
            assert a.election.epoch == 3
            await a.stop()

    run(scene())
