"""Batches to the scheduler over a real socket: again when it is away, all again when it started anew."""

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from sterna.httpd import Reply, problem
from sterna.monitor.forwarding import BACKOFF_MOST_S, BATCH_MAX, Forwarding, NotTaken, TryLater, by_http
from sterna.monitor.windows import Windows
from sterna.protocol.reports import Answer, Report, Usage
from tests.httpd.wires import bounded
from tests.monitor.stage import SECRET, Scheduler, door, until


class Sender:
    def __init__(self, deliver, interval_s=0.01):
        self.windows = Windows(window=1000)
        self.follow: dict[str, str] = {}
        self.forwarding = Forwarding(
            self.windows,
            deliver,
            node="node-1",
            monitor="m-1",
            interval_s=interval_s,
            followed=lambda follow: self.follow.update(follow),
            chance=random.Random(1),
        )

    def say(self, *values, pod="team/train-worker-0"):
        for value in values:
            self.windows.take(Report(pod, int(value * 100), value, value), 0.0)
        self.forwarding.took()


def test_reports_arrive_in_order_with_the_monitors_name():
    async def scene():
        scheduler = Scheduler()
        async with door(scheduler) as port:
            sender = Sender(by_http(f"http://127.0.0.1:{port}/", lambda: SECRET))
            sender.say(1.0, 2.0)
            sender.forwarding.measured(Usage(cpu=1.5))
            await sender.forwarding.send_all()
            await sender.forwarding.send_all()
        return scheduler

    scheduler = bounded(scene)
    (batch,) = scheduler.batches  # the second time there was nothing to say
    assert (batch.node, batch.monitor, batch.load) == ("node-1", "m-1", Usage(cpu=1.5))
    assert scheduler.values() == [1.0, 2.0]


def test_many_reports_go_in_several_batches():
    async def scene():
        scheduler = Scheduler()
        sender = Sender(scheduler.deliver)
        sender.say(*range(1, BATCH_MAX + 11))
        await sender.forwarding.send_all()
        return scheduler

    scheduler = bounded(scene)
    assert [len(batch.reports) for batch in scheduler.batches] == [BATCH_MAX, 10]
    assert len(scheduler.reports) == BATCH_MAX + 10


def test_a_scheduler_that_starts_anew_is_told_the_windows_again():
    async def scene():
        scheduler = Scheduler()
        sender = Sender(scheduler.deliver)
        sender.say(1.0, 2.0)
        await sender.forwarding.send_all()
        scheduler.start_anew("second")
        sender.say(3.0)
        await sender.forwarding.send_all()
        return scheduler, sender

    scheduler, sender = bounded(scene)
    assert scheduler.values() == [1.0, 2.0, 3.0]
    assert sender.forwarding.instance == "second"


def test_while_the_scheduler_is_away_nothing_is_lost_and_waiting_grows():
    async def scene():
        scheduler = Scheduler()
        async with door(scheduler) as port:
            pass  # gone before anybody came
        sender = Sender(by_http(f"http://127.0.0.1:{port}", lambda: SECRET))
        waits = []
        for value in (1.0, 2.0, 3.0):
            sender.say(value)
            await sender.forwarding.send_all()
            waits.append(sender.forwarding._backoff_s)
        trouble = sender.forwarding.trouble
        async with door(scheduler, port):
            await sender.forwarding.send_all()
        return scheduler, waits, trouble, sender.forwarding

    scheduler, waits, trouble, forwarding = bounded(scene)
    assert waits == [0.5, 1.0, 2.0]
    assert trouble is not None
    assert scheduler.values() == [1.0, 2.0, 3.0]
    assert forwarding.trouble is None
    assert forwarding._backoff_s == 0.0


def test_waiting_has_an_end():
    async def nobody(batch):
        raise TryLater("away")

    async def scene():
        sender = Sender(nobody)
        sender.say(1.0)
        for _ in range(20):
            await sender.forwarding.send_all()
        return sender.forwarding._backoff_s

    assert bounded(scene) == BACKOFF_MOST_S


@pytest.mark.parametrize(
    ("refusal", "kept"),
    [
        pytest.param(problem(401, "no"), True, id="not let in: the token may be replaced"),
        pytest.param(problem(503, "no"), True, id="not the leader"),
        pytest.param(problem(500, "no"), True, id="an error of theirs"),
        pytest.param(Reply(b"Ok"), True, id="answered by somebody else"),
        pytest.param(problem(422, "no"), False, id="refused for good: it must not block what follows"),
        pytest.param(problem(413, "no"), False, id="too long for them"),
    ],
)
def test_what_is_refused_is_kept_or_dropped_by_what_would_help(refusal, kept):
    async def scene():
        scheduler = Scheduler()
        async with door(scheduler) as port:
            sender = Sender(by_http(f"http://127.0.0.1:{port}", lambda: SECRET))
            sender.say(1.0)
            scheduler.refusal = refusal
            await sender.forwarding.send_all()
            scheduler.refusal = None
            sender.say(2.0)
            await sender.forwarding.send_all()
        return scheduler

    assert bounded(scene).values() == ([1.0, 2.0] if kept else [2.0])


POISON = Report("team-a/evil-worker-0", 2**63, 1.0, 1.0)  # no monitor takes it in; one of before did


@pytest.mark.parametrize("strict", [False, True], ids=["judged one by one", "refused as a whole"])
def test_s1_one_bad_report_costs_its_neighbours_nothing(strict):
    async def scene():
        scheduler = Scheduler()
        scheduler.strict = strict
        async with door(scheduler) as port:
            sender = Sender(by_http(f"http://127.0.0.1:{port}", lambda: SECRET))
            sender.say(*(float(number) for number in range(1, 41)))
            sender.windows.take(POISON, 0.0)
            sender.windows.take(POISON._replace(seq=2**63 + 1), 0.0)
            sender.say(*(float(number) for number in range(1, 41)), pod="team-c/other-worker-0")
            sender.forwarding.measured(Usage(cpu=1.0))
            await sender.forwarding.send_all()
            scheduler.start_anew("second")
            sender.say(41.0)
            await sender.forwarding.send_all()
        return scheduler, sender.windows

    scheduler, windows = bounded(scene)
    assert scheduler.values() == [float(number) for number in range(1, 42)]
    assert scheduler.values("team-c/other-worker-0") == [float(number) for number in range(1, 41)]
    assert windows.refused == 2, "each was refused once, and not offered again to the next scheduler"
    (record,) = [record for (pod, _), record in windows.items() if pod == POISON.pod]
    assert (record.refused, record.unsent, len(record.window)) == (2, 0, 0)
    assert "seq" in record.refusal
    assert windows.unsent() == []


def test_what_no_scheduler_answered_is_not_sent():
    """The first half of a batch that was refused as a whole arrives, then the scheduler is gone."""

    async def scene():
        taken: list[Report] = []

        async def deliver(batch):
            if len(batch.reports) > 2:
                raise NotTaken("too many for me")
            if taken:
                raise TryLater("away")
            taken.extend(batch.reports)
            return Answer("i")

        sender = Sender(deliver)
        sender.say(1.0, 2.0, 3.0, 4.0)
        await sender.forwarding.send_all()
        return taken, sender.windows

    taken, windows = bounded(scene)
    assert [report.value for report in taken] == [1.0, 2.0]
    assert [report.value for report in windows.unsent()] == [3.0, 4.0]
    assert windows.refused == 0


def test_a_scheduler_that_says_when_to_come_again_is_obeyed_within_reason():
    async def scene():
        scheduler = Scheduler()
        scheduler.refusal = problem(503, "no")._replace(headers={"Retry-After": "7"})
        async with door(scheduler) as port:
            sender = Sender(by_http(f"http://127.0.0.1:{port}", lambda: SECRET))
            sender.say(1.0)
            await sender.forwarding.send_all()
            first = sender.forwarding._backoff_s
            scheduler.refusal = problem(503, "no")._replace(headers={"Retry-After": "999999999"})
            await sender.forwarding.send_all()
            return first, sender.forwarding._backoff_s

    assert bounded(scene) == (7.0, 60.0)


def test_without_a_token_nothing_is_sent_until_there_is_one():
    async def scene():
        scheduler = Scheduler()
        tokens: list[str] = []
        async with door(scheduler) as port:
            sender = Sender(by_http(f"http://127.0.0.1:{port}", lambda: tokens[0] if tokens else None))
            sender.say(1.0)
            await sender.forwarding.send_all()
            before = list(scheduler.batches)
            tokens.append(SECRET)
            await sender.forwarding.send_all()
        return before, scheduler

    before, scheduler = bounded(scene)
    assert before == []
    assert scheduler.values() == [1.0]


def test_what_the_scheduler_wants_followed_is_passed_on():
    async def scene():
        scheduler = Scheduler()
        scheduler.follow = {"team/train-worker-0": "(?P<value>.*)"}
        sender = Sender(scheduler.deliver)
        sender.say(1.0)
        await sender.forwarding.send_all()
        return sender.follow

    assert bounded(scene) == {"team/train-worker-0": "(?P<value>.*)"}


def test_many_reports_at_once_do_not_wait_for_the_interval():
    async def scene():
        scheduler = Scheduler()
        sender = Sender(scheduler.deliver, interval_s=3600.0)
        async with AsyncExitStack() as ending:
            running = asyncio.create_task(sender.forwarding.run())
            ending.callback(running.cancel)
            sender.say(*range(1, 401))
            await until(lambda: len(scheduler.reports) == 400)
        return True

    assert bounded(scene)
