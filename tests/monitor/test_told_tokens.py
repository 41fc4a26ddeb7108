"""Whose a job's token is, as the scheduler says: asked when needed and no more often, kept when it is away."""

import asyncio

import pytest

from sterna.monitor import Monitor, Settings, TryLater
from sterna.monitor.told_tokens import ASK_AGAIN_S, OLD_S, ToldTokens
from sterna.protocol.reports import Answer, Batch
from sterna.protocol.tokens import TokenOwner, digest_of, job_token, node_token
from tests.httpd.wires import Clock, bounded
from tests.monitor.stage import NOW_S, SECRET, TOKEN, Scheduler, Stage, staged

TRAIN = TokenOwner("team", "train", "u1")
HELD = node_token(SECRET, node="node-1")


def told(clock: Clock) -> tuple[ToldTokens, list[float]]:
    asked: list[float] = []
    return ToldTokens(clock=clock, ask=lambda: asked.append(clock.now_s)), asked


def test_s1_ten_thousand_strangers_are_one_question_a_second():
    clock = Clock()
    tokens, asked = told(clock)
    for number in range(10_000):
        clock.now_s = number / 1000
        assert tokens.met_stranger(), "nobody has said yet who is known"
    assert len(asked) == 10 / ASK_AGAIN_S


def test_a_stranger_right_after_the_answer_is_nobody_and_may_come_again_later():
    clock = Clock()
    tokens, asked = told(clock)
    tokens.take({digest_of(TOKEN): "team/train/u1"})
    assert (tokens.met_stranger(), asked) == (False, [])
    clock.now_s += ASK_AGAIN_S
    assert (tokens.met_stranger(), len(asked)) == (True, 1)


def test_what_was_said_is_replaced_as_a_whole_and_asked_again_when_it_is_old():
    clock = Clock()
    tokens, asked = told(clock)
    tokens.refresh()
    assert asked == [], "nobody needed it so far"
    tokens.take({"one": "team/train/u1", "odd": "no job", "none": "//"})
    assert tokens.owners == {"one": TRAIN}
    clock.now_s += OLD_S
    tokens.refresh()
    assert (len(asked), tokens.owners) == (1, {"one": TRAIN}), "it holds until there is an answer"
    tokens.take({"two": "team/train/u2"})
    assert list(tokens.owners) == ["two"]


@pytest.mark.parametrize("is_there", [True, False], ids=["scheduler there", "scheduler away"])
def test_a_scheduler_that_goes_away_silences_nobody_whom_it_told_of(is_there: bool):
    scheduler = Scheduler()
    away = asyncio.Event()

    async def deliver(batch: Batch) -> Answer:
        if away.is_set():
            raise TryLater("away")
        return await scheduler.deliver(batch)

    async def scene() -> list[int]:
        clock, wall = Clock(), Clock(NOW_S)
        quiet = Settings(node="node-1", port=0, forward_s=3600.0, follow_s=3600.0, measure_s=0.0)
        monitor = Monitor(quiet, secrets=lambda: (HELD,), deliver=deliver, is_told=True, clock=clock, wall=wall)
        stage = Stage(monitor, await monitor.start(), scheduler, clock, wall)
        try:
            body = {"pod": "train-worker-0", "value": 0.5}
            first = (await stage.post("/monitor", body)).status
            await monitor.forwarding.send_all()
            assert scheduler.asked_tokens == 1
            if not is_there:
                away.set()
            clock.now_s += 2 * ASK_AGAIN_S
            other = job_token(SECRET, namespace="team", job="other", uid="u9")
            before = [
                first,
                (await stage.post("/monitor", body)).status,
                (await stage.post("/monitor", {**body, "pod": "other"}, token=other)).status,
                (await stage.post("/monitor", {**body, "pod": "team/x-worker-0"}, token=HELD)).status,
            ]
            await monitor.forwarding.send_all()  # asks again, because of the other one
            return [
                *before,
                (await stage.post("/monitor", body)).status,
                (await stage.post("/monitor", {**body, "pod": "other"}, token=other)).status,
            ]
        finally:
            away.set()
            await monitor.stop()

    assert bounded(scene) == [503, 200, 503, 200, 200, 401 if is_there else 503]


def test_a_nodes_token_is_for_the_scheduler_and_not_for_monitors():
    async def scene() -> int:
        async with staged() as stage:
            return (await stage.post("/monitor", {"pod": "team/train-worker-0", "value": 1.0}, token=HELD)).status

    assert bounded(scene) == 401
