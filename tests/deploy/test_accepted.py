"""A real API server takes every object of the chart, for every kind of installation."""

import json
import secrets

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import fresh_name
from tests.cluster.requests import until
from tests.deploy.rendering import MANIFEST, Body, objects, of_kind, render, the_only

VALUES = [
    pytest.param({}, id="by default"),
    pytest.param({"binding": "binding", "nudge": True, "kubeshare": True}, id="binding, nudging, SharePods"),
    pytest.param({"binding": "none", "clusterDomain": "cluster.local"}, id="the cluster's scheduler"),
    pytest.param({"watchNamespaces": ["default"]}, id="one namespace"),
    pytest.param({"monitor.enabled": True}, id="with monitors"),
    pytest.param({"networkPolicy.enabled": False, "podDisruptionBudget.enabled": False}, id="less around it"),
    pytest.param({"crds.install": False, "rbac.create": False, "rbac.aggregate": False}, id="others do the rest"),
    pytest.param(
        {
            "replicas": 3,
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"node-role": "control"},
            "tolerations": [{"key": "control", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "topologyKey": "topology.kubernetes.io/zone",
            "podAnnotations": {"note": "a: b"},
            "podLabels": {"team": "platform"},
            "imagePullSecrets": [{"name": "registry"}],
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
            "extraArgs": ["--log-level=debug: yes"],
            "serviceAccount.annotations": {"who": "us"},
            "networkPolicy.from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
            "config": {"policy": "las", "settings": {"demote": "jump"}, "rateLimitSeconds": 10},
            "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            "runAsUser": None,
        },
        id="everything else set",
    ),
]


def for_this(plane: ControlPlane) -> str:
    return str(plane.api().get("/version")["gitVersion"]).removeprefix("v")


def dry_run(plane: ControlPlane, bodies: list[Body]) -> list[str]:
    """What the API server would have done with each object; it checks all that it checks of a real one."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    return plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=text).strip().splitlines()


@pytest.mark.parametrize("values", VALUES)
def test_every_object_is_accepted(control_plane, namespace, values):
    name = f"sterna-{secrets.token_hex(3)}"  # so that nothing is there under this name from another test
    bodies = objects(
        render(
            {**values, "fullnameOverride": name}, namespace=namespace, kube_version=for_this(control_plane), tests=True
        )
    )
    (test_pod,) = of_kind(bodies, "Pod")
    control_plane.api().create(  # which admission looks for when it sees a pod
        f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}}
    )
    answers = dry_run(control_plane, bodies)
    assert len(answers) == len(bodies)
    assert [answer for answer in answers if "(server dry run)" not in answer] == []
    template = the_only(bodies, "Deployment")["spec"]["template"]
    pod = {**test_pod, "metadata": {**template["metadata"], "name": name, "namespace": namespace}}
    assert dry_run(control_plane, [{**pod, "spec": template["spec"]}]) == [f"pod/{name} created (server dry run)"]


def test_installed_for_real_the_deployment_makes_its_pods_and_a_change_at_run_time_outlives_an_upgrade(control_plane):
    """Nothing runs them here, there are no nodes; that the controller could make them means that all of it fits."""
    api = control_plane.api()
    version = for_this(control_plane)
    name = fresh_name("installed")  # of the namespace, and of everything that is the cluster's
    config = f"/api/v1/namespaces/{name}/configmaps/sterna-config"

    def rendered(**values: object) -> str:
        fixed = {"createNamespace": True, "fullnameOverride": name}
        return render({**fixed, **values}, namespace=name, kube_version=version)

    def apply(**values: object) -> None:
        control_plane.kubectl("apply", "-f", "-", stdin=rendered(**values))

    apply()
    try:
        deployment = f"/apis/apps/v1/namespaces/{name}/deployments/{name}"
        until(lambda: api.get(deployment)["status"].get("updatedReplicas") == 2, "two pods were made")
        pods = api.items(f"/api/v1/namespaces/{name}/pods")
        assert {pod["spec"]["serviceAccountName"] for pod in pods} == {name}
        api.patch(config, {"data": {"policy": "afs-l", "rateLimitSeconds": "30"}})  # as `sterna policy set` does
        apply(replicas=1)
        assert api.get(config)["data"] == {"policy": "afs-l", "rateLimitSeconds": "30"}
        apply(config={"policy": "las"})
        assert api.get(config)["data"] == {"policy": "las", "rateLimitSeconds": "30"}
    finally:
        control_plane.kubectl("delete", "--wait=false", "-f", "-", stdin=_but_definitions(rendered()))


def test_the_manifest_is_accepted(control_plane):
    """As it is, but for the disruption budget, whose API is newer than the oldest cluster that is supported."""
    bodies = objects(MANIFEST.read_text())
    if for_this(control_plane).startswith("1.20."):
        the_only(bodies, "PodDisruptionBudget")["apiVersion"] = "policy/v1beta1"
    api = control_plane.api()
    name = f"sterna-{secrets.token_hex(3)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for body in bodies:
        if "namespace" in body["metadata"]:
            body["metadata"]["namespace"] = name
    assert len(dry_run(control_plane, bodies)) == len(bodies)
    api.delete(f"/api/v1/namespaces/{name}")


def _but_definitions(text: str) -> str:
    """Other tests of this worker rely on the kinds."""
    kept = [body for body in objects(text) if body["kind"] != "CustomResourceDefinition"]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": kept})
