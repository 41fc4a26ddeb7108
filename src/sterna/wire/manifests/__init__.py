"""Manifests as people give them to Kubernetes, read into workloads; every problem of a file is reported at once.

There is one file a kind of job, and one for each part that the kinds share: pods, roles, sizes, where it may run.
"""

from sterna.wire.manifests.migration import read_migration
from sterna.wire.manifests.reading import ManifestDocument, read_manifests, workload_of_object
from sterna.wire.manifests.runnable import read_runnable, require_runnable

__all__ = [
    "ManifestDocument",
    "read_manifests",
    "read_migration",
    "read_runnable",
    "require_runnable",
    "workload_of_object",
]
