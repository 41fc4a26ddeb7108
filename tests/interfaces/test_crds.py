"""`sterna crds`: on the way to kubectl, or into files."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from sterna.interfaces.cli.main import cli
from sterna.wire.crds import definitions

NAMES = ["TFJob", "PyTorchJob", "MPIJob", "ElasticJob", "Migration"]


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["crds", *words])
    return result.exit_code, result.output


def test_all_of_them_as_yaml():
    code, text = run()
    assert code == 0
    assert [one["spec"]["names"]["kind"] for one in yaml.safe_load_all(text)] == NAMES


def test_one_of_them_as_json():
    code, text = run("--kind", "migration", "-o", "json")
    assert code == 0
    assert json.loads(text) == definitions(["Migration"])[0]


def test_several_as_a_list():
    code, text = run("--kind", "TFJob", "--kind", "MPIJob", "--output", "json")
    assert code == 0
    assert [one["spec"]["names"]["kind"] for one in json.loads(text)["items"]] == ["TFJob", "MPIJob"]


def test_a_kind_that_is_not_ours_is_refused_with_those_that_are():
    code, text = run("--kind", "CronJob")
    assert code == 2
    assert "'CronJob' is not valid; expected one of TFJob" in text


@pytest.mark.parametrize(("output", "load"), [("yaml", yaml.safe_load), ("json", json.loads)])
def test_a_file_for_each(tmp_path, output, load):
    code, text = run("--into", str(tmp_path / "new" / "folder"), "-o", output)
    assert (code, text) == (0, "")
    files = sorted((tmp_path / "new" / "folder").iterdir())
    assert [path.suffix for path in files] == [f".{output}"] * 5
    assert {load(path.read_text())["metadata"]["name"] for path in files} == {
        one["metadata"]["name"] for one in definitions()
    }
