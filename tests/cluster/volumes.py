"""Persistent volumes and claims, bound by the cluster's own controller: no disk is behind them.

with Volumes(control_plane.api(), namespace) as volumes:
    volumes.bound("data", terms=[{"matchExpressions": [...]}])
    volumes.until_bound("data")
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tests.cluster.requests import Api, Body, until

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SIZE = {"storage": "1Gi"}


class Volumes:
    """What belongs to no namespace goes when this ends; claims go with their namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self._made: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for path in self._made:
            self._api.delete(path)

    def bound(
        self, name: str, *, terms: Sequence[Mapping[str, Any]] = (), labels: Mapping[str, str] | None = None
    ) -> None:
        """A claim that gets its volume. `terms`: where the volume can be; none: anywhere."""
        self.claim(name, volumeName=self.volume(name, terms=terms, labels=labels))

    def until_bound(self, *names: str) -> None:
        until(lambda: all(self._is_bound(name) for name in names), f"claims {', '.join(names)} are bound")

    def volume(
        self,
        claim: str,
        *,
        terms: Sequence[Mapping[str, Any]] = (),
        labels: Mapping[str, str] | None = None,
        **more: Any,
    ) -> str:
        """Meant for this claim. Its name."""
        name = f"{self._namespace}-{claim}"
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
        spec = {
            "capacity": SIZE,
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/none"},
            "claimRef": {"namespace": self._namespace, "name": claim},
            **affinity,
            **more,
        }
        self._create(VOLUMES, {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec})
        return name

    def claim(self, name: str, *, annotations: Mapping[str, str] | None = None, **spec: Any) -> None:
        body = {
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": SIZE}, "storageClassName": "", **spec},
        }
        self._api.create(self.path(), body)

    def path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims" + (f"/{name}" if name else "")

    def storage_class(self, *, waits_for_pod: bool, provisioner: str = "example.com/disks", **more: Any) -> str:
        """Its name."""
        name = f"{self._namespace}-{len(self._made)}"
        mode = "WaitForFirstConsumer" if waits_for_pod else "Immediate"
        self._create(
            CLASSES, {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
        )
        return name

    def _is_bound(self, name: str) -> bool:
        status: Body = self._api.get(self.path(name)).get("status", {})
        return status.get("phase") == "Bound"

    def _create(self, path: str, body: Body) -> None:
        self._api.create(path, body)
        self._made.append(f"{path}/{body['metadata']['name']}")
