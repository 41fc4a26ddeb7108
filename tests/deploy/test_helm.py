"""What Helm says about the chart, as a reviewer and as a packer, and which Helm is asked."""

import tarfile
from pathlib import Path

import pytest

from tests.deploy.helm import helm, helm_program
from tests.deploy.rbac import EVERYTHING
from tests.deploy.rendering import CHART, CRDS, render, settings


@pytest.mark.parametrize("values", [pytest.param({}, id="by default"), pytest.param(EVERYTHING, id="all turned on")])
@pytest.mark.parametrize("kube_version", ["1.20.0", "1.32.0"])
def test_helm_lint_has_no_complaint(values, kube_version):
    said = helm("lint", "--strict", f"--kube-version={kube_version}", str(CHART), *settings(values))
    assert [line for line in said.out.splitlines() if "WARNING" in line or "ERROR" in line] == []
    assert said.err == ""


def test_the_package_holds_the_definitions_and_is_made_without_a_warning(tmp_path: Path):
    said = helm("package", str(CHART), f"--destination={tmp_path}")
    assert said.err == ""
    (package,) = tmp_path.iterdir()
    with tarfile.open(package) as archive:
        members = {member.name: member for member in archive.getmembers()}
        packed = {
            Path(name).name: archive.extractfile(member).read()  # type: ignore[union-attr]  # None: no file
            for name, member in members.items()
            if name.startswith("sterna/files/crds/")
        }
    assert [name for name, member in members.items() if not member.isfile()] == []
    assert packed == {path.name: path.read_bytes() for path in CRDS.iterdir()}
    assert render(chart=package) == render()


@pytest.mark.parametrize(
    ("on_path", "beside_python", "expected"),
    [
        pytest.param(True, True, "path/helm", id="the machine's own goes first"),
        pytest.param(False, True, "venv/helm", id="else the one that pip installed"),
    ],
)
def test_where_helm_is_found(tmp_path, monkeypatch, on_path, beside_python, expected):
    for folder, there in (("path", on_path), ("venv", beside_python)):
        (tmp_path / folder).mkdir()
        if there:
            (tmp_path / folder / "helm").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert helm_program(str(tmp_path / "venv" / "python")) == str(tmp_path / expected)


def test_without_helm_a_test_is_skipped_and_fails_where_nothing_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("STERNA_REQUIRE", "0")
    with pytest.raises(pytest.skip.Exception, match="no program helm"):
        helm_program(str(tmp_path / "python"))
    monkeypatch.setenv("STERNA_REQUIRE", "1")
    with pytest.raises(pytest.fail.Exception, match="no program helm"):
        helm_program(str(tmp_path / "python"))
