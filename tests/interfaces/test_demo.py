"""The demo's story, picture and report, on a clock that the test moves. The real thing is `tests/e2e/test_wheel.py`."""

import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from typing import Any

import pytest

from sterna.interfaces.demo.play import Play, Seen
from sterna.interfaces.demo.report import figures, page, picture, text_report, went_well
from sterna.interfaces.demo.story import CUES, DRAIN, GIVES_UP_AFTER_S, manifest
from sterna.interfaces.plots.gpu_slots import Mark, Stretch, timeline_plot
from sterna.wire.manifests import read_manifests

Record = dict[str, Any]


class Stage:
    """An engine that runs every job for as long as it is told to, and remembers what was asked of it."""

    def __init__(self, *, lasts_s: float) -> None:
        self.now_s, self._lasts_s = 0.0, lasts_s
        self.asked: list[tuple[float, str]] = []
        self._since_s: dict[str, float] = {}

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def submit(self, manifest: str, *, cwd: str) -> list[Record]:
        (document,) = read_manifests(manifest)
        self._since_s[document.workload.name] = self.now_s
        self.asked.append((self.now_s, document.workload.name))
        return []

    def jobs(self) -> list[Record]:
        return [self.job(name) for name in self._since_s]

    def job(self, job_id: str) -> Record:
        name = job_id.removeprefix("default/")
        done = self.now_s - self._since_s[name] > self._lasts_s
        times = {"waitingSeconds": 1.0, "runningSeconds": 2.0, "message": ""}
        counts = {"step": 10, "resizes": 1, "migrations": 0, "stepsLost": 0, "restarts": 0}
        history = [{"kind": "resize", "downtimeSeconds": 0.5}]
        phase = "Succeeded" if done else "Running"
        return {"id": f"default/{name}", "name": name, "phase": phase, "history": history, **times, **counts}

    def nodes(self) -> list[Record]:
        live = [job["id"] for job in self.jobs() if job["phase"] == "Running"]
        return [{"name": "node-1", "gpus": 2, "workers": [f"{job}/{job[8:]}-worker-0-abcde" for job in live]}]

    def events(self, job_id: str | None = None, *, after: int = 0) -> list[Record]:
        return []

    def migrations(self, job_id: str | None = None) -> list[Record]:
        return [{"phase": "Succeeded", "downtimeSeconds": 0.2}, {"phase": "Refused", "downtimeSeconds": None}]

    def drain(self, node: str) -> Record:
        self.asked.append((self.now_s, f"drain {node}"))
        return {}

    def uncordon(self, node: str) -> Record:
        self.asked.append((self.now_s, f"uncordon {node}"))
        return {}


def played(*, lasts_s: float) -> tuple[Stage, Seen]:
    stage = Stage(lasts_s=lasts_s)
    play = Play(
        engine=stage,
        python="python",
        script="train.py",
        cwd=".",
        on_events=lambda now_s, events: None,
        on_look=lambda now_s, jobs, nodes: None,
        clock=stage.clock,
        sleep=stage.sleep,
    )
    return stage, play.run()


def test_every_cue_comes_in_its_turn_and_the_node_is_given_back():
    stage, seen = played(lasts_s=20)
    names = [name for _, name in stage.asked]
    node = f"node-{DRAIN.node}"
    assert names == [*(cue.name for cue in CUES), f"drain {node}", f"uncordon {node}"]
    assert seen.in_time
    assert [(mark.group, mark.label) for mark in seen.drained] == [(node, "drained")]


def test_a_play_that_does_not_end_is_given_up_and_said_to_be():
    _, seen = played(lasts_s=GIVES_UP_AFTER_S * 2)
    found = figures(seen)
    assert not found["finishedInTime"]
    assert not went_well(found)


def test_figures_count_what_was_seen():
    _, seen = played(lasts_s=20)
    found = figures(seen)
    assert (found["jobs"], found["succeeded"], found["stepsLost"], found["resizes"]) == (6, 6, 0, 6)
    assert (found["migrations"], found["migrationDowntimeSeconds"]["max"]) == (1, 0.2)
    assert went_well(found)
    assert "6 of 6 jobs finished" in text_report(found)
    shown = page(seen, found)
    assert "<dt>jobs finished</dt><dd>6 of 6</dd>" in shown
    assert "<pre>" not in shown
    assert shown.count("<tr>") == 2 + len(found["perJob"]) + len(found["changes"])


def test_no_two_workers_share_a_row_at_a_time():
    _, seen = played(lasts_s=20)
    by_row: dict[int, list[Stretch]] = {}
    for stretch in seen.stretches:
        by_row.setdefault(stretch.row, []).append(stretch)
    for stretches in by_row.values():
        ordered = sorted(stretches, key=lambda one: one.from_s)
        assert all(one.to_s <= other.from_s for one, other in pairwise(ordered))
    ElementTree.fromstring(picture(seen))


@pytest.mark.parametrize("cue", CUES, ids=lambda cue: cue.name)
def test_every_job_of_the_story_is_a_manifest_that_anybody_could_submit(cue):
    (document,) = read_manifests(manifest(cue, python="python", script="train.py"))
    assert (document.workload.workers_min, document.workload.workers_max) == (cue.workers_min, cue.workers_max)


@pytest.mark.parametrize(
    ("stretches", "marks"),
    [
        pytest.param([], [], id="nothing happened"),
        pytest.param([Stretch(1, "a<b>&c", 0, 5, "a<b>&c on x")], [], id="names that mean something to a browser"),
        pytest.param([Stretch(0, "a", 0, 1, "")], [Mark("x", 0, 9, "drained"), Mark("y", 1, 2, "z")], id="a drain"),
    ],
)
def test_a_timeline_is_a_picture_whatever_happened(stretches, marks):
    root = ElementTree.fromstring(timeline_plot({"x": 2}, stretches, marks, title="A & B"))
    assert root.tag.endswith("svg")
