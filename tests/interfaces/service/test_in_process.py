"""A scheduler in the asker's own process: its answers and errors as they are, deadlines, and streams that are left."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest

from sterna.interfaces.client import Client
from sterna.interfaces.client.in_process import InProcess
from sterna.interfaces.scheduler_port import Scheduler
from sterna.model.errors import EngineRefused, EngineUnavailable, InvalidRequest
from tests.interfaces.service.fake import FakeScheduler
from tests.interfaces.service.serving import SOON_S, in_process, manifest


@pytest.fixture
def asked():
    with in_process() as both:
        yield both


def test_an_error_arrives_as_the_one_that_was_raised(asked):
    client, scheduler = asked
    scheduler.breaks = EngineRefused("final")
    with pytest.raises(EngineRefused) as caught:
        client.jobs()
    assert caught.value is scheduler.breaks


def test_a_name_with_half_a_character_finds_nothing_and_breaks_nothing(asked):
    client, _ = asked
    for ask in (client.job, client.delete, client.drain):
        with pytest.raises(Exception, match=r"there is no .*\?"):
            ask("a\ud800")


def test_an_engine_that_is_not_there_to_run_jobs_cannot_be_stopped(asked):
    client, _ = asked
    with pytest.raises(InvalidRequest, match="nothing"):
        client.shutdown()


def test_an_answer_that_does_not_come_in_time_is_given_up():
    cancelled = threading.Event()

    class Slow(FakeScheduler):
        async def nodes(self):
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    @asynccontextmanager
    async def opening() -> AsyncIterator[Scheduler]:
        yield Slow()

    with closing(Client(line=InProcess(opening, whom="the scheduler", deadline_s=0.2))) as client:
        with pytest.raises(EngineUnavailable, match=r"the scheduler did not answer within 0\.2 s"):
            client.nodes()
        assert cancelled.wait(SOON_S)
        assert client.jobs() == []


def test_what_keeps_it_from_opening_is_told_to_every_question():
    @asynccontextmanager
    async def opening() -> AsyncIterator[Scheduler]:
        raise EngineRefused("no key fits")
        yield

    with closing(Client(line=InProcess(opening, whom="the scheduler"))) as client:
        for _ in range(2):
            with pytest.raises(EngineRefused, match="no key fits"):
                client.jobs()


def test_a_closed_client_says_so():
    with in_process() as (client, _):
        pass
    with pytest.raises(EngineUnavailable, match="is not asked any more"):
        client.jobs()


def test_logs_are_told_part_by_part_and_may_be_left_in_the_middle(asked, tmp_path):
    client, scheduler = asked
    client.submit(manifest("a"))
    log = tmp_path / "log"
    log.write_bytes(b"first\n")
    scheduler.wrote("default/a", "a-worker-0", log)
    assert b"".join(client.logs("a", prefix=True)) == b"[a-worker-0] first\n"
    stream = client.logs("a", follow=True)
    assert next(stream) == b"first\n"
    stream.close()  # nothing more has come: it is left while it waits
    with pytest.raises(InvalidRequest, match="previous"):
        next(client.logs("a", follow=True, previous=True))
    assert client.health()["ok"]


def test_a_follower_is_told_when_the_client_is_closed_under_it(tmp_path):
    heard, log = threading.Event(), tmp_path / "log"
    ended: list[BaseException] = []
    log.write_bytes(b"first\n")

    def follow(client: Client) -> None:
        try:
            for _ in client.logs("a", follow=True):
                heard.set()
        except EngineUnavailable as error:
            ended.append(error)

    with in_process() as (client, scheduler):
        client.submit(manifest("a"))
        scheduler.wrote("default/a", "a-worker-0", log)
        thread = threading.Thread(target=follow, args=(client,))
        thread.start()
        assert heard.wait(SOON_S)
    thread.join(SOON_S)
    assert not thread.is_alive()
    assert "is not asked any more" in str(ended[0])
