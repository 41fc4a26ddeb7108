"""Logs, and whoever watches: what is printed comes through the API server, and what changes is told as it changes."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS
from sterna.interfaces.client.cluster import cluster_client
from tests.cluster.fixtures import fresh_name
from tests.cluster.requests import until
from tests.interfaces.cluster.kubelet import kubelet
from tests.interfaces.cluster.manifests import elastic
from tests.interfaces.cluster.standings import DONE, running

STARTED = "2026-01-01T00:00:00Z"


@pytest.fixture
def machine(console, kinds):
    with kubelet(kinds, fresh_name("node")) as found:
        yield found


@pytest.fixture
def mnist(console, machine):
    """Two workers that run."""
    console.submit(elastic("mnist"))
    console.stand(ELASTIC_JOBS, "mnist", running(machine.node, machine.node))
    for ordinal in range(2):
        begin(console, console.pod(ELASTIC_JOBS, "mnist", "worker", ordinal, machine.node))
    return "mnist"


def begin(console, pod: str, *, restarts: int = 0) -> None:
    """Its container runs, for the first time or again."""
    before = (
        {"lastState": {"terminated": {"exitCode": 1, "startedAt": STARTED, "finishedAt": STARTED}}} if restarts else {}
    )
    container = {
        "name": "trainer",
        "image": "x",
        "imageID": "x",
        "containerID": f"containerd://{pod}{restarts}",
        "ready": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": STARTED}},
        **before,
    }
    status = {"phase": "Running", "startTime": STARTED, "containerStatuses": [container]}
    console.api.patch(f"/api/v1/namespaces/{console.namespace}/pods/{pod}/status", {"status": status})


def test_logs_of_all_workers_carry_their_names(console, machine, mnist):
    for ordinal in range(2):
        machine.voice(f"mnist-worker-{ordinal}").say(b"one\ntwo\nrest")
    assert console.answer("logs", "mnist").splitlines() == [
        f"[mnist-worker-{ordinal}] {words}" for ordinal in range(2) for words in ("one", "two", "rest")
    ]
    assert console.answer("logs", "mnist", "--worker", "1", "--tail", "1") == "rest"
    assert console.answer("logs", "mnist", "--worker", "worker-0", "--tail", "0") == ""
    assert console.answer("logs", "mnist", "--worker", "mnist-worker-0") == "one\ntwo\nrest"
    assert "it has: mnist-worker-0, mnist-worker-1" in console.refused(3, "logs", "mnist", "--worker", "7")
    assert "there is no job" in console.refused(3, "logs", "nope")


def test_the_run_before_a_restart_is_kept(console, machine, mnist):
    begin(console, "mnist-worker-0", restarts=1)
    machine.voice("mnist-worker-0", previous=True).say(b"it broke\n")
    machine.voice("mnist-worker-0").say(b"again\n")
    assert console.answer("logs", "mnist", "--worker", "0") == "again\n"
    assert console.answer("logs", "mnist", "--worker", "0", "--previous") == "it broke\n"
    assert console.answer("logs", "mnist", "--worker", "0", "--every") == "it broke\nagain\n"
    assert console.answer("logs", "mnist", "--worker", "1", "--previous") == ""


def test_a_pod_that_has_not_begun_has_said_nothing(console, machine):
    console.submit(elastic("mnist"))
    console.pod(ELASTIC_JOBS, "mnist", "worker", 0, machine.node)
    assert console.answer("logs", "mnist") == ""


def test_following_goes_on_across_restarts_and_new_pods_and_ends_with_the_job(console, machine, mnist):
    heard = bytearray()
    with closing(cluster_client(kubeconfig=str(console.kubeconfig))) as client:

        def listen() -> None:
            for content in client.logs("mnist", follow=True, tail=1, prefix=True):
                heard.extend(content)

        def comes(words: bytes) -> None:
            until(lambda: words in bytes(heard), f"{words!r} is heard", story=lambda: bytes(heard))

        machine.voice("mnist-worker-0").say(b"old\nlast\n")
        thread = threading.Thread(target=listen)
        thread.start()
        comes(b"[mnist-worker-0] last\n")
        machine.voice("mnist-worker-0").say(b"more\n")
        comes(b"[mnist-worker-0] more\n")
        begin(console, console.pod(ELASTIC_JOBS, "mnist", "worker", 2, machine.node))
        machine.voice("mnist-worker-2").say(b"a newcomer\n")
        comes(b"[mnist-worker-2] a newcomer\n")
        for ordinal in range(3):
            machine.voice(f"mnist-worker-{ordinal}").say(b"the end\n")
            machine.voice(f"mnist-worker-{ordinal}").stop()
        console.stand(ELASTIC_JOBS, "mnist", DONE)
        thread.join(120)
        assert not thread.is_alive()
    assert b"old" not in heard
    assert heard.count(b"the end\n") == 3


def test_a_job_that_is_deleted_is_followed_no_longer(console, machine, mnist):
    heard: list[bytes] = []
    with closing(cluster_client(kubeconfig=str(console.kubeconfig))) as client:
        machine.voice("mnist-worker-0").say(b"hello\n")
        thread = threading.Thread(target=lambda: heard.extend(client.logs("mnist", follow=True)))
        thread.start()
        until(lambda: heard, "it is heard")
        console.answer("delete", "mnist")
        thread.join(120)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        pytest.param(["get", "jobs", "-w", "-o", "name"], "second", id="jobs"),
        pytest.param(["events", "-f"], "about Placed", id="events"),
    ],
)
def test_whoever_watches_is_told_of_what_comes(console, command, seen):
    console.submit(elastic("first"))
    console.event("Submitted", "ElasticJob", "first")
    env = {**os.environ, "KUBECONFIG": str(console.kubeconfig), "STERNA_ENGINE": "kubernetes", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "sterna.interfaces.cli.main", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reading.start()
    try:
        until(lambda: any("first" in line for line in lines), "what is there is told", story=lambda: lines)
        console.submit(elastic("second"))
        console.event("Placed", "ElasticJob", "second")
        until(lambda: any(seen in line for line in lines), "what comes is told", story=lambda: lines)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
        reading.join(60)
        errors = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
    assert (code, errors) == (0, "")
