"""`sterna top` under the keys of a user: a pure view, and a real terminal in front of a real process."""

import os
import pty
import select
import subprocess
import time
from datetime import UTC, datetime

import pytest

from sterna.interfaces.cli.top_view import TopView
from tests.interfaces.service.serving import COMMAND, SOON_S, manifest, service

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def job(name: str, phase: str = "Running", **more):
    return {"id": f"default/{name}", "name": name, "phase": phase, "submittedAt": "2030-01-01T10:00:00Z", **more}


JOBS = [
    job("c", "Waiting", submittedAt="2030-01-01T09:00:00Z", reason="NoRoom"),
    job("b", workers={"current": 1}, progress=0.9),
    job("a", workers={"current": 4}, progress=0.1),
    job("old", "Failed", finishedAt="2030-01-01T11:00:00Z"),
    job("new", "Succeeded", finishedAt="2030-01-01T11:59:00Z"),
]


def names(view: TopView) -> str:
    return " ".join(each["name"] for each in view.chosen(JOBS, NOW))


def after(keys: str) -> TopView:
    view = TopView()
    for key in keys:
        view = view.after(key)
    return view


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param("", "a b c new", id="by state, and what ended a while ago is hidden"),
        pytest.param("s", "a b c new", id="by name"),
        pytest.param("ss", "c a b new", id="by age, oldest first"),
        pytest.param("sss", "a b c new", id="by size, largest first"),
        pytest.param("ssss", "b a c new", id="by progress, furthest first"),
        pytest.param("sssss", "a b c new", id="and round again"),
        pytest.param("a", "a b c old new", id="with all that ended"),
        pytest.param("aa", "a b c new", id="and without again"),
        pytest.param("/wait\r", "c", id="filtered by state"),
        pytest.param("/NOROOM", "c", id="filtered by reason while it is typed, whatever the case"),
        pytest.param("/bx\x7f\r", "b", id="a typing mistake is rubbed out"),
        pytest.param("/b\x1b", "a b c new", id="escape clears the filter"),
        pytest.param("/b\r\x1b", "a b c new", id="also later"),
        pytest.param("/q\rs", "", id="a letter of the filter is no key"),
        pytest.param("zé?", "a b c new", id="other keys do nothing"),
    ],
)
def test_keys_choose_which_jobs_are_shown_and_in_which_order(keys, expected):
    assert names(after(keys)) == expected


def test_the_line_below_says_what_keys_do():
    assert after("").legend == "q quit  s sort: state  / filter  a all ended"
    assert after("s/ab\ra").legend == "q quit  s sort: name  / filter [ab]  a hide ended"
    assert after("/ab").legend.startswith("filter: ab_")
    assert after("q").is_left


def test_a_user_at_a_real_terminal_sorts_filters_and_leaves(tmp_path, monkeypatch):
    monkeypatch.setenv("STERNA_HOME", str(tmp_path / "home"))
    with service(tmp_path / "home") as running:
        running.client.submit(manifest("lion"))
        running.client.submit(manifest("tiger"))
        ours, theirs = pty.openpty()
        command = [*COMMAND, "top", "--interval", "60s"]  # so that what follows is drawn for a key
        child = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "70"}
        )
        os.close(theirs)
        try:
            assert "sort: state" in shown(ours, until="tiger")
            os.write(ours, b"s")
            shown(ours, until="sort: name")
            os.write(ours, b"/")
            shown(ours, until="filter: _")
            os.write(ours, b"l")
            assert "1 job not shown" in shown(ours, until="filter: l_")
            os.write(ours, b"\r")
            shown(ours, until="filter [l]")
            os.write(ours, b"q")
            assert child.wait(SOON_S) == 0
        finally:
            child.kill()
            child.wait()
            os.close(ours)


def shown(terminal: int, *, until: str) -> str:
    """What the terminal shows until these words come, with them and what is drawn along with them."""
    deadline_s, text = time.monotonic() + SOON_S, ""
    while until not in text or select.select([terminal], [], [], 0.2)[0]:
        assert time.monotonic() < deadline_s, text
        if select.select([terminal], [], [], 0.5)[0]:
            text += os.read(terminal, 65536).decode("utf-8", errors="replace")
    return text
