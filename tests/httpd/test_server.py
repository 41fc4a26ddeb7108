"""The HTTP server on a real socket: requests in any cut, answers in order, and no request that ends it."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.httpd import Limits, problem
from tests.httpd.wires import bounded, exchange, get, post, serving, statuses
from tests.waiting import others_run, until_async

CLOSE = "Connection: close"


def asked(*parts: bytes, limits: Limits = Limits(), until: bytes = b"") -> bytes:  # noqa: B008
    """What one connection answers, and that the server answers another one afterwards."""

    async def scene() -> bytes:
        async with serving(limits) as (_, port, _):
            answers = await exchange(port, *parts, until=until)
            assert b"still here" in await exchange(port, post("/echo", b"still here", CLOSE))
            return answers

    return bounded(scene)


def test_a_request_gets_what_its_handler_gives():
    head, _, body = asked(post("/echo", b"hello", CLOSE)).partition(b"\r\n\r\n")
    assert body == b"hello"
    status, *headers = head.split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    assert {b"Content-Type: text/plain; charset=utf-8", b"Content-Length: 5", b"Connection: close"} <= set(headers)
    assert b"aiohttp" not in head  # which library in which version is nobody's business


def test_path_query_and_headers_reach_the_handler():
    body = asked(get("/described?a=1&b=%20", "USER-agent: me", CLOSE)).partition(b"\r\n\r\n")[2]
    assert json.loads(body) == {"path": "/described", "query": "a=1&b=%20", "agent": "me"}


def test_pipelined_requests_are_answered_in_their_order():
    answers = asked(b"".join(post("/echo", b"%d;" % number) for number in range(50)) + post("/echo", b"end", CLOSE))
    assert [piece.partition(b"\r\n\r\n")[2] for piece in answers.split(b"HTTP/1.1 ")[1:]] == [
        *(b"%d;" % number for number in range(50)),
        b"end",
    ]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cuts=st.lists(st.integers(1, 200), max_size=12))
def test_it_does_not_matter_how_the_bytes_are_cut(cuts):
    whole = post("/echo", b"one") + post("/echo", b"two" * 20) + post("/echo", b"three", CLOSE)
    parts, rest = [], whole
    for cut in cuts:
        parts.append(rest[:cut])
        rest = rest[cut:]
    answers = asked(*parts, rest)
    assert statuses(answers) == [200, 200, 200]
    assert b"two" * 20 in answers


def test_requests_behind_a_slow_handler_wait_for_their_turn():
    async def scene() -> bytes:
        async with serving() as (house, port, _):
            asking = asyncio.create_task(
                exchange(
                    port, post("/slow", b"1") + post("/echo", b"2") + post("/slow", b"3") + post("/echo", b"4", CLOSE)
                )
            )
            assert await exchange(port, post("/echo", b"another", CLOSE)) != b""
            assert not asking.done()
            assert [request.body for request in house.seen] == [b"another"]
            house.let_go.set()
            return await asking

    answers = bounded(scene)
    assert [piece.partition(b"\r\n\r\n")[2] for piece in answers.split(b"HTTP/1.1 ")[1:]] == [
        b"slow 1", b"2", b"slow 3", b"4"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("behind", "status"),
    [(post("/echo", b"x" * 200), 413), (get("/nowhere", CLOSE), 404), (b"nonsense\r\n\r\n", 400)],
    ids=["a body beyond the limit", "nothing there", "not HTTP"],
)
def test_a_refusal_does_not_overtake_the_answers_before_it(behind, status):
    async def scene() -> list[int]:
        async with serving(Limits(body_bytes=100)) as (house, port, _):
            asking = asyncio.create_task(exchange(port, post("/slow", b"1"), post("/echo", b"2"), behind))
            await house.slowly.wait()
            house.let_go.set()
            return statuses(await asking)

    assert bounded(scene)[-1] == status
    assert set(bounded(scene)[:-1]) <= {200}


def test_what_follows_the_last_request_is_no_request():
    async def scene() -> tuple[list[int], list[bytes]]:
        async with serving() as (house, port, _):
            house.let_go.set()
            answers = await exchange(port, post("/slow", b"1", CLOSE) + post("/echo", b"2"))
            return statuses(answers), [request.body for request in house.seen]

    answers, seen = bounded(scene)
    assert answers in ([200], [400])
    assert seen == []


def test_more_than_may_wait_behind_a_slow_handler_is_read_later_and_answered_all_the_same():
    async def scene() -> list[int]:
        async with serving() as (house, port, _):
            requests = [post("/slow", b"first"), *(post("/echo", b"x" * 1000) for _ in range(200))]
            asking = asyncio.create_task(exchange(port, *requests, post("/echo", b"", CLOSE)))
            await exchange(port, post("/echo", b"another", CLOSE))
            house.let_go.set()
            return statuses(await asking)

    assert bounded(scene) == [200] * 202


@pytest.mark.parametrize("path", ["/broken", "/broken-later"])
def test_a_handler_that_fails_is_a_500_without_its_secrets_and_the_connection_lives(path, caplog):
    answers = asked(get(path) + post("/echo", b"after", CLOSE))
    assert statuses(answers) == [500, 200]
    assert b"secret" not in answers
    assert "a secret of the handler" in caplog.text


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"nonsense\r\n\r\n", id="not HTTP"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01", id="TLS on a plain port"),
        pytest.param(get("/", "Content-Length: 1", "Content-Length: 2"), id="two lengths"),
        pytest.param(
            post("/echo", b"12345", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
            id="a length and chunks, which smuggles",
        ),
        pytest.param(get("/", "Content-Length: -1"), id="a negative length"),
        pytest.param(get("/", "Content-Length: 99999999999999999999"), id="a length that is no number"),
        pytest.param(get("/" + "x" * 3000), id="a target beyond the limit"),
        pytest.param(get("/echo", "X-Long: " + "y" * 3000), id="a header beyond the limit"),
        pytest.param(get("/echo", *(f"X-{number}: 1" for number in range(40))), id="too many headers"),
        pytest.param(b"GET /described HTTP/1.1\r\n\r\n", id="for no host"),
    ],
)
def test_what_cannot_be_read_is_refused_and_the_connection_closed(raw):
    assert statuses(asked(raw, limits=Limits(line_bytes=2000, header_bytes=2000, headers=30))) == [400]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(get("/nowhere", CLOSE), 404, id="a path that nobody serves"),
        pytest.param(get("/echo", CLOSE), 405, id="a method that the path does not take"),
        pytest.param(post("/echo", b"x" * 101), 413, id="a body beyond the limit"),
        pytest.param(
            b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999\r\n\r\n", 413, id="refused before it is sent"
        ),
        pytest.param(get("/described", "Authorization: a", "Authorization: b", CLOSE), 400, id="two tokens"),
        pytest.param(
            b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"33\r\n%s\r\n" % (b"x" * 51) * 2,
            413,
            id="chunks that add up beyond the limit",
        ),
        pytest.param(
            b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            + b"65\r\n%s\r\n0\r\n\r\n" % (b"x" * 101),
            413,
            id="chunks beyond the limit that came with their head",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_a_problem_that_says_so(raw, status):
    answer = asked(raw, limits=Limits(body_bytes=100))
    assert statuses(answer) == [status]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    assert json.loads(body)["status"] == status
    assert json.loads(body)["detail"]


def test_who_is_still_sending_gets_the_refusal_all_the_same():
    """A reset would throw it away together with what was not read."""

    async def scene() -> list[int]:
        async with serving(Limits(body_bytes=100)) as (_, port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(post("/echo", b"x" * 4_000_000))
            answer = await reader.read()
            await writer.drain()
            writer.close()
            return statuses(answer)

    assert bounded(scene) == [413]


def test_a_refused_method_says_which_would_do():
    assert b"\r\nAllow: POST, PUT\r\n" in asked(get("/echo", CLOSE))


def test_head_is_get_without_its_body():
    head, _, body = asked(get("/described", CLOSE).replace(b"GET", b"HEAD", 1)).partition(b"\r\n\r\n")
    assert statuses(head) == [200]
    assert b"Content-Length: 0" not in head
    assert body == b""


def test_chunks_make_a_body():
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert asked(head, b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n").endswith(b"\r\n\r\nabcde")


def test_who_asks_whether_to_send_a_body_is_told_to_go_on():
    async def scene() -> tuple[bytes, bytes]:
        async with serving() as (_, port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head, _, body = post("/echo", b"hello", "Expect: 100-continue", CLOSE).partition(b"\r\n\r\n")
            writer.write(head + b"\r\n\r\n")
            told = await reader.readuntil(b"\r\n\r\n")
            writer.write(body)
            answer = await reader.read()
            writer.transport.abort()
            return told, answer

    told, answer = bounded(scene)
    assert told == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"hello")


def test_an_upgrade_is_answered_in_the_language_we_speak():
    answers = asked(get("/described", "Connection: Upgrade", "Upgrade: h2c"))
    assert statuses(answers) == [200]


def test_an_old_client_gets_its_answer_and_the_connection_is_closed():
    assert statuses(asked(b"GET /described HTTP/1.0\r\n\r\n")) == [200]


def test_a_body_that_does_not_come_is_given_up_and_the_asker_told():
    async def scene() -> list[int]:
        async with serving(Limits(body_s=0.05)) as (_, port, _):
            return statuses(await exchange(port, post("/echo", b"hello")[:-1]))

    assert bounded(scene) == [408]


def test_who_is_not_admitted_is_refused_before_a_body_is_read():
    async def scene() -> tuple[list[int], int]:
        refusal = problem(401, "who are you?")
        async with serving(admit=lambda request: None if request.header("X-Key") else refusal) as (house, port, _):
            stranger = await exchange(port, post("/echo", b"x" * 100)[:-1])  # the last byte never comes
            known = await exchange(port, post("/echo", b"hello", "X-Key: 1", CLOSE))
            return statuses(stranger) + statuses(known), len(house.seen)

    assert bounded(scene) == ([401, 200], 1)


def test_all_bodies_together_have_a_limit():
    async def scene() -> list[int]:
        async with serving(Limits(bodies_bytes=1000)) as (_, port, server):
            first = await asyncio.open_connection("127.0.0.1", port)
            first[1].write(post("/echo", b"x" * 700)[:-1])
            await until_async(lambda: server.held_bytes, "the body of the first is held")
            second = await exchange(port, post("/echo", b"y" * 700)[:-1])
            first[1].write(b"x")
            answer = await first[0].readuntil(b"x" * 700)
            first[1].transport.abort()
            third = await exchange(port, post("/echo", b"y" * 700, CLOSE))
            return statuses(second) + statuses(answer) + statuses(third)

    assert bounded(scene) == [503, 200, 200]


def test_stopping_answers_what_was_asked_and_takes_no_more():
    async def scene() -> tuple[bytes, bool]:
        async with serving() as (house, port, server):
            asking = asyncio.create_task(exchange(port, post("/slow", b"asked before")))
            await house.slowly.wait()
            stopping = asyncio.create_task(server.stop(grace_s=30))
            await others_run()
            house.let_go.set()
            await stopping
            answer = await asking
            try:
                await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return answer, True
            return answer, False

    answer, closed = bounded(scene)
    assert answer.endswith(b"slow asked before")
    assert closed


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    noise=st.one_of(
        st.binary(max_size=400), st.binary(max_size=200).map(lambda tail: b"POST /echo HTTP/1.1\r\n" + tail)
    )
)
def test_no_bytes_end_the_server(noise):
    async def scene() -> bytes:
        async with serving() as (_, port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(noise)
            writer.write_eof()
            await reader.read()
            writer.transport.abort()
            return await exchange(port, post("/echo", b"still here", CLOSE))

    assert bounded(scene).endswith(b"still here")
