"""The accept loop on real sockets, in front of a protocol that does nothing but keep what it is sent."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import pytest

from sterna.connections import Admission, Limits
from sterna.connections.admission import bound
from sterna.connections.guest import address_of
from tests.httpd.wires import Clock, bounded
from tests.waiting import others_run, stays_async, until_async


class Listener(asyncio.Protocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Line:
    """A client's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.peer = writer.get_extra_info("sockname")[:2]

    async def answers(self) -> bool:
        """False: it was closed."""
        try:
            self.writer.write(b"x")
            return await self.reader.read(1) == b"x"
        except ConnectionError:
            return False

    async def over(self) -> bytes:
        """What came until the other side closed it."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


class Hall:
    def __init__(self, admission: Admission, clock: Clock, port: int) -> None:
        self.admission = admission
        self.clock = clock
        self.port = port
        self.lines: list[Line] = []

    async def arrive(self, host: str = "127.0.0.1") -> Line:
        """From an address of loopback."""
        line = Line(*await asyncio.open_connection("127.0.0.1", self.port, local_addr=(host, 0)))
        self.lines.append(line)
        self.clock.now_s += 0.001  # so that who came first is known
        return line

    async def enter(self, host: str = "127.0.0.1") -> Line:
        line = await self.arrive(host)
        await until_async(lambda: self.admission.knows(line.peer), "it is let in")
        return line


@asynccontextmanager
async def hall(limits: Limits) -> AsyncIterator[Hall]:
    clock = Clock()
    admission = Admission(Listener, limits, refusal=b"full", clock=clock)
    listeners = await bound("127.0.0.1", 0)
    port = listeners[0].getsockname()[1]
    admission.open(listeners)
    there = Hall(admission, clock, port)
    try:
        yield there
    finally:
        for line in there.lines:
            line.writer.transport.abort()
        await admission.close()
        admission.send_all_away()


def test_one_too_many_takes_the_place_of_who_waited_longest():
    async def scene() -> list[bool]:
        async with hall(Limits(connections=3, per_address=3)) as there:
            lines = [await there.enter() for _ in range(4)]
            assert len(there.admission) == 3
            return [await line.answers() for line in lines]

    assert bounded(scene) == [False, True, True, True]


def test_an_address_has_its_own_limit_and_others_keep_their_places():
    async def scene() -> list[bool]:
        async with hall(Limits(connections=10, per_address=2)) as there:
            quiet = await there.enter("127.0.0.2")
            crowd = [await there.enter("127.0.0.1") for _ in range(5)]
            return [await line.answers() for line in (quiet, *crowd)]

    assert bounded(scene) == [True, False, False, False, True, True]


def test_a_full_hall_sends_away_one_of_the_address_that_has_most():
    async def scene() -> list[bool]:
        async with hall(Limits(connections=4, per_address=3)) as there:
            quiet = await there.enter("127.0.0.2")
            crowd = [await there.enter("127.0.0.1") for _ in range(3)]
            late = await there.enter("127.0.0.3")
            return [await line.answers() for line in (quiet, *crowd, late)]

    assert bounded(scene) == [True, False, True, True, True]


def test_who_has_a_request_at_work_keeps_its_place_and_one_too_many_is_told_so():
    async def scene() -> tuple[bool, bool, bytes]:
        async with hall(Limits(connections=2, per_address=2)) as there:
            busy, idle = await there.enter(), await there.enter()
            with there.admission.at_work(busy.peer):
                late = await there.enter()
                assert await late.answers()
                assert not await idle.answers()
                with there.admission.at_work(late.peer):
                    refused = await (await there.arrive()).over()
            return await busy.answers(), await late.answers(), refused

    assert bounded(scene) == (True, True, b"full")


@pytest.mark.parametrize(
    ("says", "after_s", "stays"),
    [
        pytest.param(b"", 9.0, True, id="silent for a while"),
        pytest.param(b"", 11.0, False, id="silent beyond the time for a head"),
    ],
)
def test_a_head_has_its_time_from_the_connections_beginning(says, after_s, stays):
    assert _stays(after_s, request=False, says=says) is stays


@pytest.mark.parametrize(
    ("says", "after_s", "stays"),
    [
        pytest.param(b"", 70.0, True, id="idle"),
        pytest.param(b"", 80.0, False, id="idle beyond its time"),
        pytest.param(b"x", 9.0, True, id="a head has begun"),
        pytest.param(b"x", 11.0, False, id="a head has begun, and its time is over"),
    ],
)
def test_after_a_request_there_is_more_time_until_the_next_begins(says, after_s, stays):
    assert _stays(after_s, request=True, says=says) is stays


def _stays(after_s: float, *, request: bool, says: bytes) -> bool:
    async def scene() -> bool:
        async with hall(Limits(head_s=10.0, idle_s=75.0)) as there:
            line = await there.enter()
            if request:
                with there.admission.at_work(line.peer):
                    assert await line.answers()
            if says:
                assert await line.answers()
            (guest,) = there.admission.guests
            return not guest.overdue(there.clock.now_s + after_s)

    return bounded(scene)


@pytest.mark.parametrize("request_before", [False, True], ids=["from the beginning", "after a request"])
def test_further_bytes_of_a_head_do_not_put_its_end_off(request_before):
    async def scene() -> list[bool]:
        async with hall(Limits(head_s=10.0)) as there:
            line = await there.enter()
            (guest,) = there.admission.guests
            if request_before:
                with there.admission.at_work(line.peer):
                    assert await line.answers()
            found = []
            for _ in range(3):
                assert await line.answers()
                there.clock.now_s += 4.0
                found.append(guest.overdue(there.clock.now_s))
            return found

    assert bounded(scene) == [False, False, True]


def test_who_is_overdue_is_sent_away():
    async def scene() -> bytes:
        async with hall(Limits(head_s=10.0)) as there:
            line = await there.enter()
            there.clock.now_s += 11.0
            return await line.over()  # ends with the next look around

    assert bounded(scene) == b""


def test_who_does_not_take_an_answer_is_overdue_even_while_a_request_is_at_work():
    async def scene() -> tuple[bool, bool]:
        async with hall(Limits(answer_s=30.0)) as there:
            line = await there.enter()
            (guest,) = there.admission.guests
            with there.admission.at_work(line.peer):
                guest.pause_writing()
                early, late = (guest.overdue(there.clock.now_s + after_s) for after_s in (29.0, 31.0))
                guest.resume_writing()
                return (early, late) if not guest.overdue(there.clock.now_s + 31.0) else (True, True)

    assert bounded(scene) == (False, True)


@pytest.mark.parametrize("waits", ["for a head", "for the next request", "for room in the buffers"])
def test_time_in_which_the_whole_process_was_held_up_counts_for_nobody(waits):
    async def scene() -> tuple[bool, bool]:
        async with hall(Limits(head_s=10.0, idle_s=10.0, answer_s=10.0)) as there:
            line = await there.enter()
            (guest,) = there.admission.guests
            with there.admission.at_work(line.peer) if waits != "for a head" else nullcontext():
                pass
            if waits == "for room in the buffers":
                guest.began()
                guest.pause_writing()
            before = guest.overdue(there.clock.now_s + 11.0)
            guest.excuse(5.0)
            return before, guest.overdue(there.clock.now_s + 11.0)

    assert bounded(scene) == (True, False)


def test_who_came_while_the_whole_process_was_held_up_is_not_sent_away_for_it():
    async def scene() -> bool:
        async with hall(Limits(head_s=1.0)) as there:
            line = await there.enter()
            there.clock.now_s += 1.1
            time.sleep(0.8)  # it looks around every quarter of a second: this time it comes late by more than that
            await stays_async(lambda: there.admission.knows(line.peer), "it is not sent away", for_s=0.6)
            return there.admission.knows(line.peer)

    assert bounded(scene)


def test_no_connection_is_read_in_larger_pieces_than_the_others_can_wait_for():
    async def scene() -> int:
        sizes: list[int] = []

        class Measuring(Listener):
            def data_received(self, data: bytes) -> None:
                sizes.append(len(data))

        admission = Admission(Measuring, Limits())
        listeners = await bound("127.0.0.1", 0)
        admission.open(listeners)
        _, writer = await asyncio.open_connection(*listeners[0].getsockname())
        writer.write(b"x" * (1 << 20))
        await writer.drain()
        await until_async(lambda: sum(sizes) >= 1 << 20, "all of it has arrived")
        writer.transport.abort()
        await admission.close()
        admission.send_all_away()
        return max(sizes)

    assert bounded(scene) <= 1 << 15


@pytest.mark.parametrize("is_waited_at", [True, False], ids=["somebody comes", "nobody comes"])
def test_without_a_file_to_spare_it_waits_says_so_once_and_goes_on(caplog, monkeypatch, is_waited_at):
    """Linux complains of a lack of files even where there is nobody to accept: nobody is sent away for that."""

    async def scene() -> tuple[bool, bool]:
        async with hall(Limits()) as there:
            idle = await there.enter()
            loop, tries, is_scarce = asyncio.get_running_loop(), 0, True
            accept = loop.sock_accept

            async def scarce(listener: socket.socket):
                nonlocal tries
                if is_scarce:
                    tries += 1
                    await others_run()
                    raise OSError(24, "Too many open files")
                return await accept(listener)

            monkeypatch.setattr(loop, "sock_accept", scarce)
            began_s = loop.time()
            await there.enter()  # the accept that was under way
            if is_waited_at:
                await there.arrive()
            tries_max = lambda: 2 + 2 * (loop.time() - began_s)  # noqa: E731
            await stays_async(lambda: tries <= tries_max(), "it tries twice a second", for_s=0.7)
            is_kept, is_scarce = there.admission.knows(idle.peer), False
            return is_kept, await (await there.enter()).answers()

    is_kept, answers = bounded(scene)
    assert answers
    assert is_kept is not is_waited_at, "who waits longest gives its file to who comes"
    assert caplog.text.count("no file is left") == is_waited_at


@pytest.mark.parametrize(
    ("host", "who"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2%eth0", "2001:db8:1:2::/64"),
        ("not an address", "not an address"),
    ],
)
def test_who_counts_as_one(host, who):
    assert address_of(host) == who
