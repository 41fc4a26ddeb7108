"""A worker's last word: small enough for the kubelet, whole whenever somebody is killed, and read as any status is."""

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.protocol import LAST_WORD_BYTES_MAX, CommittedCheckpoint, Status, WorkerPhase, write_last_word
from sterna.protocol.messages import NUMBER_MAX

FULL = Status(
    pid=7,
    phase=WorkerPhase.COMMITTED,
    ack=3,
    world_size=4,
    step=120,
    epoch=2,
    units_done=120.0,
    units_total=4_000.0,
    step_s=0.25,
    metrics={"loss": 0.5, "accuracy": 0.75},
    restored_step=60,
    first_step_mono_s=1_000.0,
    last_step_mono_s=1_030.0,
    save_s=1.5,
    load_s=0.5,
    checkpoint=CommittedCheckpoint(
        generation=9, step=120, bytes=1 << 30, digest="a" * 64, stall_s=0.1, at_mono_s=1_031.0
    ),
    samples=7_680,
    first_step_wall_s=1.7e9,
    stopped_wall_s=1.7e9 + 30,
    problem="something to know",
)


def read_back(path: Path) -> Status:
    content = path.read_bytes()
    assert len(content) <= LAST_WORD_BYTES_MAX <= 4096
    status = Status.from_json(content)
    assert status is not None, content
    return status


@pytest.mark.parametrize(
    "status", [FULL, Status(pid=1, phase=WorkerPhase.FINISHED)], ids=["everything", "next to nothing"]
)
def test_what_fits_is_read_back_as_it_was(tmp_path, status):
    write_last_word(tmp_path / "termination-log", status)
    assert read_back(tmp_path / "termination-log") == status


def test_metrics_are_left_out_first_those_reported_last_before_the_others(tmp_path):
    many = {f"metric {number}": number / 3 for number in range(256)}
    write_last_word(tmp_path / "word", replace(FULL, metrics=many))
    status = read_back(tmp_path / "word")
    assert replace(status, metrics={}) == replace(FULL, metrics={})
    assert 10 < len(status.metrics) < 256
    assert list(status.metrics.items()) == list(many.items())[: len(status.metrics)]


def test_a_long_problem_keeps_its_beginning_and_costs_nothing_else(tmp_path):
    write_last_word(tmp_path / "word", replace(FULL, problem="é" * 2_000))
    status = read_back(tmp_path / "word")
    assert status.problem
    assert set(status.problem) == {"é"}
    assert replace(status, problem=None, metrics={}) == replace(FULL, problem=None, metrics={})


@given(
    problem=st.none() | st.text(max_size=2_000),
    metrics=st.dictionaries(st.text(max_size=128), st.floats(), max_size=40),
    step=st.integers(0, 10**18),
)
def test_it_always_fits_and_is_always_understood(problem, metrics, step):
    status = replace(FULL, problem=problem, metrics=metrics, step=step)
    text = status.to_compact_json(bytes_max=LAST_WORD_BYTES_MAX)
    assert len(text.encode()) <= LAST_WORD_BYTES_MAX
    read = Status.from_json(text)
    assert read is not None
    assert read.step == step
    assert (status.problem or "").startswith(read.problem or "")
    for name, value in read.metrics.items():
        said = metrics[name] if abs(metrics[name]) <= NUMBER_MAX else math.copysign(math.inf, metrics[name])
        assert value == said or (math.isnan(value) and math.isnan(metrics[name]))


def test_a_shorter_word_replaces_a_longer_one_in_the_same_file(tmp_path):
    """The kubelet has bound this very file into the container: it cannot be replaced by another."""
    path = tmp_path / "word"
    write_last_word(path, FULL)
    inode = path.stat().st_ino
    write_last_word(path, Status(pid=1, phase=WorkerPhase.FINISHED))
    assert path.stat().st_ino == inode
    assert read_back(path) == Status(pid=1, phase=WorkerPhase.FINISHED)


def test_a_process_killed_right_after_the_write_has_left_a_whole_word(tmp_path, monkeypatch):
    path = tmp_path / "word"
    write_last_word(path, FULL)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "ftruncate", killed)
    with pytest.raises(KeyboardInterrupt):
        write_last_word(path, Status(pid=1, phase=WorkerPhase.FINISHED))
    assert read_back(path) == Status(pid=1, phase=WorkerPhase.FINISHED)
