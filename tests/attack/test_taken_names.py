"""Names that a job's objects would have, taken by objects that are not the job's: others are used, and it is told."""

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import install_crds
from tests.cluster.requests import Body
from tests.kubernetes.jobs import elasticjob, mpijob, tfjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import grant_shipped_rights


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    grant_shipped_rights(control_plane)
    return control_plane


@pytest.fixture
def lab(plane: ControlPlane, fake_nodes: FakeNodes, namespace: str) -> Iterator[Lab]:
    found = Lab(plane, fake_nodes, namespace)
    found.nodes.add(2, gpus=2)
    yield found
    found.close()


def path(lab: Lab, plural: str) -> str:
    return f"/api/v1/namespaces/{lab.namespace}/{plural}"


def stranger(lab: Lab, plural: str, name: str, **metadata: object) -> Body:
    """An object that has this name; a pod among them is on no node, and no scheduler looks at it."""
    container = {"name": "main", "image": "localhost/none:1"}
    more: dict[str, Body] = {
        "pods": {"spec": {"schedulerName": "none", "containers": [container]}},
        "services": {"spec": {"clusterIP": "None", "selector": {"app": "another"}}},
        "configmaps": {"data": {"mine": "yes"}},
    }
    return lab.api.create(path(lab, plural), {"metadata": {"name": name, **metadata}, **more[plural]})


def until_running(lab: Lab, *usual: str) -> dict[str, Body]:
    """The pods of the job that run, by the names that they would have."""

    def holds() -> dict[str, Body] | None:
        running = [pod for pod in lab.pods("job1") if pod["status"].get("phase") == "Running"]
        found = {name: pod for name in usual for pod in running if pod["metadata"]["name"].startswith(name)}
        return found if len(found) == len(usual) == len(running) else None

    found: dict[str, Body] = lab.until(holds, f"{usual} run, whatever they are called")
    return found


def until_told(lab: Lab, name: str) -> None:
    lab.until(
        lambda: any(event["reason"] == "NameTaken" and name in event["message"] for event in lab.events("job1")),
        "its owner is told which name is taken",
    )


def unchanged(lab: Lab, plural: str, before: Body) -> None:
    after = lab.api.get(f"{path(lab, plural)}/{before['metadata']['name']}")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def config_of(pod: Body) -> Body:
    env = {found["name"]: found.get("value", "") for found in pod["spec"]["containers"][0]["env"]}
    found: Body = json.loads(env["TF_CONFIG"])
    return found


def test_s1_a_pod_that_has_a_workers_name_keeps_it_and_the_worker_gets_another(lab: Lab):
    theirs = stranger(lab, "pods", "job1-worker-0")
    lab.start()
    lab.submit(tfjob("job1", workers=(2, 2, 2)))
    found = until_running(lab, "job1-ps-0", "job1-worker-0", "job1-worker-1")
    name = found["job1-worker-0"]["metadata"]["name"]
    assert name != "job1-worker-0"
    until_told(lab, "job1-worker-0")
    lab.until_rest()
    assert lab.phase("TFJob", "job1") == "Running"
    lab.operators[0].restart()
    lab.until_rest()
    assert until_running(lab, "job1-ps-0", "job1-worker-0", "job1-worker-1") == found, "a new operator knows it"
    unchanged(lab, "pods", theirs)
    lab.nodes.exit(name, 0)
    lab.until_true("TFJob", "job1", "Succeeded")
    lab.until_pods("job1")


def test_s1_where_a_services_name_is_taken_all_members_are_told_the_other_one(lab: Lab):
    theirs = stranger(lab, "services", "job1-ps-0")
    lab.start()
    lab.submit(tfjob("job1", workers=(2, 2, 2)))
    found = until_running(lab, "job1-ps-0", "job1-worker-0", "job1-worker-1")
    until_told(lab, "job1-ps-0")
    own = {
        service["metadata"]["name"]: service["spec"]["selector"]
        for service in lab.api.items(path(lab, "services"))
        if service["metadata"].get("ownerReferences")
    }
    (other,) = own.keys() - {"job1-worker-0", "job1-worker-1"}
    assert own[other]["tf-replica-type"] == "ps"
    told = {config_of(pod)["cluster"]["ps"][0].split(".")[0] for pod in found.values()}
    assert told == {other}
    unchanged(lab, "services", theirs)
    lab.operators[0].restart()
    lab.until_rest()
    after = {found["metadata"]["name"] for found in lab.api.items(path(lab, "services"))}
    assert after == {"job1-ps-0", *own}, "a new operator makes no second one"


def test_s1_where_a_config_maps_name_is_taken_the_launcher_mounts_another(lab: Lab):
    theirs = stranger(lab, "configmaps", "job1-config")
    lab.start()
    lab.submit(mpijob("job1"))
    found = until_running(lab, "job1-launcher-0", "job1-worker-0")
    until_told(lab, "job1-config")
    volumes = found["job1-launcher-0"]["spec"]["volumes"]
    (name,) = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    assert name.startswith("job1-config-")
    hosts = f"{path(lab, 'configmaps')}/{name}"
    lab.until(lambda: "job1-worker-0" in lab.api.get(hosts)["data"]["hostfile"], "the worker is on the host list")
    unchanged(lab, "configmaps", theirs)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("TFJob", tfjob("job1", ps=0, workers=(2, 2, 2)), id="of workers that come and go by themselves"),
        pytest.param("ElasticJob", elasticjob("job1", workers=(2, 2)), id="of a gang"),
    ],
)
def test_s1_a_forged_pod_that_a_finalizer_keeps_blocks_no_seat(lab: Lab, kind: str, text: str):
    body = yaml.safe_load(text)
    body["spec"]["runPolicy"] = {"suspend": True}
    (job,) = lab.submit(yaml.safe_dump(body))
    owner = {key: job[key] for key in ("apiVersion", "kind")} | {"name": "job1", "uid": job["metadata"]["uid"]}
    label = "tf-job-name" if kind == "TFJob" else "sterna.dev/job-name"
    stranger(
        lab,
        "pods",
        "job1-worker-1",
        labels={label: "job1"},
        ownerReferences=[{**owner, "controller": True}],
        finalizers=["example.com/hold"],
    )
    try:
        lab.start()
        lab.edit(kind, "job1", {"spec": {"runPolicy": {"suspend": False}}})
        found = until_running(lab, "job1-worker-0", "job1-worker-1")
        assert found["job1-worker-1"]["metadata"]["name"] != "job1-worker-1"
        until_told(lab, "job1-worker-1")
        lab.until_rest()
        assert lab.phase(kind, "job1") == "Running"
    finally:
        lab.api.patch(f"{path(lab, 'pods')}/job1-worker-1", {"metadata": {"finalizers": None}})


def test_s4_an_mpijob_called_sterna_beside_the_operator_configures_nothing(lab: Lab):
    running = lab.start()
    lab.submit(mpijob("sterna"))
    lab.until_pods("sterna", "sterna-launcher-0", "sterna-worker-0")
    lab.until_rest()
    maps = {found["metadata"]["name"] for found in lab.api.items(f"/api/v1/namespaces/{lab.namespace}/configmaps")}
    assert "sterna-config" not in maps
    assert any(name.startswith("sterna-config-") for name in maps)
    assert not running.operator.health().problem
    launcher = next(pod for pod in lab.pods("sterna") if "launcher" in pod["metadata"]["name"])
    mounted = {found["configMap"]["name"] for found in launcher["spec"]["volumes"] if "configMap" in found}
    assert mounted <= maps
    forged = {"metadata": {"name": "sterna-config", "ownerReferences": [_reference(lab)]}, "data": {"policy": "bogus"}}
    lab.api.create(f"/api/v1/namespaces/{lab.namespace}/configmaps", forged)
    lab.until(lambda: running.operator.cache.own.get("sterna-config", lab.namespace) is not None, "it is known")
    assert not running.operator.health().problem


def _reference(lab: Lab) -> Body:
    uid = lab.job("MPIJob", "sterna")["metadata"]["uid"]
    return {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "name": "sterna", "uid": uid, "controller": True}
