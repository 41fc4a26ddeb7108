"""Generated pages say what the code says, and the checked-in ones are the generated ones."""

from pathlib import Path

import pytest

from sterna.interfaces.reference.blocks import filled
from sterna.interfaces.reference.commands import commands_page
from sterna.interfaces.reference.pages import generated
from sterna.model.errors import InvalidRequest
from sterna.model.why import Why

DOCS = Path(__file__).parents[2] / "docs"


def test_checked_in_pages_are_what_the_code_would_write():
    stale = [
        str(path.relative_to(DOCS))
        for path, content in generated(DOCS).items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]
    assert stale == [], "run `make docs`"


def test_every_command_and_every_reason_is_documented():
    page = commands_page()
    documented = [line.removeprefix("## sterna ") for line in page.splitlines() if line.startswith("## sterna ")]
    assert documented == sorted(documented)
    assert set(documented) >= {
        *("compare", "decide", "generate", "models", "policies", "replay", "simulate", "traces", "version"),
        *("up", "down", "submit", "create", "get", "describe", "logs", "events", "explain", "top", "wait"),
        *("scale", "migrate", "drain", "uncordon", "suspend", "resume", "delete", "policy"),
    }
    assert "| `JOB` | A job: NAME, or NAMESPACE/NAME. | needed |" in page
    assert "| `--prefix/--no-prefix` |" in page
    assert "| `--nodes` NUMBER | Nodes in the cluster. | 16 |" in page
    reasons = (DOCS / "reference" / "reasons.md").read_text(encoding="utf-8")
    assert all(f"`{why}`" in reasons for why in Why)


def test_a_block_is_replaced_and_the_rest_left_alone():
    page = "before\n<!-- begin x -->\nold\n<!-- end x -->\nafter\n"
    assert filled(page, "x", "new\n") == "before\n<!-- begin x -->\nnew\n<!-- end x -->\nafter\n"
    assert filled(filled(page, "x", "new"), "x", "new") == filled(page, "x", "new")


def test_a_page_without_the_block_is_refused():
    with pytest.raises(InvalidRequest, match="begin x"):
        filled("nothing here", "x", "new")
