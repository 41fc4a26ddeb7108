"""The log of epochs: one header, one row an epoch, whatever happens to the process, the disk or the file."""

import csv
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sterna.model.epochs import summary_of
from sterna.training import epoch_log
from sterna.training.epoch_log import EpochLog, keras_callback, path_from
from sterna.wire.epoch_csv import read_epochs
from tests.needs import needs

TRAINER = Path(__file__).with_name("trainer.py")
ROOT = Path(__file__).resolve().parents[3]


def train(path: Path, *, epochs: int, dies_in: int = -1) -> int:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, str(TRAINER), str(path), str(epochs), str(dies_in)]
    return subprocess.run(command, env=environment, check=False).returncode


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(path: Path) -> list[int]:
    return [int(row["epoch"]) for row in rows(path)]


def logged(path: Path, count: int) -> bytes:
    """A log of so many epochs, as the SDK writes it."""
    log = EpochLog(path, total_epochs=9, workers=1)
    for _ in range(count):
        log.end(loss=0.5)
    return path.read_bytes()


def test_voda_21_killed_in_epoch_3_and_started_again_it_has_every_epoch_once(tmp_path):
    path = tmp_path / "job.csv"
    assert train(path, epochs=6, dies_in=3) == -signal.SIGKILL
    assert path.read_text().splitlines()[-1] == "3,0.01,32"
    assert EpochLog(path).next_epoch == 3
    assert train(path, epochs=6) == 0
    assert numbers(path) == [0, 1, 2, 3, 4, 5]
    lines = path.read_text().splitlines()
    assert lines[0] == (
        "epoch,accuracy,epoch_time_sec,global_batch_size,local_batch_size,loss,start_time,step_time_sec,"
        "total_epochs,workers"
    )
    assert len(lines) == 7
    log = read_epochs(path.read_text())
    assert (len(log.epochs), log.epochs_total) == (6, 6)
    summary = summary_of(log.epochs, epochs_total=6)
    assert (summary.last_epoch, summary.remaining_epochs, list(summary.epoch_s)) == (5, 0, [2])
    assert summary.epoch_s[2] == pytest.approx(4 * summary.step_s[2])


def test_voda_21_killed_in_every_epoch_it_still_has_every_epoch_once(tmp_path):
    path = tmp_path / "job.csv"
    for epoch in range(1, 4):
        assert train(path, epochs=4, dies_in=epoch) == -signal.SIGKILL
        assert EpochLog(path).next_epoch == epoch, "an epoch that was not finished is trained again"
    assert train(path, epochs=4) == 0
    assert numbers(path) == [0, 1, 2, 3]


def test_voda_21_wherever_the_last_row_was_cut_the_log_goes_on_without_gap_or_repetition(tmp_path):
    whole = logged(tmp_path / "whole.csv", 3)
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    for cut in range(start, len(whole)):
        path = tmp_path / "cut.csv"
        path.write_bytes(whole[:cut])
        log = EpochLog(path, total_epochs=9)
        assert log.next_epoch == 2
        log.end(loss=0.25)
        assert numbers(path) == [0, 1, 2]
        assert rows(path)[2]["loss"] == "0.25"


def test_voda_21_wherever_the_header_was_cut_it_is_written_once(tmp_path):
    whole = logged(tmp_path / "whole.csv", 1)
    header = whole[: whole.index(b"\n") + 1]
    for cut in range(len(header) + 1):
        path = tmp_path / "cut.csv"
        path.write_bytes(header[:cut])
        EpochLog(path, total_epochs=9).end(loss=0.5)
        assert path.read_bytes().startswith(header)
        assert numbers(path) == [0]


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(b"\0" * 40, id="zeros after a loss of power"),
        pytest.param(b"7\n", id="a line that is too short"),
        pytest.param(b'"3,0.5\n', id="an open quote"),
        pytest.param(b"\xff\xfe\n", id="bytes that are no text"),
    ],
)
def test_voda_21_what_else_may_stand_at_the_end_is_cut_off(tmp_path, left):
    path = tmp_path / "job.csv"
    path.write_bytes(logged(path, 2) + left)
    log = EpochLog(path)
    log.end(loss=0.125)
    assert numbers(path) == [0, 1, 2]


def test_an_epoch_that_was_trained_again_is_not_written_again(tmp_path):
    """Its row was there, the checkpoint after it was not."""
    path = tmp_path / "job.csv"
    before = logged(path, 3)
    log = EpochLog(path, total_epochs=9)
    log.end(2, loss=99.0)
    assert path.read_bytes() == before
    log.end(3, loss=0.1)
    assert numbers(path) == [0, 1, 2, 3]


def test_two_that_both_take_themselves_for_rank_0_write_no_epoch_twice(tmp_path):
    path = tmp_path / "job.csv"
    one, other = EpochLog(path), EpochLog(path)
    for _ in range(3):
        one.end(loss=1.0)
        other.end(loss=2.0)
    assert numbers(path) == [0, 1, 2]


def test_only_rank_0_writes_and_who_that_is_may_change(tmp_path):
    path = tmp_path / "job.csv"
    rank, workers = 1, 2
    log = EpochLog(path, rank=lambda: rank, workers=lambda: workers)
    log.end()
    assert not path.exists()
    rank, workers = 0, 4
    log.end()
    assert [(row["epoch"], row["workers"]) for row in rows(path)] == [("1", "4")]


def test_a_new_metric_finds_no_column_and_a_missing_one_is_not_available(tmp_path, caplog):
    path = tmp_path / "job.csv"
    logged(path, 1)
    EpochLog(path).end(accuracy=0.5)
    assert rows(path)[1]["loss"] == "NA"
    assert "accuracy" not in path.read_text()
    assert "has no column for accuracy" in caplog.text


def test_training_goes_on_when_the_log_cannot_be_written_and_the_row_comes_later(tmp_path, caplog):
    directory = tmp_path / "metrics"
    directory.write_text("in the way of a directory")
    log = EpochLog(directory / "job.csv", total_epochs=3)
    log.end(loss=1.0)
    log.end(loss=0.5)
    assert caplog.text.count("not written") == 1
    directory.unlink()
    log.end(loss=0.25)
    assert [row["loss"] for row in rows(directory / "job.csv")] == ["1.0", "0.5", "0.25"]


def test_a_file_that_is_no_log_is_left_alone(tmp_path, caplog):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\nnothing happened\n")
    with caplog.at_level(logging.WARNING):
        EpochLog(path).end(loss=1.0)
    assert path.read_text() == "dear diary\nnothing happened\n"
    assert "left alone" in caplog.text


def test_an_epoch_that_is_never_ended_does_not_go_unnoticed(tmp_path):
    with pytest.raises(ValueError, match="epoch 0 was not ended"):
        list(EpochLog(tmp_path / "job.csv", total_epochs=2).epochs())


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        pytest.param({}, None, id="nobody asks for a log"),
        pytest.param({"JOB_NAME": "mnist-20220101-010203"}, "mnist-20220101-010203.csv", id="as Voda says it"),
        pytest.param({"JOB_NAME": "../etc/passwd"}, None, id="a name that leads elsewhere"),
        pytest.param({"JOB_NAME": "a", "STERNA_EPOCH_LOG": "/x/b.csv"}, "/x/b.csv", id="said outright"),
    ],
)
def test_where_the_log_is(tmp_path, monkeypatch, environment, name):
    monkeypatch.setattr(epoch_log, "DIRECTORY", tmp_path)
    assert path_from(environment) == (None if name is None else tmp_path / name)


def test_without_a_log_epochs_count_from_nought_and_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.delenv("STERNA_EPOCH_LOG", raising=False)
    monkeypatch.delenv("JOB_NAME", raising=False)
    monkeypatch.setenv("EPOCHS", "3")
    monkeypatch.chdir(tmp_path)
    log = EpochLog()
    trained = []
    for epoch in log.epochs():
        trained.append(epoch)
        log.end(loss=1.0)
    assert trained == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")
def test_voda_21_keras_fits_on_where_the_log_ends(tmp_path):
    keras, numpy = needs("keras"), needs("numpy")
    path = tmp_path / "job.csv"

    def fit(epochs: int) -> Any:
        log = EpochLog(path, total_epochs=4, workers=1)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
        data = numpy.ones((8, 3)), numpy.ones((8, 1))
        model.fit(
            *data, batch_size=2, initial_epoch=log.next_epoch, epochs=epochs, callbacks=[keras_callback(log)], verbose=0
        )

    fit(2)
    fit(4)
    assert numbers(path) == [0, 1, 2, 3]
    assert all(float(row["loss"]) >= 0 and float(row["mae"]) >= 0 for row in rows(path))
    epochs = read_epochs(path.read_text()).epochs
    assert all(epoch.took_s == pytest.approx(4 * epoch.step_s) for epoch in epochs)


def test_a_callback_without_keras_says_what_would_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", None)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(RuntimeError, match="import keras"):
        keras_callback(EpochLog(tmp_path / "job.csv"))
