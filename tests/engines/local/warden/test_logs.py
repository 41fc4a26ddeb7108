"""Log files: every byte in order, readable at once, bounded on disk and in the warden's memory."""

import os
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.workers.logs import LogFile
from tests.engines.local.warden.keeping import Keeping, ended, eventually, kill_9, quoted, written


def parts(path: Path) -> list[bytes]:
    """Oldest first."""
    older = sorted(path.parent.glob(f"{path.name}.*"), key=lambda part: -int(part.suffix[1:]))
    return [part.read_bytes() for part in [*older, path]]


@given(
    chunks=st.lists(st.binary(max_size=60) | st.just(b"a line of text\n"), max_size=60),
    bytes_max=st.integers(1, 80),
    parts_max=st.integers(0, 3),
    before=st.binary(max_size=100),
)
@settings(max_examples=100, deadline=None)
def test_the_parts_hold_the_newest_bytes_in_order_and_no_part_is_too_long(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], bytes_max: int, parts_max: int, before: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(before)
    log = LogFile(str(path), bytes_max=bytes_max, parts_max=parts_max)
    for chunk in chunks:
        log.write(chunk)
    log.close()
    kept = parts(path)
    assert (before + b"".join(chunks)).endswith(b"".join(kept))
    assert len(kept) <= parts_max + 1
    assert all(len(part) <= max(bytes_max, len(before)) for part in kept)
    if len(kept) <= parts_max and parts_max:  # nothing had to go yet
        assert b"".join(kept) == before + b"".join(chunks)
    assert log.lost_bytes == 0


def test_a_part_ends_with_a_whole_line_where_it_can(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"), bytes_max=100, parts_max=50)
    lines = [b"line %d is here\n" % number for number in range(100)]
    log.write(b"".join(lines[:50]))
    for line in lines[50:]:
        log.write(line)
    log.close()
    assert all(part.endswith(b"\n") for part in parts(tmp_path / "log"))
    assert b"".join(parts(tmp_path / "log")) == b"".join(lines)


def test_a_line_without_an_end_is_there_while_its_writer_runs_and_so_is_standard_error(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", "printf 'loss 0.5'; printf ' (approx.)' >&2; exec sleep 600"))
        assert await written(keeping.log("a"), r"\)") == "loss 0.5 (approx.)"

    keeping.run(test)


def test_last_words_are_all_there_when_the_end_is_told(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        for number in range(20):
            name = f"a-{number}"
            await client.start(keeping.python(name, "import os; os.write(1, b'x' * 60000 + b'end'); os._exit(1)"))
            await ended(client, name)
            assert keeping.log(name).read_bytes() == b"x" * 60000 + b"end"

    keeping.run(test)


def test_a_flood_is_rotated_and_costs_the_warden_neither_memory_nor_its_ear(keeping: Keeping) -> None:
    flood = "import os\nwhile True: os.write(1, b'all work and no play makes a dull log\\n' * 1000)"

    async def test(client: WardenClient) -> None:
        pid = (await client.list_all()).pid
        before_bytes = rss_bytes(pid)
        sizes = {"log_bytes_max": 2**20, "log_parts_max": 2}
        await client.start(keeping.python("flood", flood, **sizes))
        await client.start(keeping.launch("quiet", "echo here; exec sleep 600"))
        log = keeping.log("flood")
        await eventually(lambda: log.with_name("flood.log.2").exists(), "it is not rotated")
        seen = log.with_name("flood.log.2").stat().st_ino
        await eventually(lambda: inode(log.with_name("flood.log.2")) != seen, "it is rotated only once")
        await written(keeping.log("quiet"), "here")
        assert sorted(part.name for part in keeping.home.glob("flood.log*")) == [
            "flood.log",
            "flood.log.1",
            "flood.log.2",
        ]
        await client.stop("flood", grace_s=0)
        await ended(client, "flood")
        assert all(len(part) <= 2**20 for part in parts(log))
        assert rss_bytes(pid) - before_bytes < 8 * 2**20

    keeping.run(test)


def test_a_log_on_a_full_disk_loses_bytes_and_says_so_while_the_worker_trains_on(keeping: Keeping) -> None:
    """A file size limit refuses the write as a full disk would."""
    go = keeping.home / "go"
    line = f"while [ ! -e {quoted(go)} ]; do sleep 0.01; done; head -c 100000 /dev/zero; exit 5"

    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", line))
        pid = (await client.list_all()).pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
        go.touch()
        state = await ended(client, "a")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        assert state.exited is not None
        assert state.exited.code == 5
        assert keeping.log("a").stat().st_size == 50_000
        assert [note for note in state.notes if "bytes of its log were lost: File too large" in note]

    keeping.run(test)


def test_a_log_whose_directory_was_removed_does_not_grow_for_ever(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    log = LogFile(str(tmp_path / "d" / "log"), bytes_max=1000, parts_max=1)
    (tmp_path / "d" / "log").unlink()
    (tmp_path / "d").rmdir()
    for _ in range(100):
        log.write(b"x" * 99 + b"\n")
    assert os.fstat(log._fd).st_size <= 1000
    assert log.lost_bytes > 0
    log.close()


def test_one_that_never_reads_its_pipe_to_the_end_cannot_hold_up_its_end(keeping: Keeping) -> None:
    """A child that survives as long as it can keeps the pipe open; the end is told without waiting for the pipe."""

    async def test(client: WardenClient) -> None:
        state = await client.start(keeping.launch("a", "setsid sh -c 'while :; do echo x; done' & sleep 600"))
        await written(keeping.log("a"), "x")
        kill_9(state.pid or 0)
        end = await ended(client, "a")
        assert end.exited is not None
        assert end.exited.signal == signal.SIGKILL
        assert end.exited.message == "killed by SIGKILL from outside; did the machine run out of memory?"

    keeping.run(test)


def rss_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def inode(path: Path) -> int:
    return path.stat().st_ino if path.exists() else 0
