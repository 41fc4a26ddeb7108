"""What is missing on a machine, what it is given, and where the programs of Kubernetes are looked for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import binaries
from tests.cluster.binaries import NoBinaries, cache_place, find_binaries
from tests.cluster.packages import NEEDED, missing_packages, services_held
from tests.waiting import until

ROOT = Path(__file__).parents[2]
HOLDS_AND_DIES = """
import os, pathlib, signal, sys
from tests.cluster.packages import services_held
with services_held(pathlib.Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""
BUILDS = """
import pathlib, sys
from tests.cluster import binaries
binaries.SCRIPT = pathlib.Path(sys.argv[1])
binaries.find_binaries()
"""


@pytest.mark.parametrize(
    ("there", "missing"),
    [
        pytest.param(set(NEEDED), [], id="nothing"),
        pytest.param(set(NEEDED) - {"etcd"}, ["etcd-server"], id="one"),
        pytest.param(set(NEEDED) - {"runc", "/usr/lib/cni/bridge"}, ["containernetworking-plugins", "runc"], id="two"),
        pytest.param(set(), sorted(NEEDED.values()), id="everything"),
    ],
)
def test_only_what_is_missing_is_installed(there: set[str], missing: list[str]):
    assert missing_packages(there.__contains__) == missing


def test_services_are_held_while_packages_are_installed_and_not_after(tmp_path: Path):
    policy = tmp_path / "policy-rc.d"
    with services_held(policy):
        assert subprocess.run([policy, "etcd", "start"], check=False).returncode == 101
    assert not policy.exists()


def test_a_policy_of_the_machine_itself_is_left_as_it_is(tmp_path: Path):
    policy = tmp_path / "policy-rc.d"
    policy.write_text("theirs")
    with services_held(policy):
        assert policy.read_text() == "theirs"
    assert policy.read_text() == "theirs"


def test_what_a_killed_installation_leaves_holds_no_service_for_long(tmp_path: Path):
    policy = tmp_path / "policy-rc.d"
    killed = subprocess.run([sys.executable, "-c", HOLDS_AND_DIES, str(policy)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert subprocess.run([policy, "etcd", "start"], check=False).returncode == 0


def test_the_machine_that_names_its_own_programs_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(NoBinaries, match="no kube-apiserver in it"):
        find_binaries()
    (tmp_path / "kube-apiserver").write_text("")
    found = find_binaries()
    assert found.has("kube-apiserver")
    assert not found.has("kubelet"), "one of another version will not do"
    assert found.has("sh"), "anything else may be the system's"


class Building:
    """A build that takes a script of the test's for that of the project."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.script = directory / "build"
        self.runs = directory / "runs"
        monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
        monkeypatch.setenv("STERNA_CACHE", str(directory / "cache"))
        monkeypatch.setattr(binaries, "SCRIPT", self.script)

    def does(self, work: str) -> None:
        self.script.write_text(f'#!/bin/sh\necho >> {self.runs}\necho "step: working"\n{work}\n')
        self.script.chmod(0o755)


@pytest.fixture
def building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Building:
    return Building(tmp_path, monkeypatch)


def test_a_build_happens_once_and_leaves_nothing_but_programs(building: Building):
    building.does('mkdir "$1/bin" "$1/gocache"; echo > "$1/bin/kube-apiserver"; echo > "$1/gocache/x"')
    first, second = find_binaries(), find_binaries()
    assert first == second
    assert building.runs.read_text() == "\n"
    assert [path.name for path in cache_place().iterdir()] == ["bin"]
    assert sorted(path.name for path in cache_place().parent.iterdir()) == [".lock", cache_place().name]


def test_another_script_makes_another_build(building: Building):
    building.does("true")
    before = cache_place()
    building.does("false")
    assert cache_place() != before


def test_a_build_that_fails_says_why_and_is_tried_again(building: Building):
    building.does('echo "no room"; exit 1')
    with pytest.raises(NoBinaries, match="no room"):
        find_binaries()
    assert not cache_place().exists()
    with pytest.raises(NoBinaries, match="no room"):
        find_binaries()
    assert building.runs.read_text() == "\n\n"


def test_an_aborted_build_is_never_used(building: Building):
    building.does('mkdir "$1/bin"; echo > "$1/bin/kube-apiserver"; sleep 1000')
    command = [sys.executable, "-c", BUILDS, str(building.script)]
    builder = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    half = cache_place().with_name(f".{cache_place().name}.building") / "bin" / "kube-apiserver"
    until(half.exists, "the build is half done")
    os.kill(builder.pid, signal.SIGINT)
    assert builder.wait(60) != 0
    assert not cache_place().exists()
