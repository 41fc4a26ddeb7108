"""What workers use: real processes and a real control group, trees of files in every form a kubelet makes them."""

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sterna.monitor import Watched
from sterna.monitor.surroundings import Pattern, Surroundings
from sterna.monitor.usage.cgroups import Cgroups, Counted, group_of_process, pod_uid_in
from sterna.monitor.usage.gpus import Gpus, GpuUse
from sterna.monitor.usage.measuring import Measuring
from sterna.monitor.usage.proc_usage import Processes, machine
from sterna.protocol.reports import Usage
from tests.httpd.wires import bounded
from tests.monitor.stage import NoCards, staged
from tests.needs import absent
from tests.waiting import until

PROC = Path("/proc")
UID = "01234567-89ab-cdef-0123-456789abcdef"
BURN = "import os, sys\nif os.fork() == 0:\n    while True: pass\nsys.stdin.read()"


@contextlib.contextmanager
def burning(group: Path | None = None) -> Iterator[int]:
    """A process that sleeps and has a child that does not; in a control group if one is given."""
    with subprocess.Popen([sys.executable, "-c", f"import sys; sys.stdin.readline()\n{BURN}"], stdin=subprocess.PIPE,
                          start_new_session=True) as process:  # fmt: skip
        try:
            if group is not None:
                (group / "cgroup.procs").write_text(str(process.pid))
            assert process.stdin is not None
            process.stdin.write(b"go\n")
            process.stdin.flush()
            yield process.pid
        finally:
            os.killpg(process.pid, 9)


def once_busy(measuring: Measuring, watched: list[Watched]) -> tuple[float, Usage, Usage | None]:
    """Look by a clock that says a second has passed each time, until the worker has used some processor time."""
    seconds = itertools.count(0.0, 1.0)

    def looked() -> tuple[float, Usage, Usage | None] | None:
        used, load = measuring.usage(watched, next(seconds))
        usage = used["team/a"]
        return (usage.cpu, usage, load) if usage.cpu else None

    found = until(looked, "the worker uses processor time", every_s=0.02)
    assert found is not None
    return found


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v2(root: Path, group: str, *, cpu_us: int, memory: int, cache: int = 0) -> Path:
    return put(root, {
        "cgroup.controllers": "cpu memory",
        f"{group}/cpu.stat": f"usage_usec {cpu_us}\nuser_usec 1\n",
        f"{group}/memory.current": f"{memory}\n",
        f"{group}/memory.stat": f"anon 1\ninactive_file {cache}\n",
    })  # fmt: skip


def v1(root: Path, group: str, *, cpu_ns: int, memory: int, cache: int = 0, controller: str = "cpuacct") -> Path:
    return put(root, {
        f"{controller}/{group}/cpuacct.usage": f"{cpu_ns}\n",
        f"memory/{group}/memory.usage_in_bytes": f"{memory}\n",
        f"memory/{group}/memory.stat": f"inactive_file 5\ntotal_inactive_file {cache}\n",
    })  # fmt: skip


def test_a_process_is_measured_with_all_its_descendants():
    with burning() as pid:
        measuring = Measuring(cgroup_root=Path("/nowhere"), proc=PROC, gpus=Gpus(NoCards()))
        watched = [Watched("team/a", pid=pid)]
        cpu, usage, load = once_busy(measuring, watched)
        assert len(Processes(PROC).tree(pid)) == 2
    assert cpu > 0
    assert usage.memory_bytes is not None
    assert usage.memory_bytes > 1 << 20
    assert load is not None
    assert load.cpu is not None
    assert load.memory_bytes is not None
    assert load.memory_bytes > usage.memory_bytes


def test_a_process_that_is_gone_uses_nothing_and_breaks_nothing():
    with burning() as pid:
        pass
    measuring = Measuring(cgroup_root=Path("/nowhere"), proc=PROC, gpus=Gpus(NoCards()))
    assert [measuring.usage([Watched("team/a", pid=pid)], now_s)[0] for now_s in (0.0, 1.0)] == [{}, {}]


@pytest.fixture
def real_group() -> Iterator[tuple[Path, Path]]:
    """A pod's group as a kubelet would make it: where processes are put in, and its path from the root."""
    root = Path("/sys/fs/cgroup")
    name = f"sterna-test-{os.getpid()}"
    controllers = [root] if (root / "cgroup.controllers").exists() else [root / "cpuacct", root / "memory"]
    made: list[Path] = []
    try:
        for controller in controllers:
            for path in (controller / name, controller / name / f"pod{UID}"):
                path.mkdir()
                made.append(path)
    except OSError as error:
        for path in reversed(made):
            path.rmdir()
        absent(f"control groups cannot be made here ({error})")
    try:
        yield controllers[0] / name / f"pod{UID}", Path(name) / f"pod{UID}"
    finally:
        for path in reversed(made):
            for _ in range(1000):  # until the kernel has buried who was in it
                with contextlib.suppress(OSError):
                    path.rmdir()
                    break


def test_a_real_control_group_is_found_and_measured(real_group):
    place, path = real_group
    with burning(place) as pid:
        measuring = Measuring(cgroup_root=Path("/sys/fs/cgroup"), proc=PROC, gpus=Gpus(NoCards()))
        assert measuring.pods()[UID] == path
        watched = [Watched("team/a", cgroup=path)]
        cpu, _, _ = once_busy(measuring, watched)
        assert pod_uid_in(group_of_process(pid, proc=PROC) or Path()) == UID
    assert cpu > 0


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(f"kubepods/burstable/pod{UID}", id="cgroupfs driver, burstable"),
        pytest.param(f"kubepods/pod{UID}", id="cgroupfs driver, guaranteed"),
        pytest.param(
            f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UID.replace('-', '_')}.slice",
            id="systemd driver, best effort",
        ),
        pytest.param(f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice", id="systemd driver, guaranteed"),
        pytest.param(f"kubelet/kubepods/burstable/pod{UID}", id="a kubelet within a container"),
        pytest.param(
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
            f"kubelet-kubepods-burstable-pod{UID.replace('-', '_')}.slice",
            id="systemd driver, below a slice of the kubelet's own",
        ),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v1 joined", "v2"])
def test_a_pods_group_is_found_wherever_the_kubelet_put_it(tmp_path, group, version):
    if version == "v2":
        v2(tmp_path, group, cpu_us=2_500_000, memory=1000, cache=300)
    else:
        controller = "cpuacct" if version == "v1" else "cpu,cpuacct"
        v1(tmp_path, group, cpu_ns=2_500_000_000, memory=1000, cache=300, controller=controller)
    cgroups = Cgroups(tmp_path)
    (found,) = cgroups.pods().items()
    assert found[0] == UID
    assert cgroups.count(found[1]) == Counted(cpu_s=2.5, memory_bytes=700)


def test_what_is_no_pods_group_is_none(tmp_path):
    put(
        tmp_path, {"cgroup.controllers": "", "system.slice/x": "", "kubepods/podnonsense/x": "", "kubepods/other/x": ""}
    )
    assert Cgroups(tmp_path).pods() == {}
    assert Cgroups(tmp_path / "nowhere").pods() == {}
    assert Cgroups(tmp_path).count(Path("kubepods/gone")) == Counted(None, None)


def test_rates_are_over_the_time_between_two_looks(tmp_path):
    group = f"kubepods/pod{UID}"
    measuring = Measuring(cgroup_root=v2(tmp_path, group, cpu_us=1_000_000, memory=10), proc=PROC, gpus=Gpus(NoCards()))
    watched = [Watched("team/a", cgroup=Path(group))]
    assert measuring.usage(watched, 100.0)[0] == {"team/a": Usage(cpu=None, memory_bytes=10)}
    v2(tmp_path, group, cpu_us=16_000_000, memory=20)
    assert measuring.usage(watched, 110.0)[0] == {"team/a": Usage(cpu=1.5, memory_bytes=20)}
    v2(tmp_path, group, cpu_us=500_000, memory=20)  # made anew: its count began again
    assert measuring.usage(watched, 120.0)[0] == {"team/a": Usage(cpu=0.0, memory_bytes=20)}


def test_a_name_with_blanks_and_brackets_hides_no_process(tmp_path):
    put(tmp_path, {"12/stat": "12 (a) b (c) S 1 12 12 0 -1 4 0 0 0 0 250 50 0 0 20 0 1 0 9 9 3 1\n", "13/stat": "junk"})
    assert Processes(tmp_path).count(12)[12].cpu_s == 300 / os.sysconf("SC_CLK_TCK")
    assert machine(tmp_path) == Counted(None, None)


class Cards:
    """A management library with two cards, as its Python module is used: one busy with two processes, one broken."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.since: list[int] = []

    def nvmlInit(self) -> None:  # noqa: N802 - the library's own names from here on
        pass

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        return number

    def _fine(self, card: int) -> None:
        if card == 1:
            raise self.NVMLError("GPU is lost")

    def nvmlDeviceGetComputeRunningProcesses(self, card: int) -> list[SimpleNamespace]:  # noqa: N802
        self._fine(card)
        return [SimpleNamespace(pid=7, usedGpuMemory=1000), SimpleNamespace(pid=8, usedGpuMemory=None)]

    def nvmlDeviceGetProcessUtilization(self, card: int, since_us: int) -> list[SimpleNamespace]:  # noqa: N802
        self._fine(card)
        self.since.append(since_us)
        return [
            SimpleNamespace(pid=7, timeStamp=100, smUtil=40),
            SimpleNamespace(pid=7, timeStamp=200, smUtil=60),
            SimpleNamespace(pid=9, timeStamp=150, smUtil=10),
        ]

    def nvmlDeviceGetUtilizationRates(self, card: int) -> SimpleNamespace:  # noqa: N802
        self._fine(card)
        return SimpleNamespace(gpu=75)

    def nvmlDeviceGetMemoryInfo(self, card: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=5000)


def test_cards_are_asked_process_by_process_and_a_lost_one_is_left_out():
    cards = Cards()
    gpus = Gpus(cards)
    assert gpus.by_process() == {7: GpuUse(0.5, 1000), 8: GpuUse(0.0, 0), 9: GpuUse(0.1, 0)}
    assert gpus.whole() == GpuUse(0.75, 5000)
    gpus.by_process()
    assert cards.since == [0, 200]  # samples are not counted twice
    gpus.close()
    assert gpus.by_process() == {}
    assert gpus.whole() is None


def test_a_cards_process_is_its_pods_by_descent_or_by_group(tmp_path):
    put(tmp_path, {
        "7/stat": "7 (python) S 1 12 12 0 -1 4 0 0 0 0 1 1 0 0 20 0 1 0 9 9 3 1\n",
        "9/cgroup": f"0::/../../kubepods/burstable/pod{UID}/abc\n",
    })  # fmt: skip
    measuring = Measuring(cgroup_root=tmp_path, proc=tmp_path, gpus=Gpus(Cards()))
    workers = [Watched("team/a", pid=7), Watched("team/b", cgroup=Path(f"kubepods/burstable/pod{UID}"))]
    used, load = measuring.usage(workers, 1.0)
    assert (used["team/a"].gpu, used["team/a"].gpu_memory_bytes) == (0.5, 1000)
    assert (used["team/b"].gpu, used["team/b"].gpu_memory_bytes) == (0.1, 0)
    assert load == Usage(gpu=0.75, gpu_memory_bytes=5000)


def test_without_the_library_or_a_card_there_is_nothing_to_say():
    assert not Gpus(NoCards()).present
    assert Gpus(NoCards()).whole() is None


def test_pods_are_known_by_the_directories_of_their_logs(tmp_path):
    other = UID.replace("0", "f")
    for name in (f"team_train-worker-0_{UID}", f"kube-system_dns.v2-x_{other}", "lost+found", "a_b_c", "_x_"):
        (tmp_path / name).mkdir()
    surroundings = Surroundings(log_root=tmp_path, patterns=(Pattern("team/*", "one"), Pattern("*", "two")))
    assert surroundings.watched({UID: Path("g")}, {"kube-system/dns.v2-x": "three"}) == [
        Watched("kube-system/dns.v2-x", log=tmp_path / f"kube-system_dns.v2-x_{other}", pattern="three"),
        Watched("team/train-worker-0", cgroup=Path("g"), log=tmp_path / f"team_train-worker-0_{UID}", pattern="one"),
    ]
    assert Surroundings(log_root=tmp_path / "nowhere").pods() is None


def test_of_two_pods_of_one_name_the_newer_counts(tmp_path):
    older, newer = UID, UID.replace("0", "f")
    for at_s, uid in ((100, newer), (50, older)):
        path = tmp_path / f"team_train-worker-0_{uid}"
        path.mkdir()
        os.utime(path, (at_s, at_s))
    assert Surroundings(log_root=tmp_path).pods() == {
        "team/train-worker-0": (newer, tmp_path / f"team_train-worker-0_{newer}")
    }


def test_on_a_node_only_its_pods_may_report_and_a_new_one_is_seen_at_once(tmp_path):
    async def scene() -> list[int]:
        async with staged(log_root=tmp_path) as stage:
            body = {"pod": "train-worker-0", "value": 1.0}
            stage.clock.now_s += 1
            before = await stage.post("/monitor", body)
            (tmp_path / f"team_train-worker-0_{UID}").mkdir()
            stage.clock.now_s += 1
            after = await stage.post("/monitor", body)
            return [before.status, after.status]

    assert bounded(scene) == [404, 200]


def test_what_pods_and_the_node_use_reaches_the_scheduler(tmp_path):
    logs, groups = tmp_path / "logs", tmp_path / "groups"
    (logs / f"team_train-worker-0_{UID}").mkdir(parents=True)
    group = f"kubepods/pod{UID}"
    v2(groups, group, cpu_us=0, memory=10)

    async def scene():
        async with staged(log_root=logs, cgroup_root=groups) as stage:
            await stage.monitor.measure()
            v2(groups, group, cpu_us=20_000_000, memory=10)
            stage.clock.now_s += 10
            await stage.monitor.measure()
            await stage.monitor.forwarding.send_all()
            (logs / f"team_train-worker-0_{UID}").rmdir()
            await stage.monitor.measure()
            return stage, len(stage.monitor.windows)

    stage, left = bounded(scene)
    (report,) = stage.scheduler.reports
    assert (report.pod, report.seq, report.usage) == ("team/train-worker-0", 0, Usage(cpu=2.0, memory_bytes=10))
    assert stage.scheduler.batches[0].load is not None
    assert left == 0
