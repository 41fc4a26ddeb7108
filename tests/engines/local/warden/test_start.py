"""Starting a process: what it finds when it begins, what is said when it cannot, and that an id means one process."""

import asyncio
import json
import os
import resource
import stat
import sys
from pathlib import Path

import pytest

import sterna
from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.values import Launch, ProcessPhase
from sterna.model.errors import InvalidRequest
from tests.engines.local.warden.keeping import ENV, Keeping, ended, gather, written

LOOK_AROUND = """
import json, os, resource, signal, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(json.dumps({
    "env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[1:],
    "session": os.getsid(0) == os.getpid(), "group": os.getpgid(0) == os.getpid(), "parent": os.getppid(),
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
    "streams": [os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in range(3)],
    "blocked": int(status["SigBlk"], 16), "ignored": int(status["SigIgn"], 16),
    "umask": os.umask(0), "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
    "files": list(resource.getrlimit(resource.RLIMIT_NOFILE)), "nice": os.nice(0),
    "cpus": sorted(os.sched_getaffinity(0)),
}))
"""


def test_a_process_finds_its_own_environment_directory_session_and_nothing_of_the_warden(keeping: Keeping) -> None:
    cpu = min(os.sched_getaffinity(0))
    launch = keeping.python("look", LOOK_AROUND, env={**ENV, "GREETING": "grüß\udcffgott"}, cpus=(cpu,), nice=3)

    async def test(client: WardenClient) -> None:
        state = await client.start(launch)
        assert state.phase is ProcessPhase.RUNNING
        assert (await ended(client, "look")).exited.code == 0  # type: ignore[union-attr]
        seen = json.loads(await written(keeping.log("look")))
        mark = seen["env"].pop("STERNA_WARDEN")
        assert mark.endswith("/look")
        assert {key: seen["env"][key] for key in ("PATH", "GREETING")} == {**ENV, "GREETING": "grüß\udcffgott"}
        assert set(seen["env"]) <= {"PATH", "GREETING", "LC_CTYPE"}  # Python itself sets the last
        assert seen["cwd"] == str(keeping.home)
        assert seen["session"]
        assert seen["group"]
        assert seen["parent"] == (await client.list_all()).pid
        assert seen["fds"] == [0, 1, 2, 3]  # the last is the listing itself
        assert seen["streams"] == ["/dev/null", "pipe", "pipe"]
        assert seen["blocked"] == 0
        # Python ignores SIGPIPE and SIGXFSZ by itself; 32 and 33 belong to the C library, and nobody can set them
        assert seen["ignored"] & ~(1 << 12 | 1 << 24 | 1 << 31 | 1 << 32) == 0
        assert seen["umask"] == _umask()
        assert seen["core"] == 0
        assert seen["files"] == list(resource.getrlimit(resource.RLIMIT_NOFILE))
        assert seen["nice"] == os.nice(0) + 3
        assert seen["cpus"] == [cpu]

    keeping.run(test)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"argv": ("no-such-program",)}, "command not found: 'no-such-program' (PATH=", id="not on PATH"),
        pytest.param({"argv": ("/no/such",)}, "command not found: '/no/such'", id="no such path"),
        pytest.param({"argv": ("./data",)}, "command not executable: './data'", id="a file without the x bit"),
        pytest.param({"argv": ("/tmp",)}, "command not executable: '/tmp'", id="a directory"),
        pytest.param({"argv": ("./plain",)}, "neither a binary of this machine nor a script", id="no #! line"),
        pytest.param({"argv": ("./odd",)}, "names an interpreter that does not exist", id="a #! line to nowhere"),
        pytest.param({"cwd": "/no/such/dir"}, "working directory '/no/such/dir': No such file", id="no directory"),
        pytest.param({"cwd": "/etc/passwd"}, "working directory '/etc/passwd': Not a directory", id="a file as cwd"),
        pytest.param({"log_path": "/no/such/dir/log"}, "log file '/no/such/dir/log': No such file", id="no log dir"),
        pytest.param({"log_path": "/dev/null"}, "log file '/dev/null': not a regular file", id="a device as log"),
        pytest.param({"argv": ("true", "x" * 200_000)}, "too long for the system", id="an argument too long"),
        pytest.param({"cpus": (60_000,)}, "cannot prepare the process (cores 60000): Invalid", id="no such core"),
    ],
)
def test_a_start_that_cannot_be_is_failed_with_a_reason_and_stays_so(
    keeping: Keeping, changes: dict[str, object], expected: str
) -> None:
    launch = keeping.launch("x", "true")._replace(**changes)  # type: ignore[arg-type]
    (keeping.home / "data").write_text("1")
    for name, text in (("plain", "echo hello\n"), ("odd", "#!/no/such/interpreter\n")):
        (keeping.home / name).write_text(text)
        (keeping.home / name).chmod(0o755)

    async def test(client: WardenClient) -> None:
        first = await client.start(launch)
        assert first.phase is ProcessPhase.FAILED
        assert expected in first.message
        assert first.exited is None
        again = await client.start(launch._replace(argv=("true",), cwd="/", cpus=None))
        assert again == first  # its id is used up: the engine starts a new attempt under a new one
        assert [state.message for state in keeping.heard] == [first.message]

    keeping.run(test)


def test_many_starts_of_one_id_at_once_from_many_clients_run_one_process(keeping: Keeping) -> None:
    launch = keeping.launch("once", "echo $$; exec sleep 60")

    async def test(client: WardenClient) -> None:
        clients = [client, await keeping.client(), await keeping.client()]
        states = await gather(*(clients[number % 3].start(launch) for number in range(30)))
        assert len({state.pid for state in states}) == 1
        assert await written(keeping.log("once")) == f"{states[0].pid}\n"
        await client.stop("once", grace_s=0)
        end = await ended(client, "once")
        assert await client.start(launch) == end  # running or ended, the same process answers

    keeping.run(test)


def test_two_hundred_quick_starts_each_end_with_their_own_code(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        launches = [keeping.launch(f"quick-{n}", "sh", "-c", f"echo out-{n}; exit {n % 256}") for n in range(200)]
        for batch in range(0, 200, 20):
            await gather(*(client.start(launch) for launch in launches[batch : batch + 20]))
        for number in range(200):
            state = await ended(client, f"quick-{number}")
            assert state.exited is not None
            assert state.exited.code == number % 256
            assert keeping.log(f"quick-{number}").read_text() == f"out-{number}\n"
        assert sorted(state.id for state in keeping.heard) == sorted(launch.id for launch in launches)

    keeping.run(test)


def test_logs_and_state_are_for_the_user_alone(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", "echo secret;"))
        await ended(client, "a")
        for path in (keeping.log("a"), keeping.home / "warden.sock", keeping.home / "warden" / "journal"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        for directory in (keeping.home, keeping.home / "warden"):
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700, directory

    keeping.run(test)


def test_a_home_deeper_than_a_socket_path_may_be_works_as_any_other(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path / ("d" * 100) / ("e" * 100))

    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", "exit 7;"))
        assert (await ended(client, "a")).exited.code == 7  # type: ignore[union-attr]

    keeping.run(test)
    keeping.end()


def test_a_launch_is_checked_field_by_field(keeping: Keeping) -> None:
    good = keeping.launch("a", "true")
    rows: list[tuple[str, Launch]] = [
        ("launch.id", good._replace(id="../escape")),
        ("launch.id", good._replace(id="")),
        ("launch.argv", good._replace(argv=())),
        ("launch.argv", good._replace(argv=("a\0b",))),
        ("launch.env", good._replace(env={"A=B": "c"})),
        ("launch.env", good._replace(env={"A": "\ud800"})),
        ("launch.cwd", good._replace(cwd="relative")),
        ("launch.log_path", good._replace(log_path="relative")),
        ("launch.log_bytes_max", good._replace(log_bytes_max=1)),
        ("launch.memory_bytes", good._replace(memory_bytes=0)),
        ("launch.cpu_milli", good._replace(cpu_milli=-5)),
        ("launch.cpus", good._replace(cpus=())),
        ("launch.nice", good._replace(nice=99)),
    ]

    async def test(client: WardenClient) -> None:
        for field, launch in rows:
            with pytest.raises(InvalidRequest) as caught:
                await client.start(launch)
            assert caught.value.field == field
        assert (await client.list_all()).processes == ()

    keeping.run(test)


def test_the_warden_is_small_no_package_it_runs_in_loads_more_than_it_needs() -> None:
    serve = "sterna.engines.local.launch.warden.serve"
    load = f"import sys; sys.path.insert(0, sys.argv[1]); import {serve}; print(*sys.modules)"
    source = str(Path(sterna.__file__).parents[1])

    async def modules() -> set[str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", load, source, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        return set(out.decode().split())

    loaded = asyncio.run(modules())
    assert "sterna.engines.local.launch.warden.serve" in loaded
    heavy = {"asyncio", "numpy", "pydantic", "dataclasses", "inspect", "subprocess", "threading", "sqlite3", "pathlib"}
    assert loaded & heavy == set()
    ours = {name for name in loaded if name.startswith("sterna.")}
    assert ours <= {"sterna.engines", "sterna.engines.local", "sterna.engines.local.launch"} | {
        name for name in ours if name.startswith("sterna.engines.local.launch.warden")
    }


def _umask() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))
