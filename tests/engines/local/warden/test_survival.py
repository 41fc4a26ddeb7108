"""Who outlives whom: workers the engine, nobody the warden, records everybody. All by kill -9 of real processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sterna
from sterna.engines.local.launch.warden.client import WardenClient, connect_or_start
from sterna.engines.local.launch.warden.values import ProcessPhase
from sterna.engines.local.launch.warden.workers.leftovers import process
from sterna.model.errors import Conflict, EngineUnavailable
from tests.engines.local.warden.keeping import (
    ENV,
    Keeping,
    control_groups,
    ended,
    eventually,
    eventually_now,
    is_running,
    kill_9,
    numbers,
    quoted,
    written,
)
from tests.waiting import stays_async

SOURCE = str(Path(sterna.__file__).parents[1])

ENGINE = """
import asyncio, json, sys
from pathlib import Path
from sterna.engines.local.launch.warden.client import connect_or_start
from sterna.engines.local.launch.warden.values import Launch

async def main():
    client = await connect_or_start(Path(sys.argv[1]))
    for fields in json.loads(sys.argv[2]):
        await client.start(Launch(**fields))
    print((await client.list_all()).pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def an_engine(keeping: Keeping, **lines: str) -> "subprocess.Popen[str]":
    """A process of its own that starts these workers and then only waits to be killed; returns once they run."""
    launches = [keeping.launch(name, "sh", "-c", line)._asdict() for name, line in lines.items()]
    return subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(keeping.home), json.dumps(launches)],
        stdout=subprocess.PIPE,
        text=True,
        env={**ENV, "PYTHONPATH": SOURCE},
    )


def warden_pid_from(engine: "subprocess.Popen[str]") -> int:
    assert engine.stdout is not None
    return int(engine.stdout.readline())


def test_workers_live_on_when_the_engine_is_killed_and_their_ends_are_known_to_the_next(keeping: Keeping) -> None:
    go = quoted(keeping.home / "go")
    wait = f"while [ ! -e {go} ]; do sleep 0.01; done"
    with an_engine(keeping, short=f"echo $$; {wait}; exit 17", long="echo $$; exec sleep 600") as engine:
        warden_pid = warden_pid_from(engine)
        engine.kill()
    (keeping.home / "go").touch()
    journal = keeping.home / "warden" / "journal"
    eventually_now(lambda: '"phase":"exited"' in journal.read_text(), "its end is not recorded")

    async def test(client: WardenClient) -> None:
        census = await client.list_all()
        states = {state.id: state for state in census.processes}
        assert census.pid == warden_pid
        assert states["short"].exited is not None
        assert states["short"].exited.code == 17
        assert states["long"].phase is ProcessPhase.RUNNING
        assert is_running(states["long"].pid or 0)
        assert (await client.start(keeping.launch("long", "false"))).pid == states["long"].pid

    keeping.run(test)


def test_nobody_outlives_a_warden_that_is_killed_and_its_successor_says_who_was_lost(either_keeping: Keeping) -> None:
    keeping = either_keeping
    pids = quoted(keeping.home / "pids")
    line = (
        f"echo $$ >> {pids}; sleep 600 & echo $! >> {pids}; setsid sleep 600 & echo $! >> {pids};"
        f"(setsid env -i sh -c 'echo $$ >> {pids}; exec sleep 600' &) ; trap '' TERM; wait"
    )

    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("done", "exit 3;"))
        await ended(client, "done")
        await client.start(keeping.launch("lost", line))
        family = await numbers(keeping.home / "pids", 4)
        before = await client.list_all()
        kill_9(before.pid)
        after = await client.list_all()  # reconnects, which starts another
        assert [pid for pid in family if is_running(pid)] == []
        assert after.warden != before.warden
        states = {state.id: state for state in after.processes}
        assert states["done"].exited is not None
        assert states["done"].exited.code == 3
        assert (states["lost"].phase, states["lost"].exited) == (ProcessPhase.LOST, None)
        assert "warden" in states["lost"].message
        assert (
            await client.start(keeping.launch("lost", "true"))
        ).phase is ProcessPhase.LOST  # an id is never used twice
        assert keeping.lost == 1

    keeping.run(test)


def test_a_warden_killed_together_with_its_parent_is_cleaned_up_after_by_the_next(either_keeping: Keeping) -> None:
    keeping = either_keeping
    pids = quoted(keeping.home / "pids")
    line = f"echo $$ >> {pids}; setsid sleep 600 & echo $! >> {pids}; wait"

    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("lost", line))
        family = await numbers(keeping.home / "pids", 2)
        warden_pid = (await client.list_all()).pid
        parent = process(warden_pid)
        assert parent is not None
        kill_9(parent.parent)
        kill_9(warden_pid)
        await client.list_all()
        assert [pid for pid in family if is_running(pid)] == []

    keeping.run(test)


def test_a_process_lost_in_a_restart_of_the_machine_is_said_to_be(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", "sleep", "600"))
        kill_9((await client.list_all()).pid)
        await eventually(lambda: keeping.lost, "the warden lives")
        journal = keeping.home / "warden" / "journal"
        journal.write_text(journal.read_text().replace('"boot":"', '"boot":"another'))
        state = (await client.list_all()).processes[0]
        assert (state.phase, state.message) == (ProcessPhase.LOST, "the machine was restarted")

    keeping.run(test)


def test_any_number_of_engines_that_start_at_once_meet_the_same_warden(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.leave()
        clients = await asyncio.gather(*(connect_or_start(keeping.home) for _ in range(8)))
        wardens = {(await each.list_all()).pid for each in clients}
        assert len(wardens) == 1

    keeping.run(test)


class TestLeaving:
    def test_it_leaves_when_it_has_nothing_to_do_and_nobody_to_talk_to(self, keeping: Keeping) -> None:
        async def test(client: WardenClient) -> None:
            pid = (await client.list_all()).pid
            await client.start(keeping.launch("a", "true"))
            await ended(client, "a")
            await stays_async(lambda: is_running(pid), "it runs, since a client is connected", for_s=0.5)
            client.close()
            await stays_async(lambda: is_running(pid), "it runs, since it knows an end that is not noted", for_s=0.5)
            again = await keeping.client()
            await again.forget("a")
            again.close()
            await eventually(lambda: not is_running(pid), "it stays")
            assert not (keeping.home / "warden.sock").exists()
            assert not control_groups(keeping.home)

        keeping.run(test, idle_s=0.2)

    def test_told_to_leave_it_kills_nothing_unless_told_that_too(self, keeping: Keeping) -> None:
        async def test(client: WardenClient) -> None:
            state = await client.start(keeping.launch("a", "echo up; trap '' TERM; sleep 600 & wait; wait"))
            pid = (await client.list_all()).pid
            with pytest.raises(Conflict, match="1 processes run here"):
                await client.leave()
            assert is_running(state.pid or 0)
            await client.leave(kill=True, grace_s=0.1)
            assert not is_running(state.pid or 0)
            await eventually(lambda: not is_running(pid), "it stays")
            with pytest.raises(EngineUnavailable, match="closed"):
                await client.list_all()

        keeping.run(test)

    def test_one_whose_home_is_removed_ends_what_it_runs_and_leaves(self, keeping: Keeping) -> None:
        async def test(client: WardenClient) -> None:
            state = await client.start(keeping.launch("a", "sleep", "600", cwd="/"))
            pid = (await client.list_all()).pid
            keeping.home.rename(keeping.home.with_name("elsewhere"))
            await eventually(lambda: not is_running(pid), "it stays")
            assert not is_running(state.pid or 0)

        keeping.run(test, idle_s=0.2)


def test_a_warden_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(EngineUnavailable, match="File exists"):
        asyncio.run(connect_or_start(tmp_path / "home"))
    (tmp_path / "other" / "warden" / "journal.new").mkdir(parents=True)
    with pytest.raises(EngineUnavailable, match="Is a directory"):
        asyncio.run(connect_or_start(tmp_path / "other"))


def test_one_that_does_not_answer_is_unavailable_within_the_deadline(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: WardenClient) -> None:
        pid = (await client.list_all()).pid
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr("sterna.engines.local.launch.warden.client.CALL_S", 0.2)
        try:
            with pytest.raises(EngineUnavailable, match=r"did not answer 'forget' within 0.2 s"):
                await client._ask("forget", within_s=0.2, ids=[])
        finally:
            os.kill(pid, signal.SIGCONT)
        monkeypatch.undo()
        assert (await client.list_all()).pid == pid  # and the late answer disturbs nobody

    keeping.run(test)


def test_a_connection_that_breaks_is_taken_up_again_by_the_next_call(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", "echo up; exec sleep 600"))
        await written(keeping.log("a"), "up")
        assert client._line is not None
        client._line.drop()
        assert [state.phase for state in (await client.list_all()).processes] == [ProcessPhase.RUNNING]

    keeping.run(test)
