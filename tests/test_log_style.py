"""Every call that logs has a fixed phrase, and everything else as keys, so that one line is like another."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "sterna"
LEVELS = dict.fromkeys(("debug", "info", "warning", "error", "exception", "critical"), 0) | {"log": 1}  # phrase's place
RESERVED = {*vars(logging.makeLogRecord({})), "message", "asctime", "time", "level", "logger", "error"}
FILES = sorted(path for path in SOURCE.rglob("*.py") if "training" not in path.relative_to(SOURCE).parts)


def calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id in ("log", "_LOG"):
                yield node


def faults(call: ast.Call) -> Iterator[str]:
    assert isinstance(call.func, ast.Attribute)
    before = LEVELS[call.func.attr]
    phrases = call.args[before:]
    choices = [each for phrase in phrases for each in _choices(phrase)]
    if len(phrases) != 1 or not all(isinstance(each, ast.Constant) for each in choices):
        yield "the phrase is not fixed"
    for each in choices:
        text = str(each.value) if isinstance(each, ast.Constant) else ""
        if any(sign in text for sign in "%={:\n") or text[-1:] == ".":
            yield f"{text!r} holds a value, or is more than a phrase"
    for keyword in call.keywords:
        if keyword.arg not in ("extra", "exc_info"):
            yield f"{keyword.arg} is neither extra nor exc_info"
        if isinstance(keyword.value, ast.Dict):
            for key in keyword.value.keys:
                if isinstance(key, ast.Constant) and key.value in RESERVED:
                    yield f"{key.value!r} is a name of logging's own"


def _choices(phrase: ast.expr) -> list[ast.expr]:
    return [phrase.body, phrase.orelse] if isinstance(phrase, ast.IfExp) else [phrase]


def test_there_are_calls_to_look_at():
    assert sum(1 for path in FILES for _ in calls(path)) > 50


@pytest.mark.parametrize("path", [path for path in FILES if any(True for _ in calls(path))], ids=lambda path: path.stem)
def test_a_phrase_is_fixed_and_values_are_keys(path):
    assert [f"line {call.lineno}: {fault}" for call in calls(path) for fault in faults(call)] == []
