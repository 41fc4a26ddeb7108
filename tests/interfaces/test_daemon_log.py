"""Lines of the log: a phrase and its keys, each record one line, whatever jobs are called."""

import json
import logging
import sys

import pytest

from sterna.interfaces.cli.daemon_log import JsonLines, TextLines

FORGED = "a\n2026-01-01T00:00:00.000Z INFO sterna: job stopped job=b"


def record(phrase: str = "job started", *, error: BaseException | None = None, **keys: object) -> logging.LogRecord:
    told = None if error is None else (type(error), error, None)
    made = logging.LogRecord("sterna.test", logging.INFO, "file.py", 1, phrase, (), told)
    made.created = 1_700_000_000.25
    vars(made).update(keys)
    return made


def test_a_line_is_a_phrase_and_its_keys():
    line = TextLines().format(record(job="ns/mnist", decision="d-1-17", took_ms=12))
    assert line == "2023-11-14T22:13:20.250Z INFO sterna.test: job started job=ns/mnist decision=d-1-17 took_ms=12"


def test_the_same_as_json():
    found = json.loads(JsonLines().format(record(job="ns/mnist", took_ms=12)))
    assert found == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "logger": "sterna.test",
        "message": "job started",
        "job": "ns/mnist",
        "took_ms": 12,
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("ns/mnist", "ns/mnist", id="a plain name"),
        pytest.param("", '""', id="nothing"),
        pytest.param("two words", '"two words"', id="a space"),
        pytest.param("a=b", '"a=b"', id="what looks like a key"),
        pytest.param('say "x"', r'"say \"x\""', id="quotes"),
        pytest.param("C:\\ x", r'"C:\\ x"', id="a backslash in quotes"),
        pytest.param("a\nb", r'"a\nb"', id="a line break"),
        pytest.param("a\rb", r'"a\rb"', id="a carriage return"),
        pytest.param("a\x1b[2Kb", r'"a\u001b[2Kb"', id="what paints on a terminal"),
        pytest.param("a\x7fb", r'"a\u007fb"', id="the delete sign"),
        pytest.param("a\x85b\u2028c", r'"a\u0085b\u2028c"', id="line breaks of other kinds"),
        pytest.param("a\u202eb", r'"a\u202eb"', id="what turns the direction of writing"),
        pytest.param("größe", "größe", id="letters of any language"),
        pytest.param(None, "None", id="no value"),
    ],
)
def test_a_value_is_shown_so_that_it_can_be_nothing_else(value, shown):
    assert TextLines().format(record(job=value)).endswith(f" job={shown}")


@pytest.mark.parametrize("form", [TextLines(), JsonLines()], ids=["text", "json"])
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(record(job=FORGED), id="a value"),
        pytest.param(record(FORGED), id="a message of another library"),
        pytest.param(record(error=ValueError(FORGED)), id="the message of an error"),
        pytest.param(record(error=ValueError("a\r" + FORGED + "\x85b\u2028c")), id="an error with odd line breaks"),
    ],
)
def test_no_text_can_forge_a_record(form, made):
    lines = form.format(made).splitlines()
    assert [line for line in lines if not line.startswith("    ")] == lines[:1]


def test_a_traceback_is_told_below_its_record():
    try:
        raise ValueError("no such thing")
    except ValueError as error:
        made = record("cycle failed", error=error)
        made.exc_info = sys.exc_info()
    first, *rest = TextLines().format(made).splitlines()
    assert first.endswith("cycle failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert rest[-1] == "    ValueError: no such thing"
    assert json.loads(JsonLines().format(made))["error"].endswith("ValueError: no such thing")
