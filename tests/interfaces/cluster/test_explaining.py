"""`sterna explain` against a real API server: the operator's words, the Lease, and pods that do not come up."""

import time

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS
from sterna.engines.kubernetes.status.standing import Standing
from tests.cluster.fixtures import fresh_name
from tests.interfaces.cluster.console import OPERATOR, Console
from tests.interfaces.cluster.manifests import elastic
from tests.interfaces.cluster.standings import running


def test_explain_tells_what_the_operator_wrote_and_what_would_change_it(console, fake_nodes, operator_namespace):
    fake_nodes.add(1, gpus=2, prefix=fresh_name("node"))
    _lease(console, renewed_s=time.time())
    console.submit(elastic("a"))
    assert console.data("explain", "a")["because"] is None
    assert "the next cycle looks at it" in console.answer("explain", "a")
    waiting = Standing(reason="NoRoom", message="jobs ahead take the room", numbers=(("gpus_free", 1.0),))
    console.stand(ELASTIC_JOBS, "a", waiting)
    answer = console.data("explain", "a")
    assert answer["because"]["why"] == "NoRoom"
    assert answer["because"]["numbers"] == {"gpus_free": 1.0}
    assert answer["summary"] == "it waits: jobs ahead take the room"
    assert answer["wouldChange"][0] == "a job ahead of it ends or gets fewer workers"
    assert "it needs 1 worker of 1 GPU each" in answer["wouldChange"][1]
    text = console.answer("explain", "a")
    assert "NoRoom: jobs ahead of it" in text


def test_explain_says_when_nobody_decides(console, operator_namespace):
    console.submit(elastic("a"))
    assert "no operator has ever run in namespace sterna-system" in console.answer("explain", "a")
    console.stand(ELASTIC_JOBS, "a", running("n1"))
    _lease(console, renewed_s=time.time() - 3600)
    answer = console.data("explain", "a")
    assert "has not renewed its lease" in answer["summary"]
    assert "how things stood then" in answer["summary"]
    assert answer["wouldChange"][0].startswith("an operator runs")


def test_explain_tells_why_a_pod_does_not_come_up(console, trained):
    path = f"/api/v1/namespaces/{console.namespace}/pods/mnist-worker-0/status"
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    status = {"name": "trainer", "ready": False, "restartCount": 0, "image": "x", "imageID": "", "state": waiting}
    console.api.patch(path, {"status": {"phase": "Pending", "containerStatuses": [status]}})
    assert any("Back-off pulling image" in words for words in console.data("explain", "mnist")["wouldChange"])
    assert "ImagePullBackOff" in console.answer("describe", "mnist")


def test_what_is_most_pressing_is_shown_before_what_was_decided(console):
    console.submit(elastic("a"))
    console.stand(ELASTIC_JOBS, "a", running("n1"))
    trouble = {"reason": "ImagePullBackOff", "message": "pod a-worker-0: no such image",
               "decided": {"reason": "NextInOrder", "message": "it was next"}}  # fmt: skip
    console.api.patch(f"{console.path(ELASTIC_JOBS, 'a')}/status", {"status": {"scheduling": trouble}})
    assert console.data("get", "jobs")[0]["reason"] == "ImagePullBackOff"
    answer = console.data("explain", "a")
    assert "no such image" in answer["summary"]
    assert answer["because"]["why"] == "ImagePullBackOff"


def _lease(console: Console, *, renewed_s: float) -> None:
    renewed = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(renewed_s))
    spec = {"holderIdentity": "sterna-0", "leaseDurationSeconds": 15, "renewTime": renewed}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{OPERATOR}/leases"
    console.api.create(path, {"metadata": {"name": "sterna"}, "spec": spec})
