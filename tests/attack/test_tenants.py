"""One tenant against another, before a real API server: whatever alice writes into her namespace, the jobs of the
victim's namespace go on as if she were not there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sterna.protocol import Status, WorkerPhase
from sterna.protocol.reports import Batch, Report
from tests.attack.tenants import Tenant, write_end
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import install_crds
from tests.cluster.requests import ApiError, Body
from tests.kubernetes.jobs import elasticjob, tfjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import grant_shipped_rights
from tests.kubernetes.sharepods import GROUP, SharePods, install
from tests.kubernetes.visiting import SECRET, Visitor

FINISHED = Status(pid=1, phase=WorkerPhase.FINISHED, step=1, units_done=1.0).to_json()
JOBS = {
    "TFJob": tfjob("job1", gpus=0, cpu="1", ps=0),
    "ElasticJob": elasticjob("job1", gpus=0),
}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    install(control_plane)
    grant_shipped_rights(control_plane)
    return control_plane


@pytest.fixture
def lab(plane: ControlPlane, fake_nodes: FakeNodes, namespace: str) -> Iterator[Lab]:
    found = Lab(plane, fake_nodes, namespace)
    found.nodes.add(3, gpus=0, cpu="8")
    yield found
    found.close()


@pytest.fixture
def alice(lab: Lab) -> Iterator[Tenant]:
    found = Tenant(lab, "alice")
    yield found
    found.close()


def started(lab: Lab, alice: Tenant, **settings: Any) -> None:
    lab.start(watch=(lab.namespace, alice.namespace), **settings)


def trains(lab: Lab, kind: str = "TFJob") -> Body:
    """The victim's job; its only worker."""
    lab.submit(JOBS[kind])
    return lab.until_pods("job1", "job1-worker-0")["job1-worker-0"]


def until_known(lab: Lab, tenant: Tenant) -> None:
    """Until the operator has seen every pod of this tenant as it is now, and has nothing left to do."""

    def holds() -> bool:
        cache = lab.operators[-1].operator.cache
        here = {(pod["metadata"]["name"], pod["metadata"]["resourceVersion"]) for pod in _pods(tenant)}
        known = {
            (pod.metadata.name, pod.metadata.resource_version)
            for pod in cache.pods
            if pod.metadata.namespace == tenant.namespace
        }
        return here == known

    lab.until(holds, "the operator knows the pods of the other tenant")
    lab.until_rest()


def guests(lab: Lab, node: str) -> set[str]:
    """Who takes room on a node beside training, as the next decision sees it."""
    view = lab.operators[-1].operator.world.roster.cluster.by_id
    return {guest.id for guest in next(found for name, found in view.items() if name == node).guests}


def hers_alone(lab: Lab) -> None:
    """From now on no kubelet starts or ends anything: what becomes of her pods is what she writes."""
    lab.nodes.habits.hold_starts = True
    lab.nodes.habits.on_stop = lambda _: None


def unharmed(lab: Lab, worker: Body, kind: str) -> None:
    """The victim's job runs on with the pod that it had."""
    (pod,) = lab.all_pods("job1")
    assert pod["metadata"]["uid"] == worker["metadata"]["uid"]
    assert "deletionTimestamp" not in pod["metadata"]
    assert pod["status"]["phase"] == "Running"
    true = {found["type"] for found in lab.job(kind, "job1")["status"]["conditions"] if found["status"] == "True"}
    assert "Running" in true
    assert not true & {"Succeeded", "Failed", "Restarting"}


def _pods(tenant: Tenant) -> list[Body]:
    return tenant.api.items(tenant.path("pods"))


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize(
    ("code", "word"),
    [
        pytest.param(0, "", id="exits 0"),
        pytest.param(1, "", id="exits 1"),
        pytest.param(0, FINISHED, id="says finished"),
    ],
)
def test_s1_a_pod_that_names_another_namespaces_job_neither_ends_nor_fails_it(
    lab: Lab, alice: Tenant, kind: str, code: int, word: str
):
    started(lab, alice)
    worker = trains(lab, kind)
    name, node = worker["metadata"]["name"], worker["spec"]["nodeName"]
    hers_alone(lab)
    alice.twin_of(worker)
    lab.until(lambda: f"{alice.namespace}/{name}" in guests(lab, node), "it counts as a guest")
    alice.ends(name, code, word)
    until_known(lab, alice)
    unharmed(lab, worker, kind)
    lab.until(lambda: "NotOfThisJob" in {event["reason"] for event in alice.events(name)}, "its owner is told")
    told = [event["message"] for event in alice.events(name) if event["reason"] == "NotOfThisJob"]
    assert all(lab.namespace not in message for message in told), "she is not told whose job it is"
    assert "NotOfThisJob" not in lab.reasons("job1"), "the victim's events are not hers to fill"


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"labels": {}}, id="without our label"),
        pytest.param({"labels": {"tf-job-name": "another"}}, id="with another job's label"),
        pytest.param("controller", id="not as its controller"),
        pytest.param("name", id="under another job's name"),
    ],
)
def test_s1_a_pod_beside_a_job_is_its_own_only_if_owner_flag_and_label_agree(lab: Lab, alice: Tenant, forged: Any):
    """In the same namespace, where somebody copies a pod for debugging, say.

    The cluster's garbage collector may delete the copy at any time, since an owner of that name is not there: so its
    status is written here, whether a kubelet would still have started it or not.
    """
    started(lab, alice)
    worker = trains(lab)
    hers_alone(lab)
    (owner,) = worker["metadata"]["ownerReferences"]
    if forged == "controller":
        forged = {"ownerReferences": [{**owner, "controller": False}]}
    elif forged == "name":
        forged = {"ownerReferences": [{**owner, "name": "job2"}]}
    container = {"name": "tensorflow", "image": "localhost/none:1", "resources": {"requests": {"cpu": "1"}}}
    copied = {key: worker["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}
    body = {
        "metadata": {**copied, "name": "job1-worker-9", "finalizers": ["example.com/hold"], **forged},
        "spec": {"nodeName": worker["spec"]["nodeName"], "restartPolicy": "Never", "containers": [container]},
    }
    path = f"/api/v1/namespaces/{lab.namespace}/pods"
    copy = lab.api.create(path, body)
    try:
        who = f"{lab.namespace}/job1-worker-9"
        lab.until(lambda: who in guests(lab, worker["spec"]["nodeName"]), "it counts as a guest")
        write_end(lab.api, f"{path}/job1-worker-9", 0)
        lab.until_rest()
        assert lab.job("TFJob", "job1")["status"]["replicaStatuses"]["Worker"].get("succeeded", 0) == 0
        present = lab.api.get(f"{path}/job1-worker-9")
        assert present["metadata"]["uid"] == copy["metadata"]["uid"]
        assert lab.phase("TFJob", "job1") == "Running"
    finally:
        lab.api.patch(f"{path}/job1-worker-9", {"metadata": {"finalizers": None}})


def test_s1_a_service_of_another_namespace_does_not_stand_for_a_jobs_own(lab: Lab, alice: Tenant):
    """Else the workers of the victim never find each other."""
    body = yaml.safe_load(JOBS["TFJob"])
    body["spec"]["runPolicy"] = {"suspend": True}
    lab.submit(yaml.safe_dump(body))
    meta = lab.job("TFJob", "job1")["metadata"]
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job1", "uid": meta["uid"], "controller": True}
    labels = {"group-name": "kubeflow.org", "tf-job-name": "job1", "tf-replica-type": "worker", "tf-replica-index": "0"}
    forged = {"name": "job1-worker-0", "labels": labels, "ownerReferences": [owner], "finalizers": ["example.com/hold"]}
    made = alice.api.create(alice.path("services"), {"metadata": forged, "spec": {"clusterIP": "None"}})
    try:
        started(lab, alice)
        lab.edit("TFJob", "job1", {"spec": {"runPolicy": {"suspend": False}}})
        lab.until_pods("job1", "job1-worker-0")
        lab.until_rest()
        own = lab.api.get(f"/api/v1/namespaces/{lab.namespace}/services/job1-worker-0")
        assert own["metadata"]["ownerReferences"][0]["uid"] == meta["uid"]
    finally:
        alice.api.patch(f"{alice.path('services')}/{made['metadata']['name']}", {"metadata": {"finalizers": None}})


def test_s1_a_pod_that_names_another_namespaces_sharepod_takes_room(lab: Lab, alice: Tenant):
    """Else its room is given to training a second time."""
    started(lab, alice, kubeshare=True)
    node = lab.nodes.add(1, gpus=1)[0]
    shares = SharePods(lab)
    shares.create("serve", node=node, gpu_id="abcde")
    shares.realize("serve")
    real = lab.api.get(f"/api/v1/namespaces/{lab.namespace}/pods/serve")
    real["metadata"] |= {"labels": {}, "annotations": {}}
    hers_alone(lab)
    alice.twin_of(real)
    alice.twin_of(real, name=f"kubeshare-vgpu-{node}-abcde", ownerReferences=[])  # nor is she KubeShare itself
    until_known(lab, alice)
    hers = {f"{alice.namespace}/serve", f"{alice.namespace}/kubeshare-vgpu-{node}-abcde"}
    assert guests(lab, node) == {f"sharepod {lab.namespace}/serve", "vgpu abcde", *hers}
    path = f"/apis/{GROUP}/v1/namespaces/{lab.namespace}/sharepods"
    with pytest.raises(ApiError, match="forbidden"):  # and she cannot read whose it is
        alice.api.items(path)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"job": "job1", "worker": 0}, id="by its name"),
        pytest.param({"job": "{victim}/job1", "worker": 0}, id="by namespace and name"),
        pytest.param({"job": "../{victim}/job1"}, id="by a path"),
        pytest.param({"node": "{node}"}, id="by its node"),
    ],
)
def test_s1_a_migration_reaches_only_jobs_of_its_own_namespace(lab: Lab, alice: Tenant, spec: dict[str, Any]):
    started(lab, alice)
    worker = trains(lab)
    known = {"victim": lab.namespace, "node": worker["spec"]["nodeName"]}
    spec = {key: value.format(**known) if isinstance(value, str) else value for key, value in spec.items()}
    (owner,) = worker["metadata"]["ownerReferences"]
    meta = {
        "name": "away",
        "labels": {"sterna.dev/job-uid": owner["uid"], "sterna.dev/worker": "0"},
    }
    path = alice.kind("Migration")
    body = {"apiVersion": "sterna.dev/v1alpha1", "kind": "Migration", "metadata": meta, "spec": spec}
    where = f"{path}/{alice.api.create(path, body)['metadata']['name']}"
    lab.until(lambda: alice.api.get(where).get("status", {}).get("phase") == "Refused", "it is refused")
    assert lab.namespace not in alice.api.get(where)["status"]["message"].replace(spec.get("job", ""), "")
    lab.until_rest()
    unharmed(lab, worker, "TFJob")


@pytest.mark.parametrize("shared", [False, True], ids=["as installed", "where the operator's settings say so"])
def test_s1_what_one_tenant_reports_of_a_category_teaches_no_other(
    lab: Lab, alice: Tenant, tmp_path: Path, shared: bool
):
    """She names her job as the victim's is named, and reports that it is over after one unit."""
    secret = tmp_path / "token"
    secret.write_text(SECRET)
    started(lab, alice, door_port=0, token_file=secret, share_learning=shared)
    visitor = Visitor(lab, lab.operators[-1])
    alice.api.create(alice.kind("TFJob"), yaml.safe_load(JOBS["TFJob"]))
    lab.until(lambda: [pod["status"].get("phase") for pod in _pods(alice)] == ["Running"], "her job runs")
    until_known(lab, alice)
    (pod,) = _pods(alice)
    name, node = f"{alice.namespace}/job1-worker-0", pod["spec"]["nodeName"]
    said = [Report(name, seq, 1000.0 + 100 * seq, units_done=float(seq), workers=1) for seq in range(1, 12)]
    for report in said:
        answer = visitor.asks("POST", "/reports", Batch((report,), monitor="m", node=node).to_json())
        assert answer.status == 200
    world = lab.operators[-1].operator.world
    lab.until(lambda: world.lessons.knowledge.models, "something is learned of it")
    lab.submit(JOBS["TFJob"])
    lab.until_pods("job1", "job1-worker-0")
    lab.until_rest()
    own = next(job for job in world.jobs if job.object.metadata.namespace == lab.namespace)
    value = world.values[own.id]
    assert (value.curve.unit_s(1) == pytest.approx(1.0)) is not shared, "100 seconds a unit, as she says"
