"""What `run.report()` tells the node's monitor: every evaluation once, in order, whatever happens to the monitor."""

import math
import socket
import time
from pathlib import Path

import numpy
import pytest

from sterna.protocol import worker_environment
from sterna.training.reporting.monitor_link import KEPT_MAX
from tests.training.reporting.listener import listening


def test_evaluations_arrive_in_order_with_where_training_was(attach, monitor):
    run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="ns/job-worker-0", STERNA_MONITOR_TOKEN="abc")
    for _, number in run.steps(4, epochs=2):
        run.report(loss=1.0 / (number + 1), learning_rate=0.1)
    run.finish()
    reports = monitor.told(8)
    assert [report.value for report in reports] == [1.0, 1 / 2, 1 / 3, 1 / 4] * 2
    assert [report.step for report in reports] == list(range(8))
    assert [report.epoch for report in reports] == [0] * 4 + [1] * 4
    assert {(report.pod, report.metric, report.workers) for report in reports} == {("ns/job-worker-0", "loss", 1)}
    assert {report.units_total for report in reports} == {8.0}
    assert [report.seq for report in reports] == sorted({report.seq for report in reports})
    assert set(monitor.paths) == {"/reports"}
    assert set(monitor.tokens) == {"Bearer abc"}


def test_one_connection_is_kept(attach, monitor):
    run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
    for count in range(1, 5):
        run.report(loss=1.0)
        monitor.until(lambda count=count: len(monitor.reports()) == count, f"report {count}")
    assert len(monitor.bodies) == 4
    assert monitor.connections == 1


def test_a_process_that_starts_again_under_its_name_counts_on(attach, monitor):
    for _ in range(3):
        run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
        run.report(loss=1.0)
        run.report(loss=0.5)
        run.finish()
    numbers = [report.seq for report in monitor.told(6)]
    assert len(numbers) == 6
    assert numbers == sorted(set(numbers))


def test_numbers_go_past_those_of_a_predecessor_whose_clock_was_ahead(attach, monitor):
    ahead = monitor.last_seq = int((time.time() + 600) * 1e6)
    run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
    run.report(loss=1.0)
    (passed_over, taken) = monitor.told(2)
    assert passed_over.seq < ahead < taken.seq
    assert taken._replace(seq=passed_over.seq) == passed_over
    run.report(loss=0.5)
    assert monitor.told(3)[-1].seq > taken.seq


def test_a_monitor_that_is_always_ahead_is_not_chased(attach, monitor):
    monitor.last_seq = int((time.time() + 600) * 1e6)
    run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
    run.report(loss=1.0)
    monitor.told(2)
    monitor.last_seq = int((time.time() + 6000) * 1e6)
    run.report(loss=0.5)
    monitor.told(3)
    run.report(loss=0.25)
    assert [report.value for report in monitor.told(4)] == [1.0, 1.0, 0.5, 0.25]


def test_a_token_in_a_file_wins(attach, monitor, tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    run = attach(
        STERNA_MONITOR_URL=monitor.url, STERNA_POD="p", STERNA_MONITOR_TOKEN="x",
        STERNA_MONITOR_TOKEN_FILE=str(tmp_path / "token"),
    )  # fmt: skip
    run.report(loss=1.0)
    run.finish()
    monitor.told(1)
    assert monitor.tokens == ["Bearer from-file"]


def test_of_what_a_monitor_missed_it_gets_the_newest(attach):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    run = attach(STERNA_MONITOR_URL=f"http://127.0.0.1:{port}", STERNA_POD="p")
    for number in range(KEPT_MAX * 3):
        run.report(loss=float(number))
    with listening(port) as monitor:
        values = [report.value for report in monitor.told(KEPT_MAX)]
    assert values == [float(number) for number in range(KEPT_MAX * 2, KEPT_MAX * 3)]


def test_what_got_no_answer_is_sent_again_under_its_number(attach, monitor):
    monitor.answers = [503, 404, 200]  # 404: the monitor has not looked who is there since this pod came
    run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
    run.report(loss=1.0)
    monitor.until(lambda: len(monitor.bodies) == 3, "three tries")
    assert len({report.seq for report in monitor.reports()}) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 413, 422])
def test_what_is_refused_is_not_sent_again(attach, monitor, caplog, status):
    monitor.answers = [status]
    run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
    run.report(loss=1.0)
    monitor.until(lambda: monitor.bodies, "the first report")
    run.report(loss=0.5)
    monitor.until(lambda: len(monitor.bodies) == 2, "the second report")
    assert [report.value for report in monitor.reports()] == [1.0, 0.5]
    assert f"refused by the monitor: status {status}" in caplog.text


def test_a_monitor_that_never_answers_holds_up_nobody(attach, monitor):
    monitor.silent.set()
    run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
    for number in range(10_000):
        run.report(loss=float(number))
    monitor.until(lambda: monitor.connections, "it has called")
    run.finish()  # would hang here, or raise
    assert not monitor.bodies


@pytest.mark.parametrize("url", ["10.0.0.1:8081", "ftp://monitor", "http://", "http://x:port"])
def test_an_address_that_is_none_is_told_about_and_stops_nobody(attach, caplog, url):
    run = attach(STERNA_MONITOR_URL=url, STERNA_POD="p")
    run.report(loss=1.0)
    run.finish()
    assert "reports are not sent" in caplog.text


@pytest.mark.parametrize(
    ("rank", "gang", "settings", "tells"),
    [
        pytest.param(0, True, {}, True, id="rank 0 of a gang speaks for all"),
        pytest.param(1, True, {}, False, id="the others do not"),
        pytest.param(1, True, {"every_rank_reports": True}, True, id="unless they are asked to"),
        pytest.param(1, False, {}, True, id="who trains for itself speaks for itself"),
    ],
)
def test_who_reports(attach, monitor, tmp_path: Path, rank, gang, settings, tells):
    environment = worker_environment(
        job="ns/job", worker="w", rank=rank, world_size=2, incarnation=0, checkpoint_dir=None, mailbox=tmp_path,
        gang=gang,
    )  # fmt: skip
    run = attach(settings, **environment, STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
    run.report(loss=1.0)
    run.finish()
    if tells:
        monitor.told(1)
    assert [report.value for report in monitor.reports()] == ([1.0] if tells else [])
    assert [report.workers for report in monitor.reports()] == ([2 if gang else None] if tells else [])


@pytest.mark.parametrize(
    ("settings", "variable", "reported", "chosen"),
    [
        pytest.param({}, "", [{"lr": 0.1, "loss": 2.0}], ["loss"], id="a loss is more than a rate"),
        pytest.param({}, "", [{"lr": 0.1, "reward": 2.0}], ["lr"], id="of unusual names the first"),
        pytest.param({}, "", [{"step": 3, "epoch": 1, "reward": 2.0}], ["reward"], id="how far is not how good"),
        pytest.param({}, "", [{"loss": 2.0}, {"eval_loss": 1.0}], ["loss", "eval_loss"], id="an evaluation is better"),
        pytest.param({}, "", [{"eval_loss": 2.0}, {"loss": 1.0}], ["eval_loss", ""], id="and stays so"),
        pytest.param({}, "accuracy", [{"loss": 2.0, "accuracy": 0.5}], ["accuracy"], id="the environment says which"),
        pytest.param({"metric": "f1"}, "accuracy", [{"f1": 0.1, "accuracy": 0.5}], ["f1"], id="the program knows best"),
        pytest.param({}, "", [{"loss": math.nan}], [""], id="a diverged loss is no result"),
        pytest.param({}, "", [{"Verlust in %": 2.0}], ["Verlust in _"], id="a name the wire has no room for"),
        pytest.param({}, "", [{"-": 2.0}], ["_-"], id="nor for this one"),
    ],
)
def test_which_number_is_the_result(attach, monitor, settings, variable, reported, chosen):
    run = attach(settings, STERNA_MONITOR_URL=monitor.url, STERNA_POD="p", STERNA_METRIC=variable)
    for metrics in reported:
        run.report(**metrics)
    run.finish()
    assert [report.metric for report in monitor.told(len(chosen))] == chosen
    assert all((report.value is None) == (not report.metric) for report in monitor.reports())


def test_a_program_that_counts_by_itself_knows_how_far_it_is(attach, monitor):
    run = attach(STERNA_MONITOR_URL=monitor.url, STERNA_POD="p")
    run.report(step=numpy.int64(700), epoch=2, accuracy=numpy.float32(0.5))
    run.report(step=-1, accuracy=1)
    run.finish()
    first, second = monitor.told(2)
    assert (first.step, first.epoch, first.units_done, first.value) == (700, 2, 700.0, 0.5)
    assert (second.step, second.value) == (0, 1.0)


def test_steps_without_an_evaluation_push_no_evaluation_out(attach):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    run = attach(STERNA_MONITOR_URL=f"http://127.0.0.1:{port}", STERNA_POD="p")
    run.report(eval_loss=1.0)
    for _, _ in run.steps(1000):
        run.report(loss=2.0)
    with listening(port) as monitor:
        reports = monitor.told(2)
    assert [(report.value, report.step) for report in reports if report.value is not None] == [(1.0, 0)]
    assert reports[-1].step == 999
