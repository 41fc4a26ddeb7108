"""What a worker reports: numbers, however odd; and the file is rewritten when there is something new, not oftener."""

import math
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy
import pytest

from sterna.protocol import WorkerIdentity, WorkerPhase, read_status
from sterna.training.orders.outbox import Outbox
from tests.waiting import until


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    made = Outbox(WorkerIdentity(mailbox=tmp_path, worker="w"), ack=0, facts=dict)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (True, 1.0),
        (math.inf, math.inf),
        (10**400, math.inf),
        (numpy.float32(0.5), 0.5),
        (numpy.array(3), 3.0),
        (numpy.array([3]), 3.0),
    ],
)
def test_numbers_are_kept(outbox, tmp_path, value, kept):
    outbox.report({"value": value})
    outbox.flush()
    status = read_status(tmp_path)
    assert status is not None
    assert status.metrics == {"value": kept}


def test_a_loss_that_has_diverged_is_news_too(outbox, tmp_path):
    outbox.report({"loss": math.nan})
    outbox.flush()
    status = read_status(tmp_path)
    assert status is not None
    assert math.isnan(status.metrics["loss"])


@pytest.mark.parametrize("value", ["0.5", None, [1], {}, Fraction(1, 2), numpy.zeros(3), object()])
def test_what_is_no_number_is_refused_with_a_message_once(outbox, tmp_path, caplog, value):
    for _ in range(3):
        outbox.report({"value": value, "other": 1})
    outbox.flush()
    status = read_status(tmp_path)
    assert status is not None
    assert status.metrics == {"other": 1.0}
    assert len(caplog.records) == 1
    assert "metric 'value' not reported: it is" in caplog.text


def test_a_program_that_reports_without_end_of_names_does_not_fill_the_mailbox(outbox, tmp_path, caplog):
    for number in range(1_000):
        outbox.report({f"metric {number}": number})
    outbox.flush()
    status = read_status(tmp_path)
    assert status is not None
    assert len(status.metrics) == 256
    assert "one too many" in caplog.text


def test_reports_without_end_are_written_once_a_second(tmp_path):
    writes: list[int] = []

    def count() -> dict[str, int]:
        writes.append(1)
        return {}

    outbox = Outbox(WorkerIdentity(mailbox=tmp_path, worker="w"), ack=0, facts=count)
    began_s = time.monotonic()
    for number in range(100_000):
        outbox.report({"loss": number})
    outbox.close()
    assert len(writes) <= 2 + (time.monotonic() - began_s)
    status = read_status(tmp_path)
    assert status is not None
    assert status.metrics == {"loss": 99_999.0}


def test_the_thread_writes_by_itself_and_ends_with_the_run(outbox, tmp_path):
    before = set(threading.enumerate())
    outbox.note()
    until(lambda: read_status(tmp_path) is not None, "it is told")
    (thread,) = set(threading.enumerate()) - before
    outbox.close()
    thread.join(30)
    assert not thread.is_alive()


def test_a_mailbox_that_is_gone_harms_nobody(outbox, tmp_path):
    for path in tmp_path.iterdir():
        path.unlink()
    tmp_path.rmdir()
    outbox.report({"loss": 1})
    outbox.tell(phase=WorkerPhase.TRAINING)
    tmp_path.mkdir()
    outbox.tell()
    status = read_status(tmp_path)
    assert status is not None
    assert status.phase is WorkerPhase.TRAINING


def test_an_endless_problem_is_cut_short(outbox, tmp_path):
    outbox.tell(problem="x" * 100_000)
    status = read_status(tmp_path)
    assert status is not None
    assert status.problem == "x" * 2_000
