"""Logs as one stream: across rotation, new processes and busy writers, from the beginning or from the end."""

import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.engines.local.api.log_reader import CHUNK_BYTES, LogFile, LogReader
from sterna.interfaces.log_stream import chosen
from sterna.interfaces.scheduler_port import LogSelection
from sterna.model.errors import EngineUnavailable, InvalidRequest, NotFound
from tests.interfaces.service.serving import SOON_S, Service, eventually, manifest, service

TRIES = int(os.environ.get("STERNA_SEEDS", "100"))


class Writer:
    """Writes as the warden does: the full part becomes `log.1`, older ones move up, the oldest goes."""

    def __init__(self, path: Path, *, parts_max: int = 1000) -> None:
        self.path = path
        self._parts_max = parts_max
        self.written = b""
        path.touch()

    def write(self, content: bytes) -> None:
        with self.path.open("ab") as sink:
            sink.write(content)
        self.written += content

    def rotate(self) -> None:
        parts = sorted(self.path.parent.glob(f"{self.path.name}.*"), key=lambda part: int(part.suffix[1:]))
        for part in reversed(parts):
            number = int(part.suffix[1:])
            if number >= self._parts_max:
                part.unlink()
            else:
                part.rename(part.with_suffix(f".{number + 1}"))
        self.path.rename(self.path.with_name(f"{self.path.name}.1"))
        self.path.touch()


def drained(reader: LogReader) -> bytes:
    content = b""
    while part := reader.read():
        content += part
    return content


STEPS = st.lists(
    st.one_of(st.binary(min_size=1, max_size=20).map(lambda content: ("write", content)),
              st.just(("rotate", b"")), st.just(("read", b""))),
    max_size=25,
)  # fmt: skip


@settings(max_examples=TRIES, deadline=None)
@given(before=STEPS, after=STEPS)
def test_nothing_is_lost_or_told_twice_however_often_a_log_is_rotated(tmp_path_factory, before, after):
    writer = Writer(tmp_path_factory.mktemp("log") / "log")
    heard, reader = b"", None
    for phase in (before, after):
        for step, content in phase:
            if step == "write":
                writer.write(content)
            elif step == "rotate":
                writer.rotate()
            elif reader is not None:
                heard += reader.read()
        reader = reader or LogReader(writer.path)
    assert reader is not None
    assert heard + drained(reader) == writer.written
    reader.close()


@settings(max_examples=TRIES, deadline=None)
@given(steps=STEPS)
def test_what_retention_took_is_skipped_and_the_rest_is_told_in_order(tmp_path_factory, steps):
    writer = Writer(tmp_path_factory.mktemp("log") / "log", parts_max=2)
    reader, heard, number = LogReader(writer.path), b"", 0
    for step, _ in steps:
        if step == "write":
            number += 1
            writer.write(f"{number}\n".encode())
        elif step == "rotate":
            writer.rotate()
        else:
            heard += drained(reader)
    heard += drained(reader)
    reader.close()
    numbers = [int(line) for line in heard.splitlines()]
    assert all(one < other for one, other in pairwise(numbers))
    assert not number or steps[-1][0] != "write" or numbers[-1] == number


@settings(max_examples=TRIES, deadline=None)
@given(
    parts=st.lists(st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"")), max_size=5), max_size=4),
    tail=st.integers(0, 12),
    ended=st.booleans(),
)
def test_the_tail_is_the_last_lines_wherever_the_parts_were_cut(tmp_path_factory, parts, tail, ended):
    writer = Writer(tmp_path_factory.mktemp("log") / "log")
    for number, lines in enumerate(parts):
        if number:
            writer.rotate()
        writer.write(b"".join(line + b"\n" for line in lines))
    if not ended and writer.written:
        writer.write(b"half a line")
    reader = LogReader(writer.path, tail=tail)
    *whole, rest = writer.written.split(b"\n")
    lines = [line + b"\n" for line in whole] + ([rest] if rest else [])
    assert drained(reader) == b"".join(lines[-tail:] if tail else [])
    reader.close()


def test_the_tail_of_a_long_log_is_found_without_reading_all_of_it(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(200_000)))
    reader = LogReader(path, tail=3)
    assert reader.pending_bytes < 100
    assert drained(reader) == b"line 199997\nline 199998\nline 199999\n"
    reader.close()


def test_a_log_that_is_not_there_yet_is_read_once_it_is(tmp_path):
    reader = LogReader(tmp_path / "log")
    assert reader.read() == b""
    (tmp_path / "log").write_bytes(b"hello")
    assert reader.read() == b"hello"
    reader.close()


OLD, NOW, OTHER = LogFile("a-worker-0-aaaaa", Path("1"), False), LogFile("a-worker-0-bbbbb", Path("2"), True), LogFile(
    "a-worker-1-ccccc", Path("3"), True
)  # fmt: skip


@pytest.mark.parametrize(
    ("files", "wanted", "expected"),
    [
        pytest.param([OLD, NOW, OTHER], {}, [NOW, OTHER], id="those that run"),
        pytest.param([OLD, NOW._replace(live=False)], {}, [NOW._replace(live=False)], id="or the last of each worker"),
        pytest.param([OLD, NOW, OTHER], {"previous": True}, [OLD], id="before those that run"),
        pytest.param([NOW], {"previous": True}, [], id="nothing was before the first"),
        pytest.param([OLD, NOW, OTHER], {"every": True}, [OLD, NOW, OTHER], id="all there ever were"),
        pytest.param([], {}, [], id="none yet"),
    ],
)
def test_which_processes_are_meant(files, wanted, expected):
    assert chosen(files, LogSelection("default/a", **wanted)) == expected


@pytest.fixture
def api(tmp_path):
    with service(tmp_path / "home") as running:
        running.client.submit(manifest("a", most=2))
        yield running


def wrote(api: Service, worker: str, path: Path, *, live: bool = True) -> None:
    api.loop.call_soon_threadsafe(lambda: api.scheduler.wrote("default/a", worker, path, live=live))


def said(api: Service, **wanted: object) -> bytes:
    return b"".join(api.client.logs("default/a", **wanted))  # type: ignore[arg-type]


def test_a_log_is_sent_as_it_is(api, tmp_path):
    content = bytes(range(256)) * 1000
    (tmp_path / "log").write_bytes(content)
    wrote(api, "a-worker-0-aaaaa", tmp_path / "log")
    assert said(api) == content
    assert said(api, tail=0) == b""


def test_lines_of_several_workers_carry_their_names(api, tmp_path):
    for number in range(2):
        (tmp_path / f"log{number}").write_bytes(b"one\ntwo")
        wrote(api, f"a-worker-{number}-aaaaa", tmp_path / f"log{number}")
    assert said(api, prefix=True).decode().splitlines() == [
        "[a-worker-0-aaaaa] one",
        "[a-worker-0-aaaaa] two",
        "[a-worker-1-aaaaa] one",
        "[a-worker-1-aaaaa] two",
    ]
    assert said(api, worker="1", tail=1) == b"two"


def test_a_line_without_end_is_cut_rather_than_kept(api, tmp_path):
    (tmp_path / "log").write_bytes(b"x" * (CHUNK_BYTES * 3))
    wrote(api, "a-worker-0-aaaaa", tmp_path / "log")
    lines = said(api, prefix=True).splitlines()
    assert len(lines) > 1
    assert sum(line.count(b"x") for line in lines) == CHUNK_BYTES * 3


def test_an_unknown_worker_and_a_contradiction_are_refused(api, tmp_path):
    (tmp_path / "log").touch()
    wrote(api, "a-worker-0-aaaaa", tmp_path / "log")
    with pytest.raises(NotFound, match="worker '7'"):
        said(api, worker="7")
    with pytest.raises(InvalidRequest, match="previous"):
        said(api, previous=True, follow=True)


def test_a_busy_writer_does_not_keep_the_reader_for_ever(api, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * CHUNK_BYTES)
    wrote(api, "a-worker-0-aaaaa", path)
    over = threading.Event()

    def write() -> None:
        with path.open("ab") as sink:
            while not over.is_set():
                sink.write(b"y" * CHUNK_BYTES)
                if sink.tell() > 50 << 20:
                    return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert said(api).startswith(b"x" * CHUNK_BYTES)
    finally:
        over.set()
        thread.join(SOON_S)


def test_following_goes_across_rotation_and_new_processes_and_ends_with_the_job(api, tmp_path):
    first, second = Writer(tmp_path / "first"), Writer(tmp_path / "second")
    first.write(b"old\nlast\n")
    wrote(api, "a-worker-0-aaaaa", first.path)
    heard = bytearray()

    def listen() -> None:
        for content in api.client.logs("a", follow=True, tail=1):
            heard.extend(content)

    thread = threading.Thread(target=listen)
    thread.start()

    def comes(content: bytes) -> None:
        assert eventually(lambda: bytes(heard).endswith(content)), bytes(heard)

    comes(b"last\n")
    for number in range(3):
        first.write(b"before %d\n" % number)
        first.rotate()
        first.write(b"after %d\n" % number)
        comes(b"after %d\n" % number)
    second.write(b"a new process\n")
    wrote(api, "a-worker-0-bbbbb", second.path)
    comes(b"a new process\n")
    second.write(b"the end")
    api.run(api.scheduler.finish("default/a"))
    thread.join(SOON_S)
    assert not thread.is_alive()
    assert bytes(heard) == first.written.removeprefix(b"old\n") + second.written


def test_following_a_job_that_is_deleted_ends(api, tmp_path):
    (tmp_path / "log").write_bytes(b"hello\n")
    wrote(api, "a-worker-0-aaaaa", tmp_path / "log")
    heard: list[bytes] = []
    thread = threading.Thread(target=lambda: heard.extend(api.client.logs("a", follow=True)))
    thread.start()
    assert eventually(lambda: heard)
    api.client.delete("a")
    thread.join(SOON_S)
    assert not thread.is_alive()


def test_a_follower_that_goes_away_leaves_nothing_open(api, tmp_path):
    (tmp_path / "log").write_bytes(b"hello\n")
    wrote(api, "a-worker-0-aaaaa", tmp_path / "log")

    def open_logs() -> int:
        names = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
        return names.count(str(tmp_path / "log"))

    stream = api.client.logs("a", follow=True)
    assert next(iter(stream)) == b"hello\n"
    assert open_logs() == 1
    stream.close()
    assert eventually(lambda: open_logs() == 0)


def test_a_follower_is_told_when_the_engine_goes_and_nobody_calls_it_an_error(tmp_path, caplog):
    (tmp_path / "log").write_bytes(b"hello\n")
    with service(tmp_path / "home") as api:
        client = api.client
        client.submit(manifest("a"))
        wrote(api, "a-worker-0-aaaaa", tmp_path / "log")
        stream = client.logs("a", follow=True)
        assert next(stream) == b"hello\n"
    with pytest.raises(EngineUnavailable, match="went away"):
        next(stream)
    assert caplog.records == []


def test_a_log_that_cannot_be_read_cuts_the_answer_short_and_is_logged(api, caplog):
    wrote(api, "a-worker-0-aaaaa", Path("/proc/self/mem"))  # may be opened, but has nothing at its beginning
    with pytest.raises(EngineUnavailable, match="went away"):
        said(api, follow=True)
    assert [record.message for record in caplog.records] == ["answer cut short"]
    assert api.client.health()["ok"]


def test_a_log_that_is_no_file_is_an_empty_one(api, tmp_path):
    (tmp_path / "log").mkdir()
    wrote(api, "a-worker-0-aaaaa", tmp_path / "log")
    assert said(api) == b""
