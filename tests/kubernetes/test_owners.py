"""What is a job's and does not say so any more is taken back, and a change that was missed heals."""

from collections.abc import Container

import pytest

from tests.cluster.requests import Body
from tests.kubernetes.jobs import elasticjob, mpijob, tfjob
from tests.kubernetes.lab import Lab, Running

GANG = ("gang-worker-0", "gang-worker-1")
JOBS = {
    "ElasticJob": ("gang", elasticjob("gang", workers=(2, 2)), GANG),
    "TFJob": ("served", tfjob("served", workers=(2, 2, 2)), ("served-ps-0", "served-worker-0", "served-worker-1")),
    "MPIJob": ("mpi", mpijob("mpi", workers=(1, 1, 1)), ("mpi-launcher-0", "mpi-worker-0")),
}


def begun(lab: Lab, kind: str) -> tuple[Running, dict[str, str]]:
    """Its pods run, and nothing is left to do. The uids of its pods, by name."""
    name, text, pods = JOBS[kind]
    lab.nodes.add(3, gpus=1)
    running = lab.start(retry_s=0.3, retry_max_s=0.5)
    lab.submit(text)
    found = lab.until_pods(name, *pods)
    lab.until_rest()
    return running, {pod: body["metadata"]["uid"] for pod, body in found.items()}


def disown(lab: Lab, path: str) -> str:
    """Take its owner references away. Its path in full."""
    full = f"/api/v1/namespaces/{lab.namespace}/{path}"
    assert owner(lab.api.patch(full, {"metadata": {"ownerReferences": None}})) is None
    return full


def owner(found: Body) -> str | None:
    owners = found["metadata"].get("ownerReferences", [])
    return next((str(each["name"]) for each in owners if each.get("controller")), None)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        pytest.param("ElasticJob", "pods/gang-worker-1", id="a pod without which the others would begin anew"),
        pytest.param("TFJob", "pods/served-worker-1", id="a pod that others can do without"),
        pytest.param("TFJob", "services/served-ps-0", id="a service"),
        pytest.param("MPIJob", "configmaps/mpi-config", id="a host list"),
    ],
)
@pytest.mark.parametrize("away", [False, True], ids=["while the operator looks", "while no operator runs"])
def test_8_what_lost_its_owner_reference_gets_it_back_and_its_job_trains_on(lab: Lab, kind: str, path: str, away: bool):
    running, uids = begun(lab, kind)
    name = JOBS[kind][0]
    before = lab.job(kind, name)["status"]["scheduling"]
    if away:
        running.kill()
    full = disown(lab, path)
    if away:
        running.restart()
    lab.until(lambda: owner(lab.api.get(full)) == name, f"{path} has its owner again")
    lab.until_rest()
    after = lab.job(kind, name)["status"]["scheduling"]
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.all_pods(name)} == uids
    assert after.get("incarnation") == before.get("incarnation")
    assert after.get("restarts") is None
    if kind != "MPIJob":
        assert {"AdoptedPod", "AdoptedService"} & lab.reasons(name)


def test_8_owners_that_others_wrote_stay(lab: Lab):
    begun(lab, "TFJob")
    path = f"/api/v1/namespaces/{lab.namespace}/services/served-ps-0"
    home = lab.api.create(f"/api/v1/namespaces/{lab.namespace}/configmaps", {"metadata": {"name": "home"}})["metadata"]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "home", "uid": home["uid"]}
    lab.api.patch(path, {"metadata": {"ownerReferences": [other]}})
    lab.until(lambda: owner(lab.api.get(path)) == "served", "it has its owner again")
    owners = lab.api.get(path)["metadata"]["ownerReferences"]
    assert sorted(each["name"] for each in owners) == ["home", "served"]


def test_8_a_change_that_was_missed_heals_and_a_pass_at_rest_writes_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    lab.nodes.add(2, gpus=1)
    running = lab.start(look_again_s=0.5)
    lab.submit(elasticjob("gang", workers=(2, 2)))
    lab.until_pods("gang", *GANG)
    lab.until(lambda: running.operator.carrier.has_told_all, "every event is recorded")
    lab.until_rest()
    looks: list[str] = []
    slow = running.operator.carrier._slow_pass
    due = slow.due

    def spied(now_s: float, there: Container[str]) -> list[str]:
        looks.extend(found := due(now_s, there))
        return found

    monkeypatch.setattr(slow, "due", spied)
    assert running._mortal is not None
    before = running._mortal.writes
    lab.until(lambda: len(looks) >= 4, "it was looked at again and again")
    lab.until_rest()
    assert running._mortal.writes == before

    running.operator.cache.services._listeners.clear()  # from now on it is told of none
    home = f"/api/v1/namespaces/{lab.namespace}/services"
    (service,) = lab.api.items(home)
    lab.api.delete(f"{home}/{service['metadata']['name']}")

    def uids() -> set[str]:
        return {str(each["metadata"]["uid"]) for each in lab.api.items(home)}

    lab.until(lambda: uids() - {service["metadata"]["uid"]}, "the service is there again")
