"""Monitors at the operator's door with the tokens that a cluster gives their pods, reviewed by a real API server."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from sterna.engines.kubernetes.progress.monitor_tokens import AUDIENCE
from sterna.protocol.reports import Answer, Batch, Report
from sterna.protocol.tokens import digest_of
from tests.cluster.requests import Body
from tests.kubernetes.jobs import tfjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.visiting import SECRET, Visitor

ACCOUNT = "sterna-monitor"
TOKEN_VARIABLE = "STERNA_MONITOR_TOKEN"


class Guard:
    """An operator with a door that knows monitors by their service account, and a monitor's pod on each node."""

    def __init__(self, lab: Lab, secret: Path, nodes: int = 2) -> None:
        self.lab = lab
        self.nodes = lab.nodes.add(nodes, gpus=1, cpu="8")
        self.make_account(ACCOUNT)
        self.pods = {node: self.make_pod(f"monitor-{node}", node) for node in self.nodes}
        account = f"{lab.namespace}/{ACCOUNT}"
        running = lab.start(door_port=0, token_file=secret, monitor_port=8081, monitor_account=account)
        self.visitor = Visitor(lab, running)

    def make_account(self, name: str) -> None:
        self.lab.api.create(f"/api/v1/namespaces/{self.lab.namespace}/serviceaccounts", {"metadata": {"name": name}})

    def make_pod(self, name: str, node: str, account: str = ACCOUNT) -> Body:
        spec = {
            "nodeName": node,
            "serviceAccountName": account,
            "automountServiceAccountToken": False,
            "containers": [{"name": "monitor", "image": "none"}],
        }
        path = f"/api/v1/namespaces/{self.lab.namespace}/pods"
        return self.lab.api.create(path, {"metadata": {"name": name}, "spec": spec})

    def token(self, pod: Body | None, *, audience: str = AUDIENCE, account: str = ACCOUNT) -> str:
        """As the kubelet asks for it. `pod` None: bound to none."""
        spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": 3600}
        if pod is not None:
            meta = pod["metadata"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        path = f"/api/v1/namespaces/{self.lab.namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.lab.api.create(path, body)["status"]["token"])

    def sends(self, batch: Batch, token: str) -> tuple[int, bytes]:
        said = self.visitor.asks("POST", "/reports", batch.to_json(), token=token)
        return said.status, said.body


@pytest.fixture
def guard(lab: Lab, tmp_path: Path) -> Guard:
    secret = tmp_path / "token"
    secret.write_text(SECRET)
    return Guard(lab, secret)


def test_s1_a_monitor_is_known_by_the_token_of_its_pod_and_speaks_for_its_own_node(guard: Guard):
    one, two = guard.nodes
    token = guard.token(guard.pods[one])
    guard.lab.until(lambda: guard.sends(Batch((), node=one), token)[0] == 200, "the monitor is let in")
    assert guard.sends(Batch((), node=two), token)[0] == 403
    assert guard.sends(Batch(()), token)[0] == 403
    away = {"node": one, "pod": "train-worker-0"}
    assert guard.visitor.asks("POST", "/migrate", away, token=token).status == 403
    assert guard.visitor.asks("GET", "/cluster-info", token=token).status == 403


def test_s1_no_other_token_of_the_cluster_is_a_monitors(guard: Guard):
    one, _ = guard.nodes
    good = guard.token(guard.pods[one])
    guard.lab.until(lambda: guard.sends(Batch((), node=one), good)[0] == 200, "the monitor is let in")
    guard.make_account("tenant")
    tenants = guard.make_pod("tenants", one, "tenant")
    gone = guard.make_pod("gone", one)
    of_gone = guard.token(gone)
    path = f"/api/v1/namespaces/{guard.lab.namespace}/pods/gone"
    guard.lab.api.delete(path, {"gracePeriodSeconds": 0})
    head, claims, signature = good.split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    said["kubernetes.io"]["pod"] = {"name": f"monitor-{guard.nodes[1]}", "uid": "another"}
    altered = base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()
    tokens = {
        "of another account": guard.token(tenants, account="tenant"),
        "for another audience": guard.token(guard.pods[one], audience="https://kubernetes.default.svc.cluster.local"),
        "bound to no pod": guard.token(None),
        "of a pod that is gone": of_gone,
        "altered": f"{head}.{altered}.{signature}",
        "without its signature": f"{head}.{claims}.",
        "of the cluster's administrator": guard.lab.plane.token("admin"),
    }
    for node in guard.nodes:
        found = {what: guard.sends(Batch((), node=node), token)[0] for what, token in tokens.items()}
        assert found == dict.fromkeys(tokens, 401)


def test_s1_what_a_monitor_says_of_jobs_on_other_nodes_is_passed_over_and_it_can_make_no_jobs_token(guard: Guard):
    lab = guard.lab
    lab.submit(tfjob("train", gpus=1, workers=(1, 1, 1), ps=0))
    worker = lab.until_pods("train", "train-worker-0")["train-worker-0"]
    here = worker["spec"]["nodeName"]
    (there,) = {*guard.nodes} - {here}
    said = Report(f"{lab.namespace}/train-worker-0", 1, 1000.0, value=0.5)
    whole = Report(f"{lab.namespace}/train", 1, 1000.0, value=0.5)
    for node, taken in ((there, 0), (here, 1)):
        token = guard.token(guard.pods[node])
        for report in (said, whole):
            status, body = guard.sends(Batch((report,), node=node), token)
            assert (status, Answer.from_json(body).passed_over) == (200, 1 - taken), (node, report)
        status, body = guard.sends(Batch((), node=node, asks_tokens=True), token)
        env = worker["spec"]["containers"][0]["env"]
        of_job = next(variable["value"] for variable in env if variable["name"] == TOKEN_VARIABLE)
        meta = lab.job("TFJob", "train")["metadata"]
        expected = {digest_of(of_job): f"{lab.namespace}/train/{meta['uid']}"} if node == here else {}
        assert Answer.from_json(body).tokens == expected
        assert of_job.encode() not in body
        assert SECRET.encode() not in body
