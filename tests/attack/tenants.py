"""Two tenants of one cluster: the lab's namespace is the victim's, and another user rules over one of his own."""

from typing import Any

from tests.cluster.fixtures import fresh_name, make_namespace
from tests.cluster.requests import Api, Body, until
from tests.kubernetes.lab import GROUPS, Lab

_RBAC = "rbac.authorization.k8s.io"


class Tenant:
    """A user who may do everything in one namespace."""

    def __init__(self, lab: Lab, user: str) -> None:
        self.namespace = fresh_name(f"team-{user}")
        self._admin = lab.plane.api()
        make_namespace(lab.plane, self.namespace)
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
        roles = f"/apis/{_RBAC}/v1/namespaces/{self.namespace}"
        self._admin.create(f"{roles}/roles", {"metadata": {"name": "tenant"}, "rules": rules})
        subject = {"kind": "User", "name": user, "apiGroup": _RBAC}
        role = {"kind": "Role", "name": "tenant", "apiGroup": _RBAC}
        bound = {"metadata": {"name": "tenant"}, "subjects": [subject], "roleRef": role}
        self._admin.create(f"{roles}/rolebindings", bound)
        self.api = lab.plane.api(user)
        until(lambda: self.api.items(self.path("pods")) == [], f"{user} may act in {self.namespace}")

    def close(self) -> None:
        """What finalizers hold back is let go of as well."""
        for pod in self._admin.items(self.path("pods")):
            if pod["metadata"].get("finalizers"):
                path = f"{self.path('pods')}/{pod['metadata']['name']}"
                self._admin.patch(path, {"metadata": {"finalizers": None}})
        self._admin.delete(f"/api/v1/namespaces/{self.namespace}")

    def path(self, plural: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{plural}"

    def kind(self, kind: str) -> str:
        return "/apis/" + GROUPS[kind].replace("{}", f"namespaces/{self.namespace}")

    def twin_of(self, pod: Body, **metadata: Any) -> Body:
        """A pod of this tenant that claims to be that one: its name, labels, annotations, owner and node. A finalizer
        keeps it there when the cluster's garbage collector deletes it."""
        copied = {key: pod["metadata"][key] for key in ("name", "labels", "annotations", "ownerReferences")}
        body = {
            "metadata": {**copied, "finalizers": ["example.com/hold"], **metadata},
            "spec": {
                "nodeName": pod["spec"]["nodeName"],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": pod["spec"]["containers"][0]["name"],
                        "image": "localhost/none:1",
                        "resources": {"requests": {"cpu": "1"}},
                    }
                ],
            },
        }
        return self.api.create(self.path("pods"), body)

    def ends(self, name: str, code: int, message: str) -> None:
        write_end(self.api, f"{self.path('pods')}/{name}", code, message)

    def events(self, name: str) -> list[Body]:
        return [event for event in self.api.items(self.path("events")) if event["involvedObject"]["name"] == name]


def write_end(api: Api, path: str, code: int, message: str = "") -> None:
    """How the pod at `path` ended, as its owner writes it: no kubelet is asked, nor waited for."""
    ended = {"exitCode": code, "message": message, "finishedAt": "2026-01-01T00:00:00Z"}
    container = api.get(path)["spec"]["containers"][0]
    status = {"name": container["name"], "image": container["image"], "imageID": "", "ready": False}
    status |= {"restartCount": 0, "state": {"terminated": ended}}
    api.patch(f"{path}/status", {"status": {"phase": "Failed" if code else "Succeeded", "containerStatuses": [status]}})
