"""The commands of README and quickstart, run exactly as they stand, on a copy of what is checked in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.fenced_blocks import blocks_of

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600.0  # for all commands of a page; on a machine four times slower they take a third of it
PAGES = ("README.md", "docs/quickstart.md")


@pytest.fixture
def clone(tmp_path):
    """What a reader has: the files that are checked in, beside an environment that `make setup` made."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).symlink_to(ROOT / name)
    environment = tmp_path / ".venv" / "bin"
    environment.mkdir(parents=True)
    (environment / "activate").write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    yield tmp_path
    stop = [sys.executable, "-m", "sterna.interfaces.cli.main", "down"]
    subprocess.run(stop, env=_environment(tmp_path), capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_page_works_as_it_stands(page, clone):
    """One shell for the whole page, as a reader has one."""
    script = "set -eu\n. .venv/bin/activate\n"
    for block in blocks_of(ROOT / page):
        if not block.not_run:
            script += f"echo '== {page}, line {block.line}'\n{block.text}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=clone,
        env=_environment(clone),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "error:" not in done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_a_block_that_is_not_run_says_why(page):
    blocks = blocks_of(ROOT / page)
    assert any(not block.not_run for block in blocks)
    for block in blocks:
        assert not block.not_run or len(block.not_run.split()) > 4, block


def _environment(clone: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("STERNA_", "COV_"))}
    return {**kept, "STERNA_HOME": str(clone / "home"), "PYTHONPATH": str(ROOT / "src")}
