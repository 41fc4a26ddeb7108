"""Jobs that stop improving, on a real API server: reports come in by the real door, as a monitor sends them."""

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sterna.engines.kubernetes.apiserver.timestamps import moment_text
from sterna.model.ids import JobId
from sterna.protocol.reports import Batch, Report, Usage, next_seq
from sterna.protocol.tokens import TokenOwner, bearer, owner_of
from tests.cluster.requests import Body
from tests.kubernetes.lab import Lab, Running

SECRET = secrets.token_hex(16)
Curve = Callable[[int], float]


def saturating(step: int) -> float:
    """What a loss looks like that has arrived."""
    return 1.0 + 2.0 * 0.25**step


def steady(step: int) -> float:
    return 10.0 - 0.4 * step


def job(name: str, *, cpu: str = "4", **annotations: str) -> str:
    told = {"sterna.dev/judge": "check-interval-s=1"} | {f"sterna.dev/{key}": text for key, text in annotations.items()}
    return f"""
apiVersion: sterna.dev/v1alpha1
kind: ElasticJob
metadata: {{name: {name}, annotations: {json.dumps(told)}}}
spec:
  workers: {{min: 1, max: 1}}
  terminationGracePeriodSeconds: 0
  image: localhost/none:1
  command: [train]
  resources: {{requests: {{cpu: 500m}}, limits: {{cpu: "{cpu}"}}}}
"""


class PlayedMonitor:
    """Of one node: says what it is told to say, with the installation's own token."""

    def __init__(self, lab: Lab, operator: Running, node: str) -> None:
        self._lab = lab
        self._operator = operator
        self._node = node
        self._last = 0

    def says(self, pod: str, curve: Curve, *, checks: int = 12, since: int = 0) -> Body:
        """A value every ten seconds up to now, as a window that is sent again would have them."""
        now_s = time.time()
        reports = []
        for step in range(since, checks):
            at_s = now_s - 10.0 * (checks - 1 - step)
            self._last = next_seq(at_s, self._last)
            report = Report(f"{self._lab.namespace}/{pod}", self._last, at_s, value=curve(step), metric="loss")
            reports.append(report._replace(units_done=100.0 * (step + 1), units_total=10_000.0, workers=1))
        return self.post(Batch(tuple(reports), monitor="played", node=self._node, load=Usage(cpu=3.5)))

    def post(self, batch: Batch, *, token: str = SECRET) -> Body:
        url = f"http://127.0.0.1:{self._port()}/reports"
        headers = {"Authorization": bearer(token), "Content-Type": "application/json"}
        request = urllib.request.Request(url, batch.to_json(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: Body = json.loads(answer.read())
            return found

    def _port(self) -> int:
        port = self._lab.until(lambda: self._operator.operator.leads and self._operator.operator.door_port, "a door")
        return int(port)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(SECRET)
    return path


def started(lab: Lab, token_file: Path, **settings: Any) -> Running:
    return lab.start(door_port=0, token_file=token_file, monitor_port=8081, **settings)


def both_on_one_node(lab: Lab, *jobs: str) -> tuple[str, str]:
    """Both jobs on the only node there is; then there is another one. Their names."""
    lab.nodes.add(1, cpu="4")
    for text in jobs:
        lab.submit(text)
    lab.until_pods("done", "done-worker-0")
    home = str(lab.until_pods("keen", "keen-worker-0")["keen-worker-0"]["spec"]["nodeName"])
    lab.nodes.add(1, cpu="4")
    other = lab.until(lambda: next((name for name in lab.nodes.names if name != home), None), "there is another node")
    return home, str(other)


def scheduling(lab: Lab, name: str) -> Body:
    found: Body = lab.job("ElasticJob", name)["status"]["scheduling"]
    return found


def test_the_converged_one_of_two_jobs_is_moved_and_the_record_says_why(lab: Lab, token_file: Path, tmp_path: Path):
    told = tmp_path / "distribution.csv"
    operator = started(
        lab, token_file, rebalance=("specon",), rebalance_settings={"round-s": "1"}, distribution_file=told
    )
    home, other = both_on_one_node(lab, job("done"), job("keen"))
    keen = lab.pods("keen")[0]["metadata"]["uid"]
    monitor = PlayedMonitor(lab, operator, home)
    monitor.says("keen-worker-0", steady)
    monitor.says("done-worker-0", saturating)
    lab.until(lambda: scheduling(lab, "done").get("growth", {}).get("category") == "Converged", "done has converged")
    moved = lab.until(lambda: _on(lab, "done", other), f"done runs on {other}")
    assert moved["metadata"]["name"] == "done-worker-0"
    lab.until(lambda: scheduling(lab, "done").get("migrations") == 1, "the move is over")
    assert lab.pods("keen")[0]["metadata"]["uid"] == keen
    (past,) = [past for past in scheduling(lab, "done")["history"] if past["kind"] == "migration"]
    assert (past["reason"], past["result"]) == ("Converged", "Succeeded")
    assert "contention" in past["message"]
    assert past["before"] == [f"worker/0/{home}"]
    assert past["after"] == [f"worker/0/{other}"]
    assert past["downtimeSeconds"] >= 0
    lab.until(lambda: {"Converged", "Migrated"} <= lab.reasons("done"), "events say so")
    lab.until(lambda: told.exists() and "done" in told.read_text(), "the file says so")
    assert scheduling(lab, "keen").get("growth", {}).get("category", "Progressing") == "Progressing"


def test_a_move_that_was_begun_is_brought_to_its_end_by_whoever_leads_next(lab: Lab, token_file: Path):
    """Killed between letting go and taking up: placement alone would put the job back where it came from."""
    operator = started(lab, token_file)
    home, other = both_on_one_node(lab, job("done"), job("keen"))
    lab.until_rest()
    operator.kill()
    change = {
        "kind": "migration",
        "reason": "Converged",
        "message": "its model hardly improves any more",
        "before": [f"worker/0/{home}"],
        "after": [f"worker/0/{other}"],
        "beganAt": moment_text(time.time()),
    }
    let_go = {"status": {"scheduling": {"phase": "Resizing", "seats": None, "change": change}}}
    lab.api.patch(f"/apis/sterna.dev/v1alpha1/namespaces/{lab.namespace}/elasticjobs/done/status", let_go)
    operator.restart()
    lab.until(lambda: _on(lab, "done", other), f"done runs on {other}")
    lab.until(lambda: scheduling(lab, "done").get("migrations") == 1, "the move is over")
    (past,) = [past for past in scheduling(lab, "done")["history"] if past["kind"] == "migration"]
    assert (past["reason"], past["after"], past["result"]) == ("Converged", [f"worker/0/{other}"], "Succeeded")


def test_what_was_judged_survives_the_operator_and_idle_reports_write_nothing(lab: Lab, token_file: Path):
    operator = started(lab, token_file)
    home, _ = both_on_one_node(lab, job("done"), job("keen"))
    monitor = PlayedMonitor(lab, operator, home)
    monitor.says("done-worker-0", saturating)
    lab.until(lambda: scheduling(lab, "done").get("growth", {}).get("category") == "Converged", "done has converged")
    before = scheduling(lab, "done")
    operator.restart()
    value = lab.until(
        lambda: operator.operator.leads and operator.operator.world.value(JobId(f"{lab.namespace}/done")),
        "it leads again and knows the job",
    )
    assert value.growth is not None
    assert value.growth.category == "Converged"
    lab.until_rest()
    version = lab.job("ElasticJob", "done")["metadata"]["resourceVersion"]
    answer = monitor.says("done-worker-0", saturating)  # the window comes again, with one value more
    assert answer["passed_over"] == 0
    for _ in range(3):
        answer = monitor.says("done-worker-0", saturating, since=11)
    lab.until_rest()
    assert lab.job("ElasticJob", "done")["metadata"]["resourceVersion"] == version
    assert scheduling(lab, "done")["growth"] == before["growth"]
    learned = operator.operator.world.value(JobId(f"{lab.namespace}/done"))
    assert learned is not None
    assert learned.progress[-1].unit_s == pytest.approx(0.1, rel=0.2)
    assert learned.units_left == pytest.approx(10_000 - 1200, rel=0.01)


def test_replayed_reports_and_those_about_nobody_are_passed_over(lab: Lab, token_file: Path):
    operator = started(lab, token_file)
    home, other = both_on_one_node(lab, job("done"), job("keen"))
    monitor = PlayedMonitor(lab, operator, home)
    now_s = time.time()
    known = Report(f"{lab.namespace}/done-worker-0", next_seq(now_s), now_s, value=1.0)
    nobody = Report(f"{lab.namespace}/nobody-worker-0", next_seq(now_s), now_s, value=1.0)
    stranger = known._replace(job_uid="another", seq=known.seq + 1)
    assert monitor.post(Batch((known, nobody, stranger), monitor="m", node=home))["passed_over"] == 2
    assert monitor.post(Batch((known,), monitor="m", node=home))["passed_over"] == 1
    moved = known._replace(seq=known.seq + 2)
    assert monitor.post(Batch((moved,), monitor="m", node=other))["passed_over"] == 1, "its pod is on another node"
    with pytest.raises(urllib.error.HTTPError, match=r"401|403"):
        monitor.post(Batch((moved,), monitor="m", node=home), token="wrong" * 8)


def test_workers_are_told_where_and_as_whom_to_report(lab: Lab, token_file: Path):
    started(lab, token_file)
    lab.nodes.add(1, cpu="4")
    (made,) = lab.submit(job("done", metric="accuracy"))
    pod = lab.until_pods("done", "done-worker-0")["done-worker-0"]
    env = {found["name"]: found for found in pod["spec"]["containers"][0]["env"]}
    names = [*env]
    assert env["STERNA_MONITOR_URL"]["value"] == "http://$(STERNA_NODE_IP):8081"
    assert names.index("STERNA_NODE_IP") < names.index("STERNA_MONITOR_URL")
    fields = {name: env[name]["valueFrom"]["fieldRef"]["fieldPath"] for name in ("STERNA_NODE_IP", "STERNA_POD")}
    assert fields == {"STERNA_NODE_IP": "status.hostIP", "STERNA_POD": "metadata.name"}
    assert env["NODE_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.hostIP"
    assert env["POD_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert env["STERNA_METRIC"]["value"] == "accuracy"
    owner = owner_of(env["STERNA_MONITOR_TOKEN"]["value"], SECRET)
    assert owner == TokenOwner(lab.namespace, "done", made["metadata"]["uid"])


def test_speeds_are_learned_by_category_and_outlive_job_and_operator(lab: Lab, token_file: Path):
    operator = started(lab, token_file)
    home, _ = both_on_one_node(lab, job("done", category="resnet"), job("keen", category="resnet"))
    PlayedMonitor(lab, operator, home).says("done-worker-0", saturating)
    path = f"/api/v1/namespaces/{lab.namespace}/configmaps/sterna-knowledge"
    kept = lab.until(lambda: _found(lab, path), "what was learned is written down")
    (model,) = json.loads(kept["data"]["knowledge.json"])["models"]
    assert (model["category"], model["seen"][0][0]) == (f"{lab.namespace}/resnet", 1)
    operator.restart()
    other = lab.until(
        lambda: operator.operator.leads and operator.operator.world.value(JobId(f"{lab.namespace}/keen")),
        "it leads again and knows the job",
    )
    assert other.curve.unit_s(1) == pytest.approx(0.1, rel=0.3), "another job of its kind is expected to be as fast"


def _on(lab: Lab, name: str, node: str) -> Body | None:
    running = [pod for pod in lab.pods(name) if pod["status"].get("phase") == "Running"]
    return next((pod for pod in running if pod["spec"].get("nodeName") == node), None)


def _found(lab: Lab, path: str) -> Body | None:
    items = lab.api.items(path.rpartition("/")[0])
    return next((found for found in items if found["metadata"]["name"] == path.rpartition("/")[2]), None)
