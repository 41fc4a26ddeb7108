"""Who goes first: placing before reading, reading before reports, reports before events, and nobody waits for ever."""

import asyncio
import random

import pytest

from sterna.engines.kubernetes.apiserver.client.fairness import TURNS_FOR_PATIENCE, Turnstile
from sterna.engines.kubernetes.apiserver.port import Throttled, Urgency
from tests.engines.kubernetes.client.doors import run
from tests.waiting import others_run

LEASE, PLACE, READ, REPORT, EVENT = Urgency


async def _line(turnstile: Turnstile, wishes: list[Urgency], order: list[Urgency]) -> list[asyncio.Task[None]]:
    async def pass_through(urgency: Urgency) -> None:
        async with turnstile.turn(urgency):
            order.append(urgency)
            await others_run()

    tasks = [asyncio.ensure_future(pass_through(wish)) for wish in wishes]
    await others_run()
    return tasks


def test_binds_go_before_reports_and_reports_before_events():
    async def scene() -> list[Urgency]:
        turnstile, order = Turnstile(1, waiting_events=10), list[Urgency]()
        async with turnstile.turn(READ):
            tasks = await _line(turnstile, [EVENT, REPORT, PLACE, READ, REPORT, PLACE], order)
            assert order == []
        await asyncio.gather(*tasks)
        assert (turnstile.inside, turnstile.waiting) == (0, 0)
        return order

    assert run(scene()) == [PLACE, PLACE, READ, REPORT, REPORT, EVENT]


def test_among_equals_who_came_first_goes_first():
    async def scene() -> list[int]:
        turnstile, order = Turnstile(1, waiting_events=10), list[int]()

        async def pass_through(number: int) -> None:
            async with turnstile.turn(PLACE):
                order.append(number)

        async with turnstile.turn(PLACE):
            tasks = [asyncio.ensure_future(pass_through(number)) for number in range(10)]
            await others_run()
        await asyncio.gather(*tasks)
        return order

    assert run(scene()) == list(range(10))


def test_a_report_is_not_kept_away_for_ever_by_an_endless_line_of_binds():
    async def scene() -> int:
        turnstile, order = Turnstile(1, waiting_events=10), list[Urgency]()
        async with turnstile.turn(PLACE):
            tasks = await _line(turnstile, [REPORT] + [PLACE] * 100, order)
        await asyncio.gather(*tasks)
        return order.index(REPORT)

    assert run(scene()) < TURNS_FOR_PATIENCE


def test_a_renewal_of_the_lease_never_waits():
    async def scene() -> None:
        turnstile = Turnstile(1, waiting_events=10)
        async with turnstile.turn(PLACE), asyncio.timeout(5), turnstile.turn(LEASE):
            assert turnstile.inside == 2
            order: list[Urgency] = []
            waiting = await _line(turnstile, [PLACE], order)
            assert order == []
        await asyncio.gather(*waiting)
        assert turnstile.inside == 0

    run(scene())


def test_events_are_dropped_when_too_many_wait_and_others_are_not():
    async def scene() -> None:
        turnstile, order = Turnstile(1, waiting_events=3), list[Urgency]()
        async with turnstile.turn(PLACE):
            tasks = await _line(turnstile, [REPORT] * 3, order)
            with pytest.raises(Throttled, match="events are dropped"):
                async with turnstile.turn(EVENT):
                    pass
            tasks += await _line(turnstile, [REPORT, PLACE], order)
        await asyncio.gather(*tasks)
        assert len(order) == 5

    run(scene())


@pytest.mark.parametrize("seed", range(20))
def test_places_are_neither_lost_nor_made_when_waiting_is_broken_off(seed):
    async def scene() -> None:
        chance, turnstile, most = random.Random(seed), Turnstile(3, waiting_events=1000), 0

        async def pass_through() -> None:
            nonlocal most
            async with turnstile.turn(chance.choice([PLACE, READ, REPORT, EVENT])):
                most = max(most, turnstile.inside)
                await others_run(chance.randrange(4))

        tasks: list[asyncio.Task[None]] = []
        for _ in range(200):
            tasks.append(asyncio.ensure_future(pass_through()))
            if chance.random() < 0.5:
                chance.choice(tasks).cancel()
            if chance.random() < 0.5:
                await others_run()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert most == 3
        assert (turnstile.inside, turnstile.waiting) == (0, 0)

    run(scene())
