"""SharePods for tests: their definition, as KubeShare v1 has it, and what KubeShare's own programs would do."""

from functools import partial
from typing import Any

from tests.cluster.control_plane import ControlPlane
from tests.cluster.requests import APPLY, ApiError, Body, until
from tests.kubernetes.lab import Lab

GROUP, VERSION, PLURAL = "kubeshare.nthu", "v1", "sharepods"
GPU_ID = "kubeshare/GPUID"

_DEFINITION: Body = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "SharePod", "plural": PLURAL, "singular": "sharepod", "shortNames": ["shp"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(plane: ControlPlane) -> None:
    """Served when this returns. Doing it again changes nothing."""
    name = _DEFINITION["metadata"]["name"]
    plane.api().patch(f"{_DEFINITIONS}/{name}?fieldManager=tests&force=true", _DEFINITION, APPLY)
    until(partial(plane.api().get, f"/apis/{GROUP}/{VERSION}/{PLURAL}"), "SharePods are served", every_s=0.05)


def uninstall(plane: ControlPlane) -> None:
    """Not served when this returns."""

    def is_gone() -> bool:
        try:
            plane.api().get(f"/apis/{GROUP}/{VERSION}")
        except ApiError as error:
            return error.status == 404
        return False

    if not is_gone():
        plane.api().delete(f"{_DEFINITIONS}/{PLURAL}.{GROUP}")
        until(is_gone, "SharePods are not served any more", every_s=0.1)


class SharePods:
    """Those of a lab's namespace."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._path = f"/apis/{GROUP}/{VERSION}/namespaces/{lab.namespace}/{PLURAL}"

    def create(
        self,
        name: str,
        share: str = "0.5",  # empty: it asks for no part of a card
        *,
        memory: str = "1048576",
        high: bool = False,
        node: str = "",
        gpu_id: str = "",
        cpu: str = "1",
        **spec: Any,
    ) -> Body:
        wanted = {"kubeshare/gpu_request": share, "kubeshare/gpu_limit": "1.0", "kubeshare/gpu_mem": memory}
        annotations = {
            **(wanted if share else {}),
            **({"lsalab.nthu/priority": "high"} if high else {}),
            **({GPU_ID: gpu_id} if gpu_id else {}),
        }
        container = {"name": "serve", "image": "localhost/none:1", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "SharePod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [container], **({"nodeName": node} if node else {}), **spec},
        }
        return self._lab.api.create(self._path, body)

    def get(self, name: str) -> Body:
        return self._lab.api.get(f"{self._path}/{name}")

    def delete(self, name: str) -> None:
        self._lab.api.delete(f"{self._path}/{name}")

    def edit(self, name: str, body: Body) -> Body:
        return self._lab.api.patch(f"{self._path}/{name}", body)

    def end(self, name: str) -> None:
        self.edit(name, {"status": {"PodStatus": {"phase": "Succeeded"}}})

    def seat(self, name: str) -> tuple[str, str]:
        """Node and GPUID, empty where there is none."""
        found = self.get(name)
        return found["spec"].get("nodeName", ""), found["metadata"].get("annotations", {}).get(GPU_ID, "")

    def until_placed(self, name: str) -> tuple[str, str]:
        self._lab.until(lambda: self.seat(name)[0], f"SharePod {name} has a node")
        return self.seat(name)

    def until_seen(self) -> None:
        """Until the operator knows all of them, and all pods, as they are now; and has nothing left to do."""
        lab = self._lab

        def holds() -> bool:
            operator = lab.operators[-1].operator
            cache, shares = operator.cache, lab.api.items(self._path) if operator.config.kubeshare else []
            wanted = {_version(found) for found in (*shares, *lab.all_pods())}
            known = {(found.key, found.metadata.resource_version) for found in (*cache.share_pods, *cache.pods)}
            return wanted == known

        lab.until(holds, "the operator is up to date")
        lab.until_rest()

    def realize(self, name: str) -> None:
        """What KubeShare's device manager makes of a placed one: a pod that holds the card, and the pod itself."""
        found = self.get(name)
        node, gpu_id = self.seat(name)
        holder = {"name": f"kubeshare-vgpu-{node}-{gpu_id}", "labels": {"kubeshare/role": "dummyPod"}}
        self._pod(holder, node, {"limits": {"nvidia.com/gpu": "1"}}, may_exist=True)
        meta = found["metadata"]
        owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "SharePod", "name": name, "uid": meta["uid"]}
        real = {"name": name, "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}]}
        self._pod(real, node, found["spec"]["containers"][0]["resources"])

    def _pod(self, metadata: Body, node: str, resources: Body, *, may_exist: bool = False) -> None:
        container = {"name": "main", "image": "localhost/none:1", "resources": resources}
        spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
        try:
            self._lab.api.create(f"/api/v1/namespaces/{self._lab.namespace}/pods", {"metadata": metadata, "spec": spec})
        except ApiError as error:
            if error.status != 409 or not may_exist:
                raise


def _version(found: Body) -> tuple[tuple[str, str], str]:
    meta = found["metadata"]
    return (meta["namespace"], meta["name"]), meta["resourceVersion"]
