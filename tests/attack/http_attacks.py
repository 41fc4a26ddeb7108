"""The attacks, the same for every server: a test module subclasses `HttpAttacks` and brings its victims.

`victim` runs with the limits that people get, `quick` with deadlines that a test can wait for.
"""

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

import pytest

from tests.attack.http_corpus import (
    DISPUTED,
    LONG_BODIES,
    LONG_HEADS,
    ODD,
    Victim,
    crowd,
    drip_until_closed,
    send_all,
    statuses,
)

GROWN_MIB_MAX = 24.0
CONNECTIONS = 30  # at once, as many as took a server to 559 MB
CROWD = 1100  # more than a process may hold files, where nobody raised that limit


class HttpAttacks:
    @pytest.mark.parametrize("rest", DISPUTED)
    def test_a_disputed_request_is_refused_and_nothing_behind_it_is_read(self, quick: Victim, rest: bytes):
        """Or waited for in vain, where one of its readings has no end."""
        with quick.unharmed(grown_mib_max=GROWN_MIB_MAX):
            answers = quick.raw(quick.head, rest)
            assert b"hidden-in-another" not in answers
            assert len(statuses(answers)) <= 1  # the two readings cannot both be answered
            assert all(400 <= status < 500 for status in statuses(answers))

    @pytest.mark.parametrize("rest", ODD)
    def test_an_odd_request_is_one_request(self, victim: Victim, rest: bytes):
        with victim.unharmed(grown_mib_max=GROWN_MIB_MAX):
            answers = [status for status in statuses(victim.raw(victim.last_head, rest)) if status != 100]
            assert len(answers) == 1
            assert 200 <= answers[0] < 500

    def test_a_trailer_is_no_header(self, victim: Victim):
        """It neither lets a stranger in nor puts another token in place of the one in the head."""
        chunks = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
        with victim.unharmed(grown_mib_max=GROWN_MIB_MAX):
            stranger = f"POST {victim.target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
            let_in = victim.raw(stranger, chunks, f"Authorization: Bearer {victim.token}\r\n\r\n".encode())
            assert statuses(let_in) == [401]
            kept = victim.raw(victim.last_head, chunks, b"Authorization: Bearer wrong\r\nHost: elsewhere\r\n\r\n")
            assert statuses(kept) in ([400], [422])  # let in, and then the body is found to be no good

    @pytest.mark.parametrize("again", ["Authorization: Bearer wrong", "Authorization: Bearer {token}"])
    def test_two_tokens_are_none(self, victim: Victim, again: str):
        with victim.unharmed(grown_mib_max=GROWN_MIB_MAX):
            second = again.format(token=victim.token).encode()
            answers = victim.raw(victim.last_head, second, b"\r\nContent-Length: 2\r\n\r\n{}")
            assert statuses(answers) in ([400], [401])

    @pytest.mark.parametrize("head", LONG_HEADS)
    def test_an_unfinished_head_costs_nothing(self, victim: Victim, head: bytes):
        with victim.unharmed(grown_mib_max=GROWN_MIB_MAX), contextlib.ExitStack() as open_lines:
            for _ in range(CONNECTIONS):
                line = open_lines.enter_context(victim.connect())
                assert send_all(line, head) < len(head) or _refused(line)
            assert victim.ordinary() == 200  # while all of them are still open

    @pytest.mark.parametrize("token", [False, True], ids=["a stranger", "with a token"])
    @pytest.mark.parametrize("rest", LONG_BODIES)
    def test_an_unfinished_body_costs_nothing(self, victim: Victim, rest: bytes, token: bool):
        head = victim.head if token else f"POST {victim.target} HTTP/1.1\r\nHost: localhost\r\n".encode()
        with victim.unharmed(grown_mib_max=GROWN_MIB_MAX), contextlib.ExitStack() as open_lines:
            for _ in range(CONNECTIONS // 10):
                line = open_lines.enter_context(victim.connect())
                send_all(line, head + rest)  # an extension is passed over, so that one ends with the body's deadline
            assert victim.ordinary() == 200

    def test_answers_that_nobody_takes_cost_nothing(self, victim: Victim):
        """Requests without end on each connection, and not one answer is read."""
        request = f"GET {victim.target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {victim.token}\r\n\r\n"
        requests = request.encode() * 40_000
        with victim.unharmed(grown_mib_max=GROWN_MIB_MAX), contextlib.ExitStack() as open_lines:
            lines = [open_lines.enter_context(victim.connect()) for _ in range(CONNECTIONS // 3)]
            for line in lines:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                line.settimeout(1.0)  # what is not taken for so long waits for us to read
            with ThreadPoolExecutor(len(lines)) as attackers:
                sent = list(attackers.map(send_all, lines, repeat(requests)))
            assert max(sent) < len(requests), "an end was met: not everything was taken"
            assert victim.ordinary() == 200

    @pytest.mark.parametrize("begin", [b"", b"GET / HTTP/1.1\r\nX: "], ids=["silent", "in the middle of a head"])
    def test_an_idle_crowd_keeps_nobody_out(self, victim: Victim, begin: bytes):
        with victim.unharmed(grown_mib_max=GROWN_MIB_MAX), crowd(victim, CROWD, begin):
            assert [victim.ordinary() for _ in range(20)] == [200] * 20
            assert victim.files() < CROWD / 2, "most of them were sent away"

    @pytest.mark.parametrize(
        ("begin", "drop"),
        [
            pytest.param(b"POST / HTTP/1.1\r\nX-Long: ", b"x", id="a head"),
            pytest.param(b"G", b"E", id="a method"),
            pytest.param(b"", b"\r\n" * 1000, id="empty lines"),
            pytest.param(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n{", b"x", id="a body without a token"),
        ],
    )
    def test_who_drips_is_sent_away(self, quick: Victim, begin: bytes, drop: bytes):
        """A byte now and then does not put the end off."""
        with quick.unharmed(grown_mib_max=GROWN_MIB_MAX), crowd(quick, 50, begin) as lines:
            assert quick.ordinary() == 200
            assert drip_until_closed(lines, drop) == 50

    def test_who_drips_a_body_with_a_token_is_sent_away(self, quick: Victim):
        begin = quick.head + b"Content-Length: 100000\r\n\r\n"
        with quick.unharmed(grown_mib_max=GROWN_MIB_MAX), crowd(quick, 20, begin) as lines:
            assert drip_until_closed(lines) == 20

    @pytest.mark.parametrize("asks", [False, True], ids=["from the beginning", "after its request"])
    def test_who_says_nothing_is_sent_away(self, quick: Victim, asks: bool):
        begin = quick.head + b"Content-Length: 2\r\n\r\n{}" if asks else b""
        with quick.unharmed(grown_mib_max=GROWN_MIB_MAX), crowd(quick, 50, begin) as lines:
            assert drip_until_closed(lines, b"") == 50


def _refused(line: socket.socket) -> bool:
    """All of it fitted into the buffers in between; then the answer must be a refusal."""
    try:
        said = line.recv(1 << 16)
    except TimeoutError:
        return False
    except OSError:
        return True
    return said == b"" or statuses(said)[-1] >= 400
