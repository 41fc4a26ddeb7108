"""Which names of a job's namespace are taken by objects that are not the job's, as the caches know them."""

from collections.abc import Mapping
from typing import Any

from sterna.engines.contracts.naming import JOB_LABELS
from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject
from sterna.engines.kubernetes.apiserver.ownership import CONFIG_LABELS, JobKey, job_key_of
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.cache.object_store import Store


class TakenNames:
    """`("Pod", "job1-worker-0") in taken`: asked for by a look that is about to create such a thing."""

    def __init__(self, cache: Cache, job: JobKey) -> None:
        self._stores: Mapping[str, Store[Any]] = {
            "Pod": cache.pods,
            "Service": cache.services,
            "ConfigMap": cache.config_maps,
        }
        self._job = job

    def __contains__(self, what: object) -> bool:
        if not isinstance(what, tuple):
            return False
        kind, name = what
        found = self._stores[kind].get(name, self._job.namespace)
        if found is None:
            return False
        labels = CONFIG_LABELS if isinstance(found, ConfigMapObject) else JOB_LABELS
        return job_key_of(found.metadata, labels) != self._job
