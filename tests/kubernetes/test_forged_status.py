"""Statuses that another client wiped or forged, which needs rights to the status: what the scheduler knows holds."""

import pytest
import yaml

from sterna.engines.kubernetes.loop.restore_pace import AT_ONCE
from tests.cluster.requests import Body
from tests.kubernetes.jobs import elasticjob, tfjob
from tests.kubernetes.lab import Lab


def write_status(lab: Lab, kind: str, status: Body | None) -> None:
    """By a client that may. None: it is wiped."""
    path = f"{lab._path(kind)}/job1/status"
    if status is not None:
        lab.api.patch(path, {"status": status})
        return
    body = lab.job(kind, "job1")
    body.pop("status", None)
    lab.api.replace(path, body)


def trains(lab: Lab, *, clean: str = "All") -> str:
    """A job that runs; the uid of its only pod."""
    lab.nodes.add(1, gpus=2)
    lab.start()
    lab.submit(tfjob("job1", ps=0, policy="Never", clean=clean))
    pod = lab.until_pods("job1", "job1-worker-0")["job1-worker-0"]
    lab.until_rest()
    return str(pod["metadata"]["uid"])


def ends(lab: Lab, code: int = 0) -> None:
    lab.nodes.exit("job1-worker-0", code)
    lab.until_true("TFJob", "job1", "Succeeded" if code == 0 else "Failed")
    lab.until_rest()


def true_conditions(lab: Lab) -> set[str]:
    return {found["type"] for found in lab.job("TFJob", "job1")["status"]["conditions"] if found["status"] == "True"}


DONE = {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded", "message": "forged"}


@pytest.mark.parametrize("away", [False, True], ids=["while the operator looks", "while no operator is there"])
def test_r3_a_forged_success_does_not_hide_that_a_job_failed(lab: Lab, away: bool):
    trains(lab)
    (running,) = lab.operators
    if away:
        running.kill()
    conditions = [*lab.job("TFJob", "job1")["status"]["conditions"], DONE]
    write_status(lab, "TFJob", {"conditions": conditions})
    if away:
        running.restart()
    lab.until(lambda: "Succeeded" not in true_conditions(lab), "the forged end is taken back")
    ends(lab, 1)
    assert true_conditions(lab) == {"Created", "Failed"}


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"scheduling": {"epoch": 999_999}}, id="an epoch of a leader that never was"),
        pytest.param({"scheduling": {"epoch": 10**15}}, id="an epoch that no leader can ever have"),
        pytest.param({"scheduling": {"phase": "Succeeded", "seats": None}}, id="an end that it did not come to"),
        pytest.param({"scheduling": {"phase": "Waiting", "seats": None}}, id="nothing that it holds"),
        pytest.param({"scheduling": {"seats": ["worker/0/another/abcde"]}}, id="another seat"),
        pytest.param({"scheduling": {"incarnation": 77}}, id="another incarnation"),
        pytest.param(None, id="a status that is wiped"),
    ],
)
def test_r3_a_running_job_goes_on_as_it_was_whatever_is_written_over_its_status(lab: Lab, forged: Body | None):
    pod = trains(lab)
    before = lab.job("TFJob", "job1")["status"]
    write_status(lab, "TFJob", forged)
    lab.until(lambda: "StatusOverwritten" in lab.reasons("job1"), "its owner is told")
    lab.until_rest()
    after = lab.job("TFJob", "job1")["status"]
    assert {key: after["scheduling"].get(key) for key in ("phase", "seats", "incarnation", "epoch")} == {
        key: before["scheduling"].get(key) for key in ("phase", "seats", "incarnation", "epoch")
    }
    assert [found["metadata"]["uid"] for found in lab.all_pods("job1")] == [pod]
    ends(lab)


def test_r3_a_forged_epoch_does_not_stop_an_operator_that_has_not_looked_yet(lab: Lab):
    """Nothing was written in this term that it could be compared with, but the Lease tells that no later one began."""
    lab.nodes.add(1, gpus=1)
    body = yaml.safe_load(elasticjob("job1"))
    body["spec"]["runPolicy"] = {"suspend": True}
    lab.submit(yaml.safe_dump(body))
    write_status(lab, "ElasticJob", {"scheduling": {"epoch": 10**15}})
    lab.start(elect=True)
    lab.until_true("ElasticJob", "job1", "Suspended")
    lab.edit("ElasticJob", "job1", {"spec": {"runPolicy": {"suspend": False}}})
    lab.until_pods("job1", "job1-worker-0")


@pytest.mark.parametrize("away", [False, True], ids=["while the operator looks", "while no operator is there"])
@pytest.mark.parametrize(
    "forged", [pytest.param(None, id="wiped"), pytest.param({"scheduling": {"phase": "Waiting"}}, id="waits again")]
)
def test_r3_a_job_that_has_ended_is_not_run_again(lab: Lab, forged: Body | None, away: bool):
    trains(lab)
    ends(lab)
    lab.until_pods("job1")
    (running,) = lab.operators
    if away:
        running.kill()
    write_status(lab, "TFJob", forged)
    if forged is not None:
        write_status(lab, "TFJob", {"conditions": []})
    if away:
        running.restart()
    lab.until_true("TFJob", "job1", "Succeeded")
    lab.until_rest()
    assert lab.phase("TFJob", "job1") == "Succeeded"
    assert not lab.all_pods("job1")
    lab.delete("TFJob", "job1")
    lab.until(lambda: lab.gone("TFJob", "job1"), "it is deleted")
    lab.submit(tfjob("job1", ps=0))  # which is how its owner asks for another run
    lab.until_pods("job1", "job1-worker-0")


def test_r3_a_client_that_writes_over_a_status_again_and_again_is_not_answered_each_time(lab: Lab):
    trains(lab)
    (running,) = lab.operators
    before = running.writes_now
    for epoch in range(12):
        write_status(lab, "TFJob", {"scheduling": {"epoch": 1000 + epoch}})
        lab.until_rest()
    assert 1 <= running.writes_now - before <= AT_ONCE
    assert lab.names("job1") == ["job1-worker-0"]
