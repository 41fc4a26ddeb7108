"""Manifests as people give them to Kubernetes, read into workloads; every problem of a file is reported at once."""

from sterna.wire.manifests.reading import ManifestDocument, read_manifests
from sterna.wire.manifests.runnable import require_runnable

__all__ = ["ManifestDocument", "read_manifests", "require_runnable"]
