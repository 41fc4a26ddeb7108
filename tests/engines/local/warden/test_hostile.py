"""Hostile input: whatever arrives at the socket, the warden lives, answers the next one, and does nothing unasked."""

import asyncio
import json
import os
import resource
import socket
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.requests import Fields, hook_in, launch_in
from sterna.engines.local.launch.warden.values import ProcessPhase
from sterna.engines.local.launch.warden.wire import LINE_BYTES_MAX, Lines, LineTooLong, Refused, decode
from tests.engines.local.warden.keeping import Keeping, eventually, eventually_now, is_running

GARBAGE = [
    pytest.param(b"\x00\xff\xfe garbage \x80\n", id="no text at all"),
    pytest.param(b"{}\n", id="a request without a word"),
    pytest.param(b"[]\n", id="a list"),
    pytest.param(b"null\n\n\n\n", id="nothing"),
    pytest.param(b'{"n": 1, "do": "explode"}\n', id="an unknown word"),
    pytest.param(b'{"n": 1, "do": ["start"]}\n', id="a word that is a list"),
    pytest.param(b'{"n": 1, "do": "start", "launch": {"id": 5}}\n', id="an id that is a number"),
    pytest.param(b'{"n": 1, "do": "start", "launch": null}\n', id="a launch of nothing"),
    pytest.param(b'{"n": 1, "do": "stop", "id": "a", "grace_s": NaN}\n', id="a grace that is no number"),
    pytest.param(b'{"n": 1, "do": "stop", "id": "a", "grace_s": 1e999}\n', id="an endless grace"),
    pytest.param(b'{"n": 1, "do": "signal", "id": "a", "number": ' + b"9" * 5000 + b"}\n", id="a huge number"),
    pytest.param(b"[" * 100_000 + b"\n", id="deep nesting"),
    pytest.param(b'{"n": ' * 50_000 + b"\n", id="deep objects"),
    pytest.param(b'{"n": {"a": [1]}, "do": "list"}\n', id="a number that is an object"),
]


def raw(keeping: Keeping) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(20)
    directory = os.open(keeping.home, os.O_PATH)
    try:
        eventually_now(lambda: is_connected(connection, f"/proc/self/fd/{directory}/warden.sock"), "nobody accepts")
    finally:
        os.close(directory)
    return connection


def is_connected(connection: socket.socket, path: str) -> bool:
    try:
        connection.connect(path)
    except BlockingIOError:  # so many knock at once that it has not opened for those before
        return False
    return True


def talk(keeping: Keeping, content: bytes) -> list[dict[str, Any]]:
    """Everything the warden answers to these bytes, up to a question it certainly understands."""
    with raw(keeping) as connection, connection.makefile("rb") as answers:
        connection.sendall(content + b'{"n": "last", "do": "list"}\n')
        heard = []
        for line in answers:
            heard.append(json.loads(line))
            if heard[-1].get("n") == "last":
                break
        return heard


@pytest.mark.parametrize("content", GARBAGE)
def test_garbage_is_refused_and_the_same_connection_goes_on(keeping: Keeping, content: bytes) -> None:
    async def test(client: WardenClient) -> None:
        pid = (await client.list_all()).pid
        heard = await asyncio.to_thread(talk, keeping, content)
        assert heard[-1]["ok"]["pid"] == pid
        assert heard[-1]["ok"]["processes"] == []
        refused = [answer["refused"]["message"] for answer in heard[1:-1] if "refused" in answer]
        assert len(refused) == len(heard) - 2 or b'"do": "list"' in content

    keeping.run(test)


def test_a_line_without_end_is_cut_off_without_costing_memory(keeping: Keeping) -> None:
    def flood() -> bytes:
        with raw(keeping) as connection:
            heard = b""
            try:
                for _ in range(64):
                    connection.sendall(b"x" * 2**20)
                heard = connection.recv(2**20)
            except OSError:  # closed in our face, as it should be
                return heard
            return heard

    async def test(client: WardenClient) -> None:
        census = await client.list_all()
        await asyncio.to_thread(flood)
        assert (await client.list_all()).warden == census.warden
        assert peak_bytes(census.pid) < 48 * 2**20

    keeping.run(test)


def test_one_who_asks_and_never_listens_is_dropped_and_nobody_else_notices(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.ports("a", 4000)  # makes each answer long
        pid = (await client.list_all()).pid
        with raw(keeping) as deaf:
            deaf.setblocking(False)
            sent = 0
            try:
                while sent < 50_000:
                    deaf.send(b'{"n": 1, "do": "list"}\n')
                    sent += 1
                    if sent % 100 == 0:
                        await client.list_all()
            except (BrokenPipeError, ConnectionResetError, BlockingIOError):
                pass
            assert (await client.list_all()).pid == pid
            assert peak_bytes(pid) < 128 * 2**20

    keeping.run(test)


def test_too_many_connections_cost_the_longest_silent_one(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        pid = (await client.list_all()).pid
        crowd = [raw(keeping) for _ in range(100)]
        assert (await client.list_all()).pid == pid  # by connecting again, if it was the one
        await eventually(lambda: len(os.listdir(f"/proc/{pid}/fd")) < 90, "they are all kept")
        for each in crowd:
            each.close()

    keeping.run(test)


def test_one_who_leaves_in_the_middle_of_everything_harms_nobody(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        pid = (await client.list_all()).pid
        launch = keeping.launch("a", "sleep", "600")._asdict()
        whole = json.dumps({"n": 1, "do": "start", "launch": launch}).encode() + b"\n"
        for cut in (b"", b"\n", whole[:20], whole):
            with raw(keeping) as connection:
                assert connection.recv(2)
                connection.sendall(cut)
        await eventually(lambda: keeping.log("a").exists(), "a request that was whole is carried out")
        assert [state.id for state in (await client.list_all()).processes] == ["a"]
        assert is_running(pid)

    keeping.run(test)


def test_a_warden_out_of_descriptors_says_so_and_recovers(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        pid = (await client.list_all()).pid
        used = len(os.listdir(f"/proc/{pid}/fd"))
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        for spare in range(4):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + spare, before[1]))
            state = await client.start(keeping.launch(f"short-{spare}", "true"))
            assert state.phase is ProcessPhase.FAILED
            assert "Too many open files" in state.message
        with raw(keeping) as late:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            assert late.recv(1)  # let in once there is room again
        assert (await client.start(keeping.launch("after", "sleep", "600"))).phase is ProcessPhase.RUNNING
        assert len(os.listdir(f"/proc/{pid}/fd")) <= used + 3  # its pipe, its log, and perhaps the one who was late

    keeping.run(test)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)
LAUNCH = {"id": "a", "argv": ["true"], "env": {}, "cwd": "/", "log_path": "/log"} | {
    "log_bytes_max": 4096,
    "log_parts_max": 1,
    "memory_bytes": None,
    "cpu_milli": None,
    "cpus": None,
    "nice": 0,
}
HOOK = {"name": "preStop", "argv": ["true"], "timeout_s": 1.0, "env": None}


@given(field=st.sampled_from(sorted(LAUNCH)), value=JSON)
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_in_any_field_of_a_launch_is_taken_or_refused_by_name(field: str, value: Any) -> None:
    refused = refusal_of(lambda: launch_in(Fields({**LAUNCH, field: value})))
    assert refused is None or (refused.kind, refused.field) == ("invalid", field)
    json.dumps(refused and refused.to_wire())


@given(field=st.sampled_from(sorted(HOOK)), value=JSON)
def test_any_value_in_any_field_of_a_hook_is_taken_or_refused_by_name(field: str, value: Any) -> None:
    refused = refusal_of(lambda: hook_in(Fields({**HOOK, field: value})))
    assert refused is None or (refused.kind, refused.field) == ("invalid", field)


@given(line=st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_refusal(line: bytes) -> None:
    refused = refusal_of(lambda: decode(line))
    assert refused is None or refused.kind == "invalid"


@given(content=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=8))
def test_lines_are_the_same_however_the_bytes_arrive(content: bytes, cuts: list[int]) -> None:
    lines = Lines(LINE_BYTES_MAX)
    edges = [0, *sorted(cuts), len(content)]
    found = [line for low, high in pairwise(edges) for line in lines.feed(content[low:high])]
    assert found == content.split(b"\n")[:-1]


@pytest.mark.parametrize("before", [b"", b"x" * 6, b"whole\nxxxxxx"])
def test_a_line_is_bounded_whole_or_in_pieces(before: bytes) -> None:
    lines = Lines(10)
    lines.feed(before)
    with pytest.raises(LineTooLong):
        lines.feed(b"x" * 11)


def refusal_of(call: Callable[[], object]) -> Refused | None:
    try:
        call()
    except Refused as refusal:
        return refusal
    return None


def peak_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
