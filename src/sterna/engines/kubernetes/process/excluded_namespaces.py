"""Namespaces where jobs are refused, whatever rights the operator has there.

Rights for the whole cluster include `kube-system`, and RBAC knows no "everywhere but there". So the operator itself
makes nothing there, nor in its own namespace: a job in one of these fails with a condition and an event that say so,
and no pod, service or config map follows from it. Pods that others run there are still counted, since they take room.
"""

from collections.abc import Mapping
from typing import Any

from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.world.job_index import Parse, ParsedJob
from sterna.model.errors import InvalidRequest


def refusing_excluded(config: OperatorConfig, parse: Parse) -> Parse:
    """`parse`, for jobs that may be."""

    def parsed(document: Mapping[str, Any]) -> ParsedJob:
        namespace = str(document["metadata"]["namespace"])
        if config.excludes(namespace):
            expected = "another namespace: no jobs are run in this one"
            raise InvalidRequest(field="metadata.namespace", value=namespace, expected=expected)
        return parse(document)

    return parsed
