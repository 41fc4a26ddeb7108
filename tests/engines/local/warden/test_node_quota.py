"""Workers of one virtual node share its CPUs: one group for the node, whose quota the kernel keeps."""

import os
from pathlib import Path

from sterna.engines.local.launch.warden.client import WardenClient
from sterna.engines.local.launch.warden.values import Launch
from sterna.engines.local.launch.warden.workers.cgroups import Cgroups
from sterna.engines.local.launch.warden.workers.hierarchies import GroupPlace
from sterna.engines.local.launch.worker_launch import cores_for
from sterna.engines.local.world.machine_nodes import VirtualNodes, cpus_usable, offered_nodes
from tests.engines.local.warden.keeping import Keeping, control_groups, eventually, eventually_now
from tests.engines.local.warden.test_limits import needs_limit

BUSY = "while True: pass"


def node_groups(keeping: Keeping) -> list[Path]:
    """Of this home, in whichever hierarchy they are."""
    return [group for group in control_groups(keeping.home) if group.name.startswith("node:")]


def throttled(group: Path) -> int:
    """How often the kernel held its processes back."""
    fields = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(fields["nr_throttled"])


def test_all_workers_of_a_node_are_held_to_its_cpus_together(keeping: Keeping) -> None:
    needs_limit(keeping, "cpu")

    async def test(client: WardenClient) -> None:
        pids = set()
        for name in ("a", "b"):
            state = await client.start(keeping.python(name, BUSY, node="node-1", node_cpu_milli=100))
            assert state.notes == ()
            pids.add(state.pid)
        await client.start(keeping.python("c", BUSY, cpu_milli=5000, node="node-2", node_cpu_milli=200))
        one, two = [next(g for g in node_groups(keeping) if g.name == f"node:node-{n}") for n in (1, 2)]
        inside = {int(pid) for procs in one.glob("*/cgroup.procs") for pid in procs.read_text().split()}
        assert inside == pids
        assert quota_us(one) == 10_000
        assert quota_us(two) == 20_000
        await eventually(lambda: throttled(one) > 3, "nobody is held back")
        await client.stop("a", grace_s=0)
        await eventually(lambda: not (one / "a").exists(), "its group is left")
        assert one.exists(), "the other is still there"
        await client.stop("b", grace_s=0)
        await eventually(lambda: not one.exists(), "the node's group goes with its last worker")

    keeping.run(test)


def quota_us(group: Path) -> int:
    v2 = group / "cpu.max"
    return int(v2.read_text().split()[0]) if v2.exists() else int((group / "cpu.cfs_quota_us").read_text())


def test_nothing_of_a_node_is_left_when_the_warden_is_killed(keeping: Keeping) -> None:
    needs_limit(keeping, "cpu")

    async def test(client: WardenClient) -> None:
        for name in ("a", "b"):
            await client.start(keeping.python(name, BUSY, node="node-1", node_cpu_milli=100))
        census = await client.list_all()
        os.kill(census.pid, 9)

    keeping.run(test)
    eventually_now(lambda: not node_groups(keeping), "groups of a node are left")


def test_version_2_hands_its_controllers_down_to_the_workers_of_a_node(tmp_path: Path) -> None:
    """The files are plain ones: what is written, and where."""
    place = GroupPlace(str(tmp_path), unified=True, memory=True, cpu=True)
    node = tmp_path / "node:n"
    (node / "a").mkdir(parents=True)
    for name in ("cpu.max", "cpu.weight", "cgroup.subtree_control"):
        (node / name).touch()
    for name in ("memory.max", "cpu.max", "cpu.weight"):
        (node / "a" / name).touch()
    launch = Launch("a", ("true",), {}, "/", "/log", memory_bytes=2**20, cpu_milli=900, node="n", node_cpu_milli=400)
    group = Cgroups((place,), "").group_for(launch)
    assert group.notes == ()
    assert group.paths == (str(node / "a"),)
    assert (node / "cpu.max").read_text() == "40000 100000"
    assert (node / "a" / "cpu.max").read_text() == "40000 100000", "no more than its node has"
    assert (node / "a" / "memory.max").read_text() == "1048576"
    assert (node / "cgroup.subtree_control").read_text().startswith("+cpu"), "the last of what was handed down"


def test_a_quota_that_nobody_can_keep_is_said() -> None:
    launch = Launch("a", ("true",), {}, "/", "/log", node="n", node_cpu_milli=400)
    assert Cgroups((), "no control groups").group_for(launch).notes == (
        "CPU quota of 400m of n is not enforced: no control group",
    )


def test_where_no_quota_can_be_set_nodes_have_cores_of_their_own(monkeypatch) -> None:
    monkeypatch.setattr("sterna.engines.local.world.machine_nodes.cpus_usable", lambda: [0, 1, 2, 3, 6])
    cores = [offer.cores for offer in offered_nodes(VirtualNodes(3, cpus_per_node=1.5))]
    assert cores == [(0, 1), (2, 3), (0, 6)]
    assert [offer.cpu_milli for offer in offered_nodes(VirtualNodes(1, cpus_per_node=1.5))] == [1500]
    assert [offer.cores for offer in offered_nodes(VirtualNodes(2, cpus_per_node=5))] == [None, None]
    assert [(offer.cores, offer.cpu_milli) for offer in offered_nodes(VirtualNodes(2))] == [(None, None)] * 2
    assert cores_for("w", 1000, (2, 3)) in ((2,), (3,))
    assert cpus_usable()
