"""From a training log to means, speed-up and times: the collector's arithmetic, without its traps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.model.epochs import model_of, summary_of
from sterna.model.errors import InvalidRequest
from sterna.wire.epoch_csv import read_epochs

HEADER = "epoch,epoch_time_sec,loss,start_time,step_time_sec,total_epochs,workers"
LOG = f"""{HEADER}
0,80.0,2.3,2022-01-01 00:00:00.500000,0.8,10,1
1,70.0,2.1,2022-01-01 00:01:20.500000,0.7,10,1
2,40.0,1.9,2022-01-01 00:03:00,0.4,10,2
3,20.0,1.8,2022-01-01 00:04:10,0.2,10,4
4,30.0,1.7,2022-01-01 00:04:30.000001,0.3,10,4
"""


def test_voda_20_a_log_with_one_two_and_four_workers_gives_exact_numbers():
    log = read_epochs(LOG)
    assert log.epochs_total == 10
    summary = summary_of(log.epochs, epochs_total=10)
    assert summary.epoch_s == {1: 75.0, 2: 40.0, 4: 25.0}
    assert summary.step_s == {1: 0.75, 2: 0.4, 4: 0.25}
    assert summary.speedup == {1: 1.0, 2: 1.875, 4: 3.0}
    assert summary.efficiency == {1: 1.0, 2: 0.9375, 4: 0.75}
    assert (summary.last_epoch, summary.remaining_epochs, summary.remaining_s) == (4, 5, 375.0)
    assert summary.running_s == 240.0
    assert summary.gpu_s == 150.0 + 80.0 + 200.0
    assert summary.elapsed_s == pytest.approx(269.500001 + 30.0, abs=1e-6)
    assert summary.waiting_s == pytest.approx(59.500001, abs=1e-6)


def test_voda_20_times_without_microseconds_parse():
    whole, fraction = read_epochs(LOG).epochs[2:4], read_epochs(LOG.replace(":00,", ":00.000000,")).epochs[2:4]
    assert whole == fraction


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("5,NA,1.6,2022-01-01 00:06:00,0.3,10,4", id="a value that is not available"),
        pytest.param("5,,1.6,2022-01-01 00:06:00,0.3,10,4", id="an empty value"),
        pytest.param("5,nan,1.6,2022-01-01 00:06:00,0.3,10,4", id="not a number"),
        pytest.param("5,30.0,1.6,2022-01", id="a line that is still being written"),
        pytest.param(HEADER, id="the header, written again after a restart"),
        pytest.param("", id="an empty line"),
    ],
)
def test_voda_20_rows_that_are_not_complete_are_skipped(row):
    assert read_epochs(LOG + row + "\n") == read_epochs(LOG)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        pytest.param("5,30.0,1.6,yesterday,0.3,10,4", "line 7, start_time", id="no time"),
        pytest.param("5,fast,1.6,2022-01-01 00:06:00,0.3,10,4", "line 7, epoch_time_sec", id="no number"),
        pytest.param("5,-3,1.6,2022-01-01 00:06:00,0.3,10,4", "line 7, epoch_time_sec", id="a negative time"),
        pytest.param("5,inf,1.6,2022-01-01 00:06:00,0.3,10,4", "line 7, epoch_time_sec", id="an endless epoch"),
        pytest.param("5,30.0,1.6,2022-01-01 00:06:00,0.3,10,0", "line 7, workers", id="no workers"),
        pytest.param("5.5,30.0,1.6,2022-01-01 00:06:00,0.3,10,4", "line 7, epoch", id="half an epoch"),
    ],
)
def test_voda_20_a_complete_row_that_makes_no_sense_is_named(row, field):
    with pytest.raises(InvalidRequest, match=field):
        read_epochs(LOG + row + "\n")


def test_voda_20_a_log_without_the_needed_columns_says_which():
    with pytest.raises(InvalidRequest, match="columns workers, start_time"):
        read_epochs("epoch,epoch_time_sec,step_time_sec\n")


@pytest.mark.parametrize("text", ["", "\x00", '"', "a" * 200_000, '"' + "x" * 200_000], ids=range(5))
def test_what_is_no_log_at_all_is_refused(text):
    with pytest.raises(InvalidRequest):
        read_epochs(text)


def test_voda_20_a_log_of_a_job_that_has_just_begun_has_no_epochs_and_no_summary():
    log = read_epochs(HEADER + "\n")
    assert log.epochs == ()
    assert log.epochs_total is None
    with pytest.raises(InvalidRequest):
        summary_of(log.epochs, epochs_total=10)


def test_voda_20_where_one_worker_was_never_seen_speedup_is_counted_from_what_is_expected():
    only_two = [row for row in read_epochs(LOG).epochs if row.workers == 2]
    summary = summary_of(only_two, epochs_total=10)
    assert 1.0 < summary.speedup[2] <= 2.0
    assert 40.0 * 7 < summary.remaining_s <= 80.0 * 7


@given(st.lists(st.tuples(st.integers(1, 16), st.floats(0.01, 1e4)), min_size=1, max_size=12))
def test_voda_20_sparse_counts_give_a_monotone_curve_that_never_beats_linear(epochs):
    rows = "".join(f"{i},{took!r},1,2022-01-01 00:00:00,0.1,99,{workers}\n" for i, (workers, took) in enumerate(epochs))
    curve = model_of(read_epochs(f"{HEADER}\n{rows}").epochs).curve(20)
    for workers in range(1, 20):
        assert curve.unit_s(workers + 1) <= curve.unit_s(workers) * (1 + 1e-9)
        assert curve.speedup(workers) <= workers * (1 + 1e-9)
