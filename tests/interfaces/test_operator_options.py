"""`sterna operator`: what opens its door, and what does not."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sterna.engines.kubernetes.process.settings import Binding, OperatorConfig
from sterna.interfaces.cli.main import cli
from sterna.model.errors import InvalidRequest


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--door-address", "0.0.0.0"], id="for everybody"),
        pytest.param(["--door-address", "127.0.0.1"], id="even on loopback"),
        pytest.param(["--door-port", "8769"], id="a port alone"),
        pytest.param(["--monitor-port", "8081"], id="pods that could prove nothing"),
        pytest.param(["--monitor-account", "sterna-system/sterna-monitor"], id="monitors without a door"),
    ],
)
def test_s3_nothing_is_opened_without_a_token(arguments: list[str]):
    result = CliRunner().invoke(cli, ["operator", "--kubeconfig", "/nowhere", *arguments], catch_exceptions=False)
    assert result.exit_code == 2
    assert "--token-file" in result.stderr
    assert arguments[0] in result.stderr


def test_s3_a_door_without_a_token_is_no_configuration():
    with pytest.raises(InvalidRequest, match="token file"):
        OperatorConfig(door_port=8769)
    assert OperatorConfig(door_port=8769, token_file=Path("token")).door_port == 8769


def test_the_help_names_both_spellings_of_the_token_file():
    result = CliRunner().invoke(cli, ["operator", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    said = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)
    assert "--token-file" in said
    assert "--door-token-file" in said
    assert "--distribution-csv" in said


@pytest.mark.parametrize("word", ["node-name", "binding", "none"])
def test_how_pods_are_bound_may_be_told_by_the_word_of_the_command_line(word: str):
    told: dict[str, Any] = {"binding": word}
    assert OperatorConfig(**told).binding is Binding(word)


def test_a_way_of_binding_that_there_is_not_is_refused():
    told: dict[str, Any] = {"binding": "glue"}
    with pytest.raises(InvalidRequest, match="node-name, binding, none"):
        OperatorConfig(**told)


@pytest.mark.parametrize("account", ["sterna-monitor", "a/b/c", "A/b", "/x", "x/", "a/b\n"])
def test_an_account_of_monitors_is_a_namespace_and_a_name(account: str):
    with pytest.raises(InvalidRequest, match="sterna-system/sterna-monitor"):
        OperatorConfig(monitor_account=account)
    assert OperatorConfig(monitor_account="sterna-system/sterna-monitor").monitor_account
