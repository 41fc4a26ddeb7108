"""Limits: in force where the machine allows it, said where it does not. Control groups here are the kernel's own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import sterna
from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.values import Launch, Limits
from sterna.engines.local.launch.warden.workers.cgroups import Cgroups, Group
from sterna.engines.local.launch.warden.workers.hierarchies import GroupPlace, Mount, find_places, mounts
from tests.engines.local.warden.keeping import (
    ENV,
    Keeping,
    control_groups,
    ended,
    eventually,
    eventually_now,
    token_of,
    written,
)
from tests.needs import absent, needs_program

EAT = "import signal; eaten = b'x' * ({mib} << 20); print('fed', flush=True); signal.pause()"


def enforced(keeping: Keeping) -> Limits:
    found: list[Limits] = []

    async def test(client: WardenClient) -> None:
        found.append(await client.limits())

    keeping.run(test)
    return found[0]


def needs_limit(keeping: Keeping, name: str) -> None:
    limit = getattr(enforced(keeping), name)
    if not limit.enforced:
        absent(f"this machine enforces no {name} limit: {limit.how}")


def test_one_that_exceeds_its_memory_is_ended_and_the_end_says_out_of_memory(keeping: Keeping) -> None:
    needs_limit(keeping, "memory")

    async def test(client: WardenClient) -> None:
        await client.start(keeping.python("fits", EAT.format(mib=10), memory_bytes=64 << 20))
        await written(keeping.log("fits"), "fed")
        await client.start(keeping.python("bursts", EAT.format(mib=100), memory_bytes=64 << 20))
        end = (await ended(client, "bursts")).exited
        assert end is not None
        assert (end.oom, end.signal, end.message) == (True, signal.SIGKILL, "out of memory: limit 64 MiB")
        assert [state.id for state in (await client.list_all()).processes if state.alive] == ["fits"]

    keeping.run(test)


def test_a_leader_that_fails_because_its_child_ran_out_of_memory_is_said_to_have_too(keeping: Keeping) -> None:
    needs_limit(keeping, "memory")
    child = f'{sys.executable} -I -S -c "{EAT.format(mib=100)}"'

    async def test(client: WardenClient) -> None:
        await client.start(keeping.launch("a", f"{child}; exit 1", memory_bytes=64 << 20))
        end = (await ended(client, "a")).exited
        assert end is not None
        assert end.oom
        assert end.message == "out of memory: limit 64 MiB"

    keeping.run(test)


def test_a_cpu_quota_holds_a_busy_worker_back(keeping: Keeping) -> None:
    needs_limit(keeping, "cpu")
    busy = "import time; start = time.monotonic()\nwhile time.monotonic() < start + 1.0: pass"

    async def test(client: WardenClient) -> None:
        await client.start(keeping.python("a", busy, cpu_milli=200))
        end = (await ended(client, "a")).exited
        assert end is not None
        assert end.cpu_s < 0.6  # of one second; without the quota nearly all of it

    keeping.run(test)


def test_quota_and_weight_are_what_was_asked_for(keeping: Keeping) -> None:
    needs_limit(keeping, "cpu")

    async def test(client: WardenClient) -> None:
        where = Path((await client.limits()).cpu.how.split(", ")[1])
        if not (where / "cpu.shares").exists():
            pytest.skip("version 2: its words have a test of their own")
        await client.start(keeping.launch("a", "sleep", "600", cpu_milli=1500))
        assert (where / "a" / "cpu.cfs_quota_us").read_text() == "150000\n"
        assert (where / "a" / "cpu.shares").read_text() == "1536\n"
        assert (where / "cpu.shares").read_text() == f"{1024 * (os.cpu_count() or 1)}\n"
        await client.start(keeping.launch("b", "sleep", "600"))
        assert not (where / "b").exists()  # nothing asked for, nothing changed

    keeping.run(test)


def test_without_control_groups_every_limit_that_is_not_in_force_is_said(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path / "home", cgroups="none")

    async def test(client: WardenClient) -> None:
        limits = await client.limits()
        assert not limits.memory.enforced
        assert "control groups are switched off" in limits.memory.how
        assert "run as root" in limits.cpu.how
        assert limits.affinity.enforced
        assert not limits.leftovers.enforced
        state = await client.start(keeping.launch("a", "sleep", "600", memory_bytes=512 << 20, cpu_milli=500))
        assert state.notes == (
            "memory limit of 512 MiB is not enforced: no control group",
            "CPU quota of 500m is not enforced: no control group",
        )

    keeping.run(test)
    keeping.end()


def test_a_limit_too_small_to_begin_with_ends_as_out_of_memory_not_as_a_riddle(keeping: Keeping) -> None:
    needs_limit(keeping, "memory")

    async def test(client: WardenClient) -> None:
        await client.start(keeping.python("a", "print('never')", memory_bytes=8192))
        end = (await ended(client, "a")).exited
        assert end is not None
        assert end.message == "out of memory: limit 8192 bytes"

    keeping.run(test)


def test_the_groups_of_a_worker_go_with_it(keeping: Keeping) -> None:
    def groups() -> list[Path]:
        return [group for group in control_groups(keeping.home) if group.name == "a"]

    async def test(client: WardenClient) -> None:
        if not (await client.limits()).leftovers.enforced:
            absent("this machine gives us no control groups")
        await client.start(keeping.launch("a", "sleep", "600"))
        assert groups()
        await client.stop("a", grace_s=0)
        await ended(client, "a")
        await eventually(lambda: not groups(), "a group is left")

    keeping.run(test)


NOBODY = """
import asyncio, json, sys
from pathlib import Path
from sterna.engines.local.launch.warden.client import connect_or_start
from sterna.engines.local.launch.warden.values import Launch

async def main():
    client = await connect_or_start(Path(sys.argv[1]))
    limits = await client.limits()
    state = await client.start(Launch(**json.loads(sys.argv[2])))
    await client.leave(kill=True, grace_s=0)
    print(json.dumps([limits.memory.enforced, limits.memory.how, state.phase, state.notes]))

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_without_control_groups_is_told_why_and_what_would_help(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 65534, 65534)
    launch = Launch("a", ("sleep", "600"), ENV, "/", str(home / "a.log"), memory_bytes=1 << 30)
    read_anything = [f"--{kind}-caps=+dac_read_search" for kind in ("inh", "ambient")]  # an interpreter in root's home
    run = subprocess.run(
        [
            *(needs_program("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups", *read_anything),
            *(sys.executable, "-c", NOBODY, str(home), json.dumps(launch._asdict())),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env={**ENV, "PYTHONPATH": str(Path(sterna.__file__).parents[1])},
    )
    assert run.returncode == 0, run.stderr
    found, how, phase, notes = json.loads(run.stdout)
    assert (found, phase) == (False, "running")
    assert "Permission denied; run as root, or in a control group handed to this user" in how
    assert notes == ["memory limit of 1024 MiB is not enforced: no control group"]


V1 = """30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
32 24 0:28 / /sys/fs/cgroup/freezer rw,nosuid - cgroup cgroup rw,freezer
33 24 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
34 24 0:30 / /tmp rw - tmpfs tmpfs rw
"""
V1_OWN = "4:memory:/user.slice/a\n3:cpu,cpuacct:/\n2:freezer:/\n1:name=systemd:/x\n"
MEMORY, CPU = frozenset({"memory"}), frozenset({"cpu", "cpuacct"})
NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("mountinfo", "own", "expected"),
    [
        pytest.param(
            V1,
            V1_OWN,
            [
                Mount("/sys/fs/cgroup/memory", "user.slice/a", MEMORY, False),
                Mount("/sys/fs/cgroup/cpu,cpuacct", "", CPU, False),
            ],
            id="version 1: memory and CPU, the rest left alone",
        ),
        pytest.param(
            "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
            "0::/user.slice/user-1000.slice/session-3.scope\n",
            [Mount("/sys/fs/cgroup", "user.slice/user-1000.slice/session-3.scope", NONE, True)],
            id="version 2",
        ),
        pytest.param(
            V1 + "40 24 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            V1_OWN + "0::/\n",
            [
                Mount("/sys/fs/cgroup/unified", "", NONE, True),
                Mount("/sys/fs/cgroup/memory", "user.slice/a", MEMORY, False),
                Mount("/sys/fs/cgroup/cpu,cpuacct", "", CPU, False),
            ],
            id="both: version 2 first, because it kills at once",
        ),
        pytest.param(
            "30 24 0:26 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "4:memory:/docker/abc\n",
            [Mount("/sys/fs/cgroup/memory", "", MEMORY, False)],
            id="in a container, the mount begins at its own group",
        ),
        pytest.param(
            "30 24 0:26 / /a rw - cgroup2 cgroup2 rw\n31 24 0:26 / /b\\040c rw - cgroup2 cgroup2 rw\n",
            "0::/\n",
            [Mount("/a", "", NONE, True)],
            id="a hierarchy mounted twice counts once",
        ),
        pytest.param("", "", [], id="a machine without any"),
    ],
)
def test_hierarchies_are_read_as_the_kernel_shows_them(mountinfo: str, own: str, expected: list[Mount]) -> None:
    assert mounts(mountinfo, own) == expected


def test_version_2_limits_are_written_in_its_own_words(tmp_path: Path) -> None:
    """Its controllers belong to version 1 on the machines we test on, so the files here are plain ones."""
    place = GroupPlace(str(tmp_path), unified=True, memory=True, cpu=True)
    group_path = tmp_path / "a"
    group_path.mkdir()
    files = ("memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "cpu.weight")
    for name in files:
        (group_path / name).touch()
    launch = Launch("a", ("true",), {}, "/", "/log", memory_bytes=2**30, cpu_milli=1500)
    group = Cgroups((place,), "").group_for(launch)
    assert group.notes == ()
    assert [(group_path / name).read_text() for name in files] == ["1073741824", "0", "1", "150000 100000", "150"]
    (group_path / "memory.events").write_text("low 0\nhigh 0\nmax 4\noom 1\noom_kill 0\n")
    assert not group.ran_out_of_memory()
    (group_path / "memory.events").write_text("low 0\nhigh 0\nmax 4\noom 1\noom_kill 2\n")
    assert group.ran_out_of_memory()


def test_a_choice_of_group_that_is_none_is_said(tmp_path: Path) -> None:
    assert find_places("sterna-x", str(tmp_path)) == ((), f"{tmp_path} is not a control group")
    assert list(tmp_path.iterdir()) == []


def test_a_group_handed_to_us_by_path_is_used(keeping: Keeping) -> None:
    needs_limit(keeping, "leftovers")
    keeping.run(lambda client: client.leave())
    unified = [mount for mount in mounts(Path("/proc/self/mountinfo").read_text(), "") if mount.unified]
    if not unified:
        pytest.skip("only version 2 has one directory for everything")
    handed = Path(unified[0].point) / f"handed-{token_of(keeping.home)}"
    handed.mkdir()
    keeping.cgroups = str(handed)

    async def test(client: WardenClient) -> None:
        state = await client.start(keeping.launch("a", "sleep", "600"))
        (group,) = handed.glob("*/a")
        assert (group / "cgroup.procs").read_text().split() == [str(state.pid)]
        await client.leave(kill=True, grace_s=0)

    try:
        keeping.run(test)
        eventually_now(lambda: not list(handed.glob("sterna-*")), "our part of it is left")
    finally:
        handed.rmdir()


def test_a_group_that_never_was_is_empty_and_harmless() -> None:
    group = Group("a", (), ())
    group.kill()
    assert (group.pids(), group.join, group.ran_out_of_memory(), group.remove()) == ([], (), False, True)
