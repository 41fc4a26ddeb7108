"""`sterna token`: what a node's monitor is known by."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sterna.interfaces.cli.main import cli
from sterna.protocol.tokens import TokenOwner, owner_of

SECRET = "the-secret-of-an-installation"


def said(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["token", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout.strip(), result.stderr


def test_it_prints_a_nodes_token_and_not_the_secret(tmp_path: Path):
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\nan-older-secret-of-it\n")
    code, token, _ = said("--node", "gpu-1", "--token-file", str(file))
    assert (code, owner_of(token, SECRET)) == (0, TokenOwner(node="gpu-1"))
    assert SECRET not in token


@pytest.mark.parametrize("node", ["", " ", "a/b", "a\nb", "x" * 300])
def test_what_is_no_nodes_name_is_refused(tmp_path: Path, node: str):
    (tmp_path / "secret").write_text(SECRET)
    code, printed, error = said("--node", node, "--token-file", str(tmp_path / "secret"))
    assert (code, printed) == (2, "")
    assert "--node" in error


@pytest.mark.parametrize("content", [None, "", "short"])
def test_without_a_secret_there_is_no_token(tmp_path: Path, content: str | None):
    if content is not None:
        (tmp_path / "secret").write_text(content)
    code, printed, error = said("--node", "gpu-1", "--token-file", str(tmp_path / "secret"))
    assert (code, printed) == (2, "")
    assert "at least 16 characters" in error
