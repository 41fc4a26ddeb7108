"""One request: an answer whatever its status, and one kind of error for everything that is no answer."""

import asyncio
import contextlib

import pytest

from sterna.httpd import CallFailed, call
from tests.httpd.wires import bounded, serving


def test_a_call_brings_back_status_headers_and_body():
    async def scene():
        async with serving() as (house, port, _):
            answer = await call("POST", f"http://127.0.0.1:{port}/echo?x=1", body=b"hello", headers={"X-Me": "1"})
            return answer, house.seen[0]

    answer, request = bounded(scene)
    assert (answer.status, answer.body, answer.headers[b"content-length"]) == (200, b"hello", b"5")
    assert (request.path, request.query, request.header("x-me")) == ("/echo", "x=1", "1")


def test_a_refusal_is_an_answer():
    async def scene():
        async with serving() as (_, port, _):
            return await call("GET", f"http://127.0.0.1:{port}/nowhere")

    assert bounded(scene).status == 404


@pytest.mark.parametrize("url", ["ftp://here/", "http://", "nonsense", "http://127.0.0.1:99999/"])
def test_what_is_no_address_is_said_to_be_none(url):
    with pytest.raises(CallFailed):
        bounded(lambda: call("GET", url))


def test_a_header_cannot_smuggle_another_line():
    async def scene():
        async with serving() as (house, port, _):
            with pytest.raises(CallFailed, match="header"):
                await call("GET", f"http://127.0.0.1:{port}/described", headers={"Authorization": "a\r\nX: y"})
            return house.seen

    assert bounded(scene) == []


def test_nobody_there_is_worth_another_try():
    async def scene():
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        await call("GET", f"http://127.0.0.1:{port}/")

    with pytest.raises(CallFailed):
        bounded(scene)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="it hangs up at once"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", id="it hangs up in the middle"),
        pytest.param(b"220 mail.example ESMTP\r\n", id="it speaks another language"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5_000_000, id="it never stops"),
    ],
)
def test_what_is_no_answer_is_one_kind_of_error(answer):
    async def scene():
        async def odd(reader, writer):
            await reader.read(1)
            writer.write(answer)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.close()

        async with await asyncio.start_server(odd, "127.0.0.1", 0) as server:
            await call("GET", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")

    with pytest.raises(CallFailed):
        bounded(scene)


def test_an_answer_that_does_not_come_is_given_up_at_the_deadline():
    async def scene():
        async with serving() as (_, port, _):
            await call("POST", f"http://127.0.0.1:{port}/slow", deadline_s=0.05)

    with pytest.raises(CallFailed):
        bounded(scene)


def test_an_answer_without_a_length_ends_with_the_connection():
    async def scene():
        async def old(reader, writer):
            await reader.read(1)
            writer.write(b"HTTP/1.0 200 OK\r\n\r\nall of it")
            writer.close()

        async with await asyncio.start_server(old, "127.0.0.1", 0) as server:
            return await call("GET", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")

    assert bounded(scene).body == b"all of it"
