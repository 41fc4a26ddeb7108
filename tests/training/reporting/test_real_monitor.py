"""The SDK against the real monitor: what is reported reaches the scheduler once, also over a restart of the monitor."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sterna.monitor import Monitor, Settings, Watched
from sterna.protocol.reports import Answer, Batch, Report
from sterna.protocol.tokens import job_token
from sterna.training.reporting.trainer_status import TOKEN, URL
from tests.training.reporting.listener import until

SECRET = "a secret of the installation"


@contextmanager
def monitoring(taken: list[Report], port: int = 0) -> Iterator[int]:
    """A monitor in a thread of its own; what it tells the scheduler is added to `taken`. The port it has."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def deliver(batch: Batch) -> Answer:
        taken.extend(report for report in batch.reports if report.seq)
        return Answer(instance="the scheduler")

    async def started() -> tuple[Monitor, int]:
        settings = Settings(node="node-1", port=port, forward_s=0.05, measure_s=0.0)
        made = Monitor(settings, secrets=lambda: [SECRET], deliver=deliver)
        made.watch(Watched(pod="ns/job-worker-0"))
        return made, await made.start()

    monitor, at = asyncio.run_coroutine_threadsafe(started(), loop).result(60)
    try:
        yield at
    finally:
        asyncio.run_coroutine_threadsafe(monitor.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


@pytest.fixture
def token() -> str:
    return job_token(SECRET, namespace="ns", job="job", uid="u-1")


def test_reports_reach_the_scheduler_once_and_over_a_restart_of_the_monitor(attach, token):
    taken: list[Report] = []
    with monitoring(taken) as port:
        url = f"http://127.0.0.1:{port}"
        run = attach(STERNA_MONITOR_URL=url, STERNA_POD="job-worker-0", STERNA_MONITOR_TOKEN=token)
        run.report(loss=1.0)
        run.report(loss=0.5)
        until(lambda: len(taken) == 2, "both are with the scheduler")
    run.report(loss=0.25)
    with monitoring(taken, port):
        until(lambda: len(taken) == 3, "the third, too")
        run.report(loss=0.125)
        until(lambda: len(taken) == 4, "and the fourth")
    assert [report.value for report in taken] == [1.0, 0.5, 0.25, 0.125]
    assert {(report.pod, report.metric, report.job_uid) for report in taken} == {("ns/job-worker-0", "loss", "u-1")}


def test_a_token_of_another_job_is_refused_and_the_program_trains_on(attach, caplog):
    taken: list[Report] = []
    with monitoring(taken) as port:
        other = job_token(SECRET, namespace="ns", job="other", uid="u-2")
        url = f"http://127.0.0.1:{port}"
        run = attach(STERNA_MONITOR_URL=url, STERNA_POD="job-worker-0", STERNA_MONITOR_TOKEN=other)
        run.report(loss=1.0)
        until(lambda: "refused by the monitor: status 403" in caplog.text, "it is told in the log")
        run.finish()
    assert taken == []


def test_a_status_for_kubeflow_trainer_is_understood_too(attach, token, tmp_path):
    (tmp_path / "token").write_text(token)
    taken: list[Report] = []
    with monitoring(taken) as port:
        path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs/job/status"
        run = attach(**{URL: f"http://127.0.0.1:{port}{path}", TOKEN: str(tmp_path / "token")})
        run.report(accuracy=0.5)
        run.finish()
        until(lambda: taken, "the status is with the scheduler")
    assert (taken[-1].pod, taken[-1].value, taken[-1].remaining_s) == ("ns/job", 0.5, 0.0)
