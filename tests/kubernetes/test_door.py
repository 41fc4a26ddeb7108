"""The operator's door before a real API server: moves that are asked for over HTTP, what is shown, what is reported."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from sterna.protocol.reports import Answer, Batch, Report
from tests.cluster.requests import Body
from tests.kubernetes.jobs import tfjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.visiting import SECRET, Visitor

KEYS = {
    *("CpuTotal", "MemTotal", "GpuTotal", "GpuMemTotal", "CpuFree", "MemFree"),
    *("CpuMaxRequest", "MemMaxRequest", "GpuFreeCount", "GpuFree"),
}


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    return file


def started(lab: Lab, secret: Path, **settings: Any) -> Visitor:
    if not lab.operators:
        lab.nodes.add(3, gpus=0, cpu="8")
    return Visitor(lab, lab.start(door_port=0, token_file=secret, **settings))


def trains(lab: Lab, name: str = "job1") -> Body:
    """A job with a parameter server and one worker; the worker."""
    lab.submit(tfjob(name, gpus=0, cpu="1"))
    return lab.until_pods(name, f"{name}-ps-0", f"{name}-worker-0")[f"{name}-worker-0"]


def until_moved(lab: Lab, before: Body) -> Body:
    """The pod of this name that came after, once it runs and the move is written down."""
    job, name = before["metadata"]["name"].split("-")[0], before["metadata"]["name"]
    lab.until(lambda: before["metadata"]["uid"] not in _uids(lab, job), "the old pod is gone")
    after = lab.until_pods(job, f"{job}-ps-0", name)[name]
    lab.until(lambda: all(phase in ("Succeeded", "Refused") for phase in phases(lab)), "the move is over")
    assert after["spec"]["nodeName"] != before["spec"]["nodeName"]
    return after


def phases(lab: Lab) -> list[str]:
    return [str(found.get("status", {}).get("phase", "")) for found in migrations(lab)]


def migrations(lab: Lab) -> list[Body]:
    found: list[Body] = lab.api.items(f"/apis/sterna.dev/v1alpha1/namespaces/{lab.namespace}/migrations")
    return found


def burden(lab: Lab, node: str, name: str) -> None:
    """Somebody else's pod that may use a lot and asks for little."""
    container = {"name": "main", "image": "localhost/none:1"}
    container |= {"resources": {"limits": {"cpu": "6"}, "requests": {"cpu": "10m"}}}  # type: ignore[dict-item]
    body = {"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}}
    lab.api.create(f"/api/v1/namespaces/{lab.namespace}/pods", {"apiVersion": "v1", "kind": "Pod"} | body)


def _uids(lab: Lab, job: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in lab.all_pods(job)}


def test_dragon_39_a_double_post_is_one_migration_and_the_rest_of_the_job_stays(lab: Lab, secret: Path):
    visitor = started(lab, secret)
    worker = trains(lab)
    (server,) = [pod for pod in lab.pods("job1") if "-ps-" in pod["metadata"]["name"]]
    with ThreadPoolExecutor(4) as several:
        answers = list(several.map(lambda _: visitor.away(worker), range(4)))
    assert [(said.status, said.body) for said in answers] == [(200, b"Ok")] * 4
    assert sorted(str(said.outcome) for said in answers) == ["asked", "duplicate", "duplicate", "duplicate"]
    after = until_moved(lab, worker)
    (move,) = migrations(lab)
    assert (move["spec"]["job"], move["spec"]["worker"]) == ("job1", 0)
    assert (move["status"]["from"], move["status"]["to"]) == (worker["spec"]["nodeName"], after["spec"]["nodeName"])
    assert after["metadata"]["labels"]["tf-replica-index"] == worker["metadata"]["labels"]["tf-replica-index"]
    assert server["metadata"]["uid"] in _uids(lab, "job1")
    lab.delete("TFJob", "job1")
    lab.until(lambda: lab.gone("TFJob", "job1"), "the job is gone")


def test_dragon_39_nonsense_is_refused_with_4xx_and_the_controller_lives(lab: Lab, secret: Path):
    visitor = started(lab, secret)
    worker = trains(lab)
    here, elsewhere = (
        worker["spec"]["nodeName"],
        next(name for name in lab.nodes.names if name != worker["spec"]["nodeName"]),
    )
    for wish, status, told in (
        ({"node": here, "pod": "ab"}, 400, "pod"),
        (b"{", 400, "JSON"),
        ({"node": here, "pod": "nobody-worker-0"}, 404, "nobody-worker-0"),
        ({"node": "no-such-node", "pod": "job1-worker-0"}, 404, "no-such-node"),
        ({"node": elsewhere, "pod": "job1-worker-0"}, 409, here),
        ({"node": here, "pod": "job1-ps-0"}, 409, "only workers"),
    ):
        said = visitor.asks("POST", "/migrate", wish)
        assert said.status == status, said
        assert told in said.detail
    for token in (None, "wrong", SECRET[:-1]):
        assert visitor.asks("POST", "/migrate", {"node": here, "pod": "job1-worker-0"}, token=token).status == 401
    lab.until_rest()
    assert migrations(lab) == []
    assert worker["metadata"]["uid"] in _uids(lab, "job1")
    visitor.until_asked(worker)
    until_moved(lab, worker)


def test_dragon_39_a_worker_that_is_best_where_it_is_stays(lab: Lab, secret: Path):
    visitor = started(lab, secret)
    worker = trains(lab)
    for index, node in enumerate(name for name in lab.nodes.names if name != worker["spec"]["nodeName"]):
        burden(lab, node, f"burden-{index}")
    lab.until(lambda: visitor.away(worker).outcome == "ignored", "others are known to be fuller")
    assert migrations(lab) == []


def test_dragon_39_cluster_info_has_container_migration_s_keys_and_counts_limits_of_all_pods(lab: Lab, secret: Path):
    visitor = started(lab, secret)
    worker = trains(lab)
    node = worker["spec"]["nodeName"]
    burden(lab, node, "burden")

    def counted() -> Body | None:
        found: Body = json.loads(visitor.asks("GET", "/cluster-info").body)
        return found if found[node]["CpuMaxRequest"] == 8000 else None

    found = lab.until(counted, "the server's, the worker's and the other pod's limits are counted")
    assert set(lab.nodes.names) <= set(found)
    assert all(set(info) == KEYS for info in found.values())
    assert (found[node]["CpuTotal"], found[node]["CpuFree"]) == (8000, 8000 - 1000 - 1000 - 10)
    assert found[node]["MemTotal"] % 1000 == 0


def test_dragon_39_dragon_40_a_worker_is_moved_three_times_and_no_more(lab: Lab, secret: Path):
    visitor = started(lab, secret)
    lab.nodes.add(1, gpus=0, cpu="8")  # so that there is always somewhere that is emptier
    worker = trains(lab)
    for round_ in range(3):
        burden(lab, worker["spec"]["nodeName"], f"burden-{round_}")
        visitor.until_asked(worker)
        worker = until_moved(lab, worker)
    assert phases(lab) == ["Succeeded"] * 3
    said = visitor.away(worker)
    assert said.status == 409
    assert "3" in said.detail
    lab.operators[0].restart()
    lab.until_rest()
    assert visitor.away(worker).status == 409  # whoever leads next counts the same
    assert len(migrations(lab)) == 3


def test_dragon_39_a_wish_outlives_the_operator_that_took_it(lab: Lab, secret: Path):
    visitor = started(lab, secret)
    worker = trains(lab)
    lab.until_rest()
    lab.operators[0].operator.pause_cycles()
    visitor.until_asked(worker)
    assert visitor.away(worker).outcome == "duplicate"
    lab.operators[0].restart()
    until_moved(lab, worker)
    assert phases(lab) == ["Succeeded"]


def test_a_wish_that_was_refused_makes_room_for_the_next_one(lab: Lab, secret: Path):
    visitor = started(lab, secret)
    worker = trains(lab)
    digest = hashlib.sha256(f"{lab.namespace}/job1/{worker['metadata']['uid']}".encode()).hexdigest()[:10]
    body = {"apiVersion": "sterna.dev/v1alpha1", "kind": "Migration", "metadata": {"name": f"job1-worker-0-{digest}"}}
    (refused,) = lab.submit(yaml.safe_dump(body | {"spec": {"job": "job1", "worker": 0, "to": "no-such-node"}}))
    lab.until(lambda: phases(lab) == ["Refused"], "nobody can go there")
    visitor.until_asked(worker)
    until_moved(lab, worker)
    (move,) = migrations(lab)
    assert move["metadata"]["name"] == refused["metadata"]["name"]
    assert move["metadata"]["uid"] != refused["metadata"]["uid"]


def test_a_standby_shows_the_cluster_and_leaves_moves_and_reports_to_the_leader(lab: Lab, secret: Path):
    leader = started(lab, secret, elect=True, identity="one")
    lab.until(lambda: lab.operators[0].operator.leads, "the first one leads")
    standby = started(lab, secret, elect=True, identity="two")
    worker = trains(lab)
    lab.until(lambda: lab.operators[1].operator.health().synced, "the second one knows the cluster")
    wish = standby.away(worker)
    assert wish.status == 503
    assert "one_" in wish.detail  # whom to ask instead
    assert standby.asks("POST", "/reports", Batch((), node="n").to_json()).status == 503
    lab.until(lambda: standby.asks("GET", "/cluster-info").status == 200, "every replica shows the cluster")
    assert migrations(lab) == []
    leader.until_asked(worker)
    until_moved(lab, worker)


def test_reports_are_answered_with_the_instance_which_changes_with_the_operator(lab: Lab, secret: Path):
    visitor = started(lab, secret)
    worker = trains(lab)
    report = Report(f"{lab.namespace}/job1-worker-0", seq=1, at_s=1.0, value=0.5)
    stranger = Report(f"{lab.namespace}/nobody-worker-0", seq=1, at_s=1.0, value=0.5)
    batch = Batch((report, stranger), monitor="m", node=worker["spec"]["nodeName"]).to_json()
    assert visitor.asks("POST", "/reports", batch, token="wrong").status == 401
    lab.until(lambda: lab.operators[0].operator.leads, "it leads")
    first = Answer.from_json(visitor.asks("POST", "/reports", batch).body)
    again = Answer.from_json(visitor.asks("POST", "/reports", batch).body)
    assert (first.passed_over, again.passed_over) == (1, 2)
    assert first.instance == again.instance
    lab.operators[0].restart()
    lab.until(lambda: lab.operators[0].operator.leads, "it leads again")
    assert Answer.from_json(visitor.asks("POST", "/reports", batch).body).instance != first.instance
