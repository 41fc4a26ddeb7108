"""A user at a terminal in front of a real API server: commands that run in this process, and a raw door beside them."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from sterna.engines.kubernetes.apiserver.port import Resource
from sterna.engines.kubernetes.console.finding import JOB_KINDS
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.status.standing_codec import KEYS, standing_text
from sterna.interfaces.cli.main import cli
from tests.cluster.control_plane import ControlPlane
from tests.cluster.requests import Api, Body

OPERATOR = "sterna-system"


@dataclass
class Console:
    plane: ControlPlane
    namespace: str
    kubeconfig: Path

    @property
    def api(self) -> Api:
        return self.plane.api()

    def run(self, *arguments: str, stdin: str | None = None) -> Any:
        runner = CliRunner(env={"KUBECONFIG": str(self.kubeconfig), "STERNA_ENGINE": "kubernetes", "NO_COLOR": "1"})
        return runner.invoke(cli, list(arguments), input=stdin, catch_exceptions=False)

    def answer(self, *arguments: str, stdin: str | None = None) -> str:
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    def data(self, *arguments: str) -> Any:
        return json.loads(self.answer(*arguments, "-o", "json"))

    def refused(self, code: int, *arguments: str, stdin: str | None = None) -> str:
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == code, (result.exit_code, result.output)
        assert "Traceback" not in result.output
        return str(result.stderr)

    def submit(self, manifest: str) -> None:
        self.answer("submit", "-f", "-", stdin=manifest)

    def path(self, resource: Resource, name: str = "", namespace: str = "") -> str:
        group = f"/apis/{resource.group}" if resource.group else "/api"
        where = f"/namespaces/{namespace or self.namespace}" if resource.namespaced else ""
        return f"{group}/{resource.version}{where}/{resource.plural}" + (f"/{name}" if name else "")

    def stored(self, resource: Resource, name: str) -> Body:
        return self.api.get(self.path(resource, name))

    def stand(self, resource: Resource, name: str, standing: Standing, **status: Any) -> None:
        """What an operator would have written about it."""
        body = {"status": {**status, "scheduling": {**dict.fromkeys(KEYS), **standing_text(standing)}}}
        self.api.patch(f"{self.path(resource, name)}/status", body)

    def pod(self, resource: Resource, job: str, word: str, ordinal: int, node: str, **annotations: str) -> str:
        """What an operator would have made for it."""
        owner = self.stored(resource, job)["metadata"]
        name = f"{job}-{word}-{ordinal}"
        label = {"TFJob": "tf-job-name", "ElasticJob": "sterna.dev/job-name"}.get(
            resource.kind, "training.kubeflow.org/job-name"
        )
        body = {
            "metadata": {
                "name": name,
                "labels": {label: job},
                "annotations": annotations,
                "ownerReferences": [
                    {
                        "apiVersion": resource.api_version,
                        "kind": resource.kind,
                        "name": job,
                        "uid": owner["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "nodeName": node,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "trainer",
                        "image": "localhost/none:1",
                        "resources": {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}},
                    }
                ],
            },
        }
        self.api.create(f"/api/v1/namespaces/{self.namespace}/pods", body)
        return name

    def event(self, reason: str, kind: str, name: str) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = {
            "metadata": {"generateName": f"{name}."},
            "involvedObject": {"kind": kind, "namespace": self.namespace, "name": name},
            "reason": reason,
            "message": f"about {reason}",
            "type": "Warning" if reason == "Failed" else "Normal",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self.api.create(f"/api/v1/namespaces/{self.namespace}/events", body)


def console_of(plane: ControlPlane, namespace: str, directory: Path, *, user: str = "admin") -> Console:
    """The context of the kubeconfig names the namespace, as `kubectl config set-context --namespace` makes it."""
    config = json.loads(plane.kubeconfig(user).read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    path = directory / f"{user}.kubeconfig"
    path.write_text(json.dumps(config))
    return Console(plane, namespace, path)


def resource_of(kind: str) -> Resource:
    return next(resource for resource in JOB_KINDS if resource.kind == kind)
