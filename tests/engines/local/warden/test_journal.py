"""The journal: whatever a crash leaves of it, every end that was told is still known, and nothing is invented."""

import os
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.exit_journal import Journal
from sterna.engines.local.launch.warden.values import Exited, ProcessPhase, ProcessState
from tests.engines.local.warden.keeping import Keeping
from tests.engines.local.warden.keeping import ended as ended_of

IDS = ("a", "b", "c")
ENDING = Exited(0, None, 1.0, 2.0, False, False, False, 0.1, 4096, "exit code 0")


def began(name: str) -> ProcessState:
    return ProcessState(name, ProcessPhase.STARTING, None, 1.0, 2.0)


def ended(name: str) -> ProcessState:
    return began(name)._replace(phase=ProcessPhase.EXITED, pid=7, exited=ENDING, notes=("a note",))


def lost(name: str) -> ProcessState:
    return began(name)._replace(phase=ProcessPhase.LOST, message="the warden that ran it died, and it with it")


@given(
    deeds=st.lists(st.tuples(st.sampled_from(("begin", "end", "forget")), st.sampled_from(IDS)), max_size=20),
    cut_bytes=st.integers(0, 400),
    garbage=st.binary(max_size=20),
)
@settings(max_examples=100, deadline=None)
def test_a_journal_cut_anywhere_knows_exactly_what_its_whole_lines_say(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[str, str]], cut_bytes: int, garbage: bytes
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    journal = Journal(str(directory))
    journal.load()
    sizes: list[int] = []
    for deed, name in deeds:
        match deed:
            case "begin":
                journal.began(began(name))
            case "end":
                journal.ended([ended(name)])
            case _:
                journal.forgot([name])
        sizes.append((directory / "journal").stat().st_size)
    content = (directory / "journal").read_bytes()
    kept = content[: max(0, len(content) - cut_bytes)]
    (directory / "journal").write_bytes(kept + garbage.replace(b"\n", b""))
    expected: dict[str, ProcessState] = {}
    for (deed, name), size in zip(deeds, sizes, strict=True):
        whole = size <= len(kept) or (size == len(kept) + 1 and not garbage.strip())
        if whole and deed == "forget":
            expected.pop(name, None)
        elif whole:
            expected[name] = lost(name) if deed == "begin" else ended(name)
    assert Journal(str(directory)).load() == expected
    assert Journal(str(directory)).load() == expected  # what was rewritten says the same


def test_it_is_rewritten_when_long_and_says_the_same_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sterna.engines.local.launch.warden.exit_journal.REWRITE_BYTES", 2000)
    journal = Journal(str(tmp_path))
    journal.load()
    for number in range(100):
        journal.ended([ended(f"p-{number}")])
    assert journal.is_long
    journal.rewrite({"p-99": ended("p-99")})
    assert not journal.is_long
    journal.began(began("next"))
    assert Journal(str(tmp_path)).load() == {"p-99": ended("p-99"), "next": lost("next")}


def test_a_full_disk_leaves_no_half_line_and_nothing_is_started_unrecorded(keeping: Keeping) -> None:
    """A file size limit refuses the write as a full disk would; the warden must neither die of it nor start blindly."""

    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("before", "sleep", "600"))
        pid = (await client.list_all()).pid
        journal = keeping.home / "warden" / "journal"
        good = journal.read_bytes()
        limit_bytes = len(good) + 10
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))
        try:
            with pytest.raises(Exception, match="nothing was started"):
                await client.start(keeping.launch("after", "sleep", "600"))
            assert journal.read_bytes() == good
            os.kill(await _pid_of(client, "before"), signal.SIGKILL)
        finally:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        state = await ended_of(client, "before")
        assert state.notes == ()  # it waited for the disk
        assert Journal(str(_copied(keeping, journal))).load()["before"] == state

    keeping.run(test)


async def _pid_of(client: WardenClient, name: str) -> int:
    pid = next(state.pid for state in (await client.list_all()).processes if state.id == name)
    assert pid is not None
    return pid


def _copied(keeping: Keeping, journal: Path) -> Path:
    copy = keeping.home / "copy"
    copy.mkdir()
    (copy / "journal").write_bytes(journal.read_bytes())
    return copy
