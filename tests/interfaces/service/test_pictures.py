"""Tables, spans and the live picture, from records written out by hand."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from sterna.interfaces.cli.top import Rates, drawn
from sterna.interfaces.reports.announcement import announcement_text
from sterna.interfaces.reports.grid import one_line, safe
from sterna.interfaces.reports.screen import Mark, node_bar, progress_bar, summary
from sterna.interfaces.reports.spans import age_s, clock_span, share, short_span, size

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def job(name: str, phase: str = "Running", *, workers: int = 1, gpus: float | None = None, **more):
    return {
        "id": f"default/{name}",
        "name": name,
        "namespace": "default",
        "phase": phase,
        "reason": "NextInOrder",
        "message": "",
        "workers": {"current": workers, "min": 1, "max": 4},
        "gpus": workers if gpus is None else gpus,
        "submittedAt": "2030-01-01T11:00:00Z",
        "progress": 0.5,
        "step": 10,
        **more,
    }


def node(name: str = "node-1", *, gpus: float = 4, used: float = 0, workers: tuple[str, ...] = (), **more):
    return {
        "name": name,
        "ready": True,
        "schedulable": True,
        "virtual": True,
        "gpus": gpus,
        "cpuMilli": 4000,
        "memoryBytes": 8 << 30,
        "used": {"gpus": used, "cpuMilli": 0, "memoryBytes": 0},
        "workers": list(workers),
        **more,
    }


def picture(jobs, nodes, *, encoding: str = "utf-8", width: int = 140) -> str:
    sink = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=sink, width=width, no_color=True).print(drawn(jobs, nodes, {"default/a": 12.34}))
    sink.flush()
    return bytes(sink.buffer.getvalue()).decode(encoding)


@pytest.mark.parametrize(
    ("seconds", "clock", "short"),
    [
        (None, "-", "-"),
        (0, "0s", "0s"),
        (0.31, "0s", "0.31s"),
        (3.4, "3s", "3.4s"),
        (59.6, "1m0s", "1m"),
        (61, "1m1s", "1m1s"),
        (3723, "1h2m3s", "1h2m"),
        (90061, "25h1m1s", "1d1h"),
        (-5, "0s", "0s"),
    ],
)
def test_lengths_of_time(seconds, clock, short):
    assert (clock_span(seconds), short_span(seconds)) == (clock, short)


def test_other_amounts():
    assert [size(value) for value in (None, 0, 1536, 5 << 30)] == ["-", "0 B", "1.5 KiB", "5 GiB"]
    assert [share(value) for value in (None, 0.0, 0.42, 0.999, 1.0)] == ["-", "0%", "42%", "99%", "100%"]
    assert age_s("2030-01-01T11:59:00Z", NOW) == 60
    assert (age_s("soon", NOW), age_s(None, NOW), age_s("2031-01-01T00:00:00Z", NOW)) == (None, None, 0)


def test_words_of_others_cannot_steer_a_terminal():
    assert one_line("a\x1b[2J\nb\tc\x9b") == "a�[2J b c�"
    assert safe("line\nline") == "line\nline"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param(node(), "················", id="an idle node"),
        pytest.param(node(used=1, workers=("default/a/w0",)), "aaaa············", id="one worker of four GPUs"),
        pytest.param(node(used=3, workers=("default/b/w0", "default/a/w0")), "aaaabbbbbbbb····", id="two jobs"),
        pytest.param(node(gpus=64, used=2, workers=("default/b/w0",)), "b" + "·" * 31, id="more GPUs than cells"),
        pytest.param(node(gpus=0, workers=()), "················", id="CPUs where there are no GPUs"),
        pytest.param(node(used=4, workers=("default/gone/w0",)), "?" * 16, id="a job that is already gone"),
        pytest.param(node(gpus=1, used=1, workers=("default/b/w0",) * 9), "bbbb", id="never longer than the node"),
    ],
)
def test_a_node_is_a_bar_that_its_workers_fill(nodes, expected):
    jobs = {"default/a": job("a"), "default/b": job("b", gpus=2)}
    marks = {"default/a": Mark("a", "red"), "default/b": Mark("b", "blue")}
    assert node_bar(nodes, jobs, marks).plain == expected


@pytest.mark.parametrize(
    ("done", "expected"), [(None, "-"), (0, "····"), (0.5, "██··"), (0.99, "███·"), (1, "████"), (7, "████")]
)
def test_progress_is_full_only_when_it_is(done, expected):
    assert progress_bar(done, cells=4) == expected


def test_the_summary_counts():
    assert summary([], []) == "0 nodes, 0 of 0 CPUs in use; 0 jobs"
    told = summary([job("a"), job("b", "Waiting")], [node(used=1), node("node-2", used=2)])
    assert told == "2 nodes, 3 of 8 GPUs in use; 2 jobs: 1 running, 1 waiting"


@pytest.mark.parametrize("width", [60, 70, 80, 110, 160])
def test_the_picture_keeps_to_its_width_and_loses_the_least_telling_columns_first(width):
    waiting = job("a-job-with-a-long-name", "Waiting", workers=0, message="needs 8 GPUs on one node; 3 are free")
    nodes = [node(f"node-{n}", gpus=8, used=8, workers=("default/a/w0",)) for n in range(3)]
    text = picture([job("a"), waiting], nodes, width=width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "needs 8" in text
    assert "Running" in text
    assert ("STEP " in text) == (width >= 80), text
    assert ("GROWTH" in text) == (width >= 110), text


def test_the_picture_has_nodes_bars_progress_speed_and_reasons():
    waiting = job("b", "Waiting", workers=0, message="needs 8 GPUs; 3 are free", step=None, progress=None)
    nodes = [node(used=1, workers=("default/a/a-worker-0-abcde",)), node("node-2", schedulable=False)]
    text = picture([waiting, job("a", remainingSeconds=75)], nodes)
    lines = [line.split() for line in text.splitlines()]
    assert ["node-1", "aaaa············", "1/4", "0/4", "1"] in lines
    assert ["node-2", "················", "0/4", "0/4", "0", "drained"] in lines
    bar = "█" * 10 + "·" * 10
    assert ["a", "a", "Running", "1/1-4", bar, "50%", "10", "12.3", "1m15s", "-", "NextInOrder"] in lines
    assert text.index("Running") < text.index("Waiting")
    assert "needs 8 GPUs; 3 are free" in text


def test_the_picture_is_drawn_where_only_plain_letters_are():
    text = picture([job("a")], [node(used=1, workers=("default/a/w",))], encoding="ascii")
    assert "##########.........." in text


def test_a_long_list_says_what_it_leaves_out():
    text = picture([job(f"j{number:03}", "Succeeded") for number in range(60)], [])
    assert "and 20 more" in text


def test_speed_is_seen_from_look_to_look():
    rates = Rates()
    assert rates.of([job("a", step=10)], 0.0) == {}
    assert rates.of([job("a", step=30)], 2.0) == {"default/a": 10.0}
    assert rates.of([job("a", step=5)], 3.0) == {}
    assert rates.of([job("a", step=None)], 4.0) == {}


def test_the_start_says_where_with_what_and_which_limits_are_real():
    health = {"version": "1.2", "limits": "memory: cgroup\nCPU quota: NOT enforced", "jobs": {"Running": 2}}
    nodes = [node(f"node-{number}", limits="GPUs are names only") for number in range(1, 7)]
    policy = {"policy": "las", "settings": {"demote": "jump"}, "placement": "packed", "rateLimitSeconds": 5}
    assert announcement_text(health, nodes, policy, url="http://127.0.0.1:1", home="/x").splitlines() == [
        "sterna 1.2  is up at http://127.0.0.1:1",
        "home        /x",
        "nodes       node-1, node-2, node-3, node-4 and 2 more: virtual, each 4 GPUs, 4 CPUs, 8 GiB",
        "policy      las, demote=jump, placement packed, at most one decision in 5 s",
        "limits      memory: cgroup",
        "            CPU quota: NOT enforced",
        "            GPUs are names only",
        "jobs        found again: 2 Running",
        "Submit with `sterna submit -f FILE`; stop with Ctrl-C or `sterna down`.",
    ]
