"""Promises about the repository itself: which way imports point, that links lead somewhere, that pages stand alone."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def test_imports_point_one_way():
    script = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    outcome = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_module_says_what_lives_in_it():
    silent = [str(path.relative_to(ROOT)) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_page_or_module_names_a_machine():
    paths = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/")
    found = [str(path.relative_to(ROOT)) for path in (*SOURCES, *PAGES) if paths.search(path.read_text())]
    assert found == []


def test_the_subject_of_a_sentence_is_named():
    """A job, a worker, a user or an operator: a reader who must guess which one is meant may guess wrongly."""
    nameless = re.compile(r"\b(whoever|somebody|nobody|everybody|anybody)\b", re.IGNORECASE)
    places = [path for path in (*SOURCES, *PAGES) if nameless.search(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in places] == []


def test_the_machine_that_accepts_changes_can_run_its_script():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "STERNA_REQUIRE=1" in script.read_text()


def test_every_policy_has_its_page():
    from sterna.policies.registry import ENTRIES

    missing = [entry.name for entry in ENTRIES if not (ROOT / "docs" / "policies" / f"{entry.name}.md").exists()]
    assert missing == []
