"""Ending a process: TERM, grace, KILL, and nothing of it left, whoever is still there to watch."""

import os
import signal

import pytest

from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.values import Exited, Hook, ProcessPhase, ProcessState
from sterna.model.errors import NotFound
from tests.engines.local.warden.keeping import (
    Keeping,
    ended,
    eventually,
    eventually_now,
    is_running,
    numbers,
    quoted,
    written,
)
from tests.waiting import stays_async

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"

# Each tells its pid, and hides from its parent in one more way than the one before.
IN_THE_GROUP = "sleep 600 & echo $! >> {pids};"
IN_ITS_OWN_SESSION = "setsid sleep 600 & echo $! >> {pids};"
GONE_FROM_ITS_PARENT = "(setsid sh -c 'echo $$ >> {pids}; exec sleep 600' &);"
WITHOUT_ENVIRONMENT = "(setsid env -i sh -c 'echo $$ >> {pids}; exec sleep 600' &);"
DEAF_TO_TERM = "(trap '' TERM; sleep 600) & echo $! >> {pids};"


def exit_of(state: ProcessState) -> Exited:
    assert state.exited is not None, state
    return state.exited


def test_one_that_ignores_term_is_killed_after_its_grace_and_the_end_says_so(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.python("deaf", DEAF))
        await written(keeping.log("deaf"), "deaf")
        assert (await client.stop("deaf", grace_s=0.3)).phase is ProcessPhase.STOPPING
        end = exit_of(await ended(client, "deaf"))
        assert (end.code, end.signal, end.stopped, end.killed) == (None, signal.SIGKILL, True, True)
        assert end.message == "killed: it did not end within its grace of 0.3 s"

    keeping.run(test)


@pytest.mark.parametrize(
    ("line", "code", "number", "message"),
    [
        pytest.param("trap 'exit 42' TERM; echo up; sleep 600 & wait", 42, None, "exit code 42", id="it tidies up"),
        pytest.param("echo up; exec sleep 600", None, 15, "killed by SIGTERM", id="it has no handler"),
    ],
)
def test_one_that_heeds_term_ends_its_own_way(
    keeping: Keeping, line: str, code: int | None, number: int | None, message: str
) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", line))
        await written(keeping.log("a"), "up")
        await client.stop("a", grace_s=600)
        end = exit_of(await ended(client, "a"))
        assert (end.code, end.signal, end.stopped, end.killed) == (code, number, True, False)
        assert end.message == message
        assert (await client.stop("a", grace_s=600)).exited == end  # to stop what has ended changes nothing

    keeping.run(test)


def test_of_several_deadlines_the_earliest_holds(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.python("deaf", DEAF))
        await written(keeping.log("deaf"), "deaf")
        await client.stop("deaf", grace_s=600)
        await client.stop("deaf", grace_s=0.2)
        await client.stop("deaf", grace_s=900)
        assert exit_of(await ended(client, "deaf")).killed

    keeping.run(test)


def test_without_grace_it_is_killed_at_once(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", "trap 'echo heard' TERM; echo up; sleep 600 & wait"))
        await written(keeping.log("a"), "up")
        await client.stop("a", grace_s=0)
        assert exit_of(await ended(client, "a")).signal == signal.SIGKILL
        assert "heard" not in keeping.log("a").read_text()

    keeping.run(test)


def test_a_deadline_is_kept_although_nobody_is_connected_any_more(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        state = await client.start(keeping.python("deaf", DEAF))
        await written(keeping.log("deaf"), "deaf")
        await client.stop("deaf", grace_s=0.3)
        client.close()
        await eventually(lambda: not is_running(state.pid or 0), "it lives on")
        assert exit_of(await ended(await keeping.client(), "deaf")).killed

    keeping.run(test)


def test_one_that_is_suspended_still_ends(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        state = await client.start(keeping.launch("a", "trap 'exit 5' TERM; echo up; sleep 600 & wait"))
        await written(keeping.log("a"), "up")
        os.killpg(state.pid or 0, signal.SIGSTOP)
        await client.stop("a", grace_s=600)
        assert exit_of(await ended(client, "a")).code == 5

    keeping.run(test)


@pytest.mark.parametrize("way", ["the leader leaves", "the leader is stopped", "the leader is killed from outside"])
def test_what_a_worker_leaves_behind_is_gone_when_its_end_is_told(either_keeping: Keeping, way: str) -> None:
    keeping = either_keeping
    pids = keeping.home / "pids"
    hiding = [IN_THE_GROUP, IN_ITS_OWN_SESSION, GONE_FROM_ITS_PARENT, DEAF_TO_TERM, WITHOUT_ENVIRONMENT]
    line = " ".join(hide.format(pids=quoted(pids)) for hide in hiding)
    rest = "while [ $(wc -l < pids) -lt 5 ]; do sleep 0.01; done; exit 9" if way == "the leader leaves" else "sleep 600"

    async def test(client: WardenClient) -> None:
        state = await client.start(keeping.launch("a", f"{line} {rest}"))
        children = await numbers(pids, 5)
        if way == "the leader is stopped":
            await client.stop("a", grace_s=0.2)
        elif way == "the leader is killed from outside":
            os.kill(state.pid or 0, signal.SIGKILL)
        end = await ended(client, "a")
        alive = [pid for pid in (state.pid, *children) if pid is not None and is_running(pid)]
        if keeping.cgroups == "none":  # the one without environment hid well; it goes when nobody is left to own it
            await eventually(lambda: not any(map(is_running, children)), "it hid too well")
            alive = [pid for pid in alive if pid in children[:4] and is_running(pid)]
        assert alive == []
        assert end.notes == ()

    keeping.run(test)


def test_a_worker_that_ends_takes_nothing_from_its_neighbour(either_keeping: Keeping) -> None:
    keeping = either_keeping
    spawn = (IN_ITS_OWN_SESSION + GONE_FROM_ITS_PARENT).format

    async def test(client: WardenClient) -> None:
        for name in ("a", "b"):
            await client.start(keeping.launch(name, f"{spawn(pids=quoted(keeping.home / name))} sleep 600"))
        children = {name: await numbers(keeping.home / name, 2) for name in ("a", "b")}
        await client.stop("a", grace_s=0)
        await ended(client, "a")
        assert [is_running(pid) for pid in children["a"]] == [False, False]
        assert [is_running(pid) for pid in children["b"]] == [True, True]

    keeping.run(test)


def test_a_worker_whose_children_must_not_hear_term_is_stopped_by_its_leader_alone(keeping: Keeping) -> None:
    """Kubernetes tells the first process of a container only; a data loader's workers die of TERM at once."""
    line = "(trap 'echo child' TERM; while :; do sleep 0.01; done) & trap 'echo leader; exit 0' TERM; echo up; wait"

    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", line))
        await written(keeping.log("a"), "up")
        await client.stop("a", grace_s=600, whole_group=False)
        assert exit_of(await ended(client, "a")).code == 0
        assert keeping.log("a").read_text() == "up\nleader\n"

    keeping.run(test)


def test_an_end_is_pushed_to_everyone_connected_and_forgotten_once_told_to(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await keeping.client()
        await client.start(keeping.launch("a", "exit 3;"))
        await eventually(lambda: len(keeping.heard) == 2, "not everyone heard")
        assert {exit_of(state).code for state in keeping.heard} == {3}
        await client.forget("a", "never-heard-of")
        await client.forget("a")
        assert (await client.list_all()).processes == ()

    keeping.run(test)


class TestHooks:
    def test_a_hook_runs_beside_its_worker_with_its_directory_environment_and_log(self, keeping: Keeping) -> None:
        async def test(client: WardenClient) -> None:
            await client.start(
                keeping.launch("a", "echo worker; exec sleep 600", env={"PATH": "/usr/bin:/bin", "X": "1"})
            )
            await written(keeping.log("a"), "worker")
            hook = Hook("postStart", ("sh", "-c", "echo hook $X $(pwd); exit 4"), timeout_s=60)
            end = await client.run_hook("a", hook)
            assert (end.code, end.timed_out, end.message) == (4, False, "postStart hook: exit code 4")
            assert f"hook 1 {keeping.home}\n" in keeping.log("a").read_text()
            again = await client.run_hook("a", hook._replace(argv=("true",)))
            assert again == end  # once for each name, however often it is asked for
            state = (await client.list_all()).processes[0]
            assert (state.phase, state.hooks) == (ProcessPhase.RUNNING, (end,))

        keeping.run(test)

    @pytest.mark.parametrize(
        ("hook", "message"),
        [
            pytest.param(Hook("h", ("sleep", "600"), 0.2), "h hook: killed, it took longer than 0.2 s", id="too slow"),
            pytest.param(Hook("h", ("no-such",), 60), "h hook: command not found: 'no-such'", id="no such command"),
            pytest.param(Hook("h", ("sh", "-c", "kill -9 $$"), 60), "h hook: killed by SIGKILL", id="it kills itself"),
        ],
    )
    def test_a_hook_that_fails_says_why_and_harms_nobody(self, keeping: Keeping, hook: Hook, message: str) -> None:
        async def test(client: WardenClient) -> None:
            state = await client.start(keeping.launch("a", "sleep", "600"))
            end = await client.run_hook("a", hook)
            assert not end.succeeded
            assert end.message.startswith(message)
            assert end.timed_out == (hook.timeout_s < 1)
            assert is_running(state.pid or 0)

        keeping.run(test)

    def test_term_waits_for_the_prestop_hook_even_when_the_engine_is_gone(self, keeping: Keeping) -> None:
        go = keeping.home / "go"
        hook = Hook("preStop", ("sh", "-c", f"while [ ! -e {quoted(go)} ]; do sleep 0.01; done; echo hook"), 60)

        async def test(client: WardenClient) -> None:
            line = "trap 'echo term; exit 0' TERM; echo up; while :; do sleep 0.01; done"
            await client.start(keeping.launch("a", line))
            await written(keeping.log("a"), "up")
            await client.stop("a", grace_s=600, pre_stop=hook)
            assert (await client.stop("a", grace_s=600, pre_stop=hook)).phase is ProcessPhase.STOPPING
            client.close()
            await stays_async(lambda: keeping.log("a").read_text() == "up\n", "it is not told", for_s=0.05)
            go.touch()
            state = await ended(await keeping.client(), "a")
            assert exit_of(state).code == 0
            told = keeping.log("a").read_text().replace("Terminated\n", "")  # which the shell says of its sleep
            assert told == "up\nhook\nterm\n"
            assert [end.succeeded for end in state.hooks] == [True]

        keeping.run(test)

    def test_a_prestop_hook_that_hangs_is_part_of_the_grace(self, either_keeping: Keeping) -> None:
        async def test(client: WardenClient) -> None:
            await client.start(either_keeping.launch("a", "sleep", "600"))
            await client.stop("a", grace_s=0.3, pre_stop=Hook("preStop", ("sleep", "600"), 600))
            state = await ended(client, "a")
            assert exit_of(state).killed
            assert [end.signal for end in state.hooks] == [signal.SIGKILL]

        either_keeping.run(test)

    def test_a_hook_for_a_worker_that_has_ended_is_not_run(self, keeping: Keeping) -> None:
        async def test(client: WardenClient) -> None:
            await client.start(keeping.launch("a", "true"))
            await ended(client, "a")
            end = await client.run_hook("a", Hook("preStop", ("true",), 60))
            assert (end.succeeded, end.message) == (False, "preStop hook: not run, its worker has ended")
            with pytest.raises(NotFound):
                await client.run_hook("nobody", Hook("preStop", ("true",), 60))

        keeping.run(test)


def test_a_terminated_warden_ends_its_processes_records_it_and_leaves(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", "trap 'exit 6' TERM; echo up; sleep 600 & wait"))
        await written(keeping.log("a"), "up")
        before = await client.list_all()
        os.kill(before.pid, signal.SIGTERM)
        await eventually(lambda: not is_running(before.pid), "the warden stays")
        after = await client.list_all()
        assert after.warden != before.warden
        assert exit_of(after.processes[0]).code == 6

    keeping.run(test)
    eventually_now(lambda: keeping.lost > 0, "nobody was told")
