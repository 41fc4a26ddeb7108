"""The operator as the chart starts it: with the chart's arguments, account and rights, on a real API server."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sterna.interfaces.cli.engine_choice import Engine
from sterna.interfaces.cli.main import cli
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import fresh_name, install_crds, make_namespace
from tests.cluster.ports import free_port
from tests.cluster.requests import until
from tests.deploy.rbac import Right, granted_verbs, refused_verbs, roles_of, used_verbs
from tests.deploy.rendering import Body, objects, render, the_only

PODS_MADE = Right("", "pods", "", "create")
STATUS_WRITTEN = Right("kubeflow.org", "tfjobs", "status", "patch")
LEASE_KEPT = Right("coordination.k8s.io", "leases", "", "patch")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="by default"),
        pytest.param({"watchNamespaces": ["a", "b"], "binding": "none", "nudge": True, "logFormat": "json"}, id="set"),
        pytest.param({"kubeshare": True, "mpiJobs": False}, id="with SharePods and without MPIJobs"),
        pytest.param({"watchNamespaces": ["a"], "seeAllPods": True}, id="some, with pods of all counted"),
        pytest.param({"monitor.enabled": True, "monitor.namespace": "watchers"}, id="with monitors"),
        pytest.param({"excludeNamespaces": ["billing", "web"]}, id="not everywhere"),
        pytest.param({"leaderElection.renewSeconds": 2.5, "extraArgs": ["--in-flight=8"]}, id="more"),
    ],
)
def test_the_command_takes_the_arguments_that_the_chart_gives_it(values):
    command, *arguments = container_of(objects(render(values)))["args"]
    program = typer.main.get_command(cli).commands[command]  # type: ignore[attr-defined]
    context = program.make_context(command, list(arguments))
    assert context.params["watch_namespace"] == values.get("watchNamespaces", [])
    assert context.params["mpi_jobs"] == values.get("mpiJobs", True)
    assert context.params["see_all_pods"] == values.get("seeAllPods", False)
    assert context.params["exclude_namespace"] == values.get("excludeNamespaces", [])
    assert context.params["lease_renew"] == values.get("leaderElection.renewSeconds", 5.0)
    assert context.params["health_port"] == 8080


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param({"watchNamespaces": []}, id="all namespaces"),
        pytest.param({}, id="one namespace"),
        pytest.param({"seeAllPods": True}, id="one namespace and all pods"),
        pytest.param({"watchNamespaces": [], "mpiJobs": False}, id="all namespaces without MPIJobs"),
    ],
)
def test_s4_it_runs_jobs_with_the_rights_it_is_given_and_asks_for_no_others(control_plane, namespace, tmp_path, mode):
    install_crds(control_plane)
    api = control_plane.api()
    jobs = fresh_name("jobs")
    make_namespace(control_plane, jobs)
    values = {"healthPort": free_port(), "watchNamespaces": [jobs], **mode}
    with installed(control_plane, values, namespace, tmp_path) as (user, bodies):
        ready = f"http://127.0.0.1:{values['healthPort']}/readyz"
        until(lambda: urllib.request.urlopen(ready, timeout=5).status == 200, "it answers that it is ready")
        with FakeNodes(control_plane.access(), namespace=jobs) as nodes:
            nodes.add(2, gpus=4)
            path = f"/apis/kubeflow.org/v1/namespaces/{jobs}/tfjobs"
            api.create(path, tf_job("train", workers=2))
            pods = f"/api/v1/namespaces/{jobs}/pods"
            until(lambda: len(running(api.items(pods))) == 2, "its workers run", story=lambda: log_of(tmp_path))
            nodes.exit("train-worker-0", 0)
            nodes.exit("train-worker-1", 0)
            until(lambda: state_of(api.get(f"{path}/train")) == "Succeeded", "it ends", story=lambda: log_of(tmp_path))
            if not values["watchNamespaces"]:
                refused_in(control_plane, "kube-system", namespace)
    written = {
        (event["objectRef"]["namespace"], event["objectRef"]["resource"], event["objectRef"].get("subresource", ""))
        for event in control_plane.audited()
        if event["user"].get("username") == user
        and event["verb"] in ("create", "update", "patch", "delete")
        and event.get("objectRef", {}).get("namespace") in ("kube-system", namespace)
    }
    own = {(namespace, what, "") for what in ("leases", "configmaps", "events")}
    refusals = {(where, "tfjobs", "status") for where in ("kube-system", namespace)}
    assert written <= own | refusals | {("kube-system", "events", "")}, "nothing is made there"
    lease = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/sterna")
    assert not lease["spec"].get("holderIdentity"), "told to end, it gives the Lease back"
    used = used_verbs(control_plane.audited(), user)
    assert {str(right) for right in refused_verbs(control_plane.audited(), user)} == set()
    assert {str(right) for right in used - granted_verbs(roles_of(bodies, user.split(":")[-1]))} == set()
    assert {PODS_MADE, STATUS_WRITTEN, LEASE_KEPT} <= used
    replayed = CliRunner().invoke(cli, ["replay", str(tmp_path / "journal")], obj=Engine.KUBERNETES)
    assert "decisions, all the same" in replayed.stdout, replayed.output
    api.delete(f"/api/v1/namespaces/{jobs}")


def refused_in(plane: ControlPlane, *namespaces: str) -> None:
    """A job in each of them gets a condition that says why, and goes."""
    api = plane.api()
    for namespace in namespaces:
        path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs"
        api.create(path, tf_job("intruder", workers=1))

    def why(namespace: str) -> str:
        job = api.get(f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/intruder")
        conditions = job.get("status", {}).get("conditions", [])
        return next((str(one["message"]) for one in conditions if one["type"] == "Failed"), "")

    for namespace in namespaces:
        said = until(partial(why, namespace), f"it is refused in {namespace}")
        assert "metadata.namespace" in said
        assert "another namespace" in said
        api.delete(f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/intruder")


@contextmanager
def installed(
    plane: ControlPlane, values: dict[str, object], namespace: str, tmp_path: Path
) -> Iterator[tuple[str, list[Body]]]:
    """Everything of the chart but the Deployment, whose container runs here as a process. Its user, and the objects."""
    version = str(plane.api().get("/version")["gitVersion"]).removeprefix("v")
    name = fresh_name("sterna")  # the cluster's roles are shared with other tests
    values = {**values, "crds.install": False, "fullnameOverride": name}
    bodies = objects(render(values, namespace=namespace, kube_version=version))
    around = json.dumps({"apiVersion": "v1", "kind": "List", "items": [b for b in bodies if b["kind"] != "Deployment"]})
    plane.kubectl("apply", "-f", "-", stdin=around)
    kubeconfig = plane.service_account_kubeconfig(namespace, name)
    arguments = [*container_of(bodies)["args"], "--health-host=127.0.0.1", f"--kubeconfig={kubeconfig}"]
    arguments += [f"--journal={tmp_path / 'journal'}"]  # where the volume of the chart would be
    program = Path(sys.executable).with_name("sterna")
    with (tmp_path / "operator.log").open("w") as log:
        process = subprocess.Popen([program, *arguments], stderr=log, env={**os.environ, "POD_NAME": "sterna-0"})
        try:
            yield f"system:serviceaccount:{namespace}:{name}", bodies
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()
            plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=_cluster_wide(bodies))
    assert process.returncode == 0, log_of(tmp_path)


def container_of(bodies: list[Body]) -> Body:
    found: Body = the_only(bodies, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return found


def tf_job(name: str, *, workers: int) -> Body:
    container = {"name": "tensorflow", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    worker = {"replicas": workers, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "tfReplicaSpecs": {"Worker": worker}},
    }


def running(pods: list[Body]) -> list[Body]:
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


def state_of(job: Body) -> str:
    conditions = job.get("status", {}).get("conditions", [])
    return next((str(one["type"]) for one in conditions if one["type"] == "Succeeded" and one["status"] == "True"), "")


def log_of(tmp_path: Path) -> str:
    return (tmp_path / "operator.log").read_text()[-4000:]


def _cluster_wide(bodies: list[Body]) -> str:
    items = [body for body in bodies if body["kind"].startswith("Cluster")]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
