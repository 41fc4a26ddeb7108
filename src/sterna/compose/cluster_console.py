"""A cluster as a user's terminal asks it: the Kubernetes console with the credentials of a kubeconfig.

Needs the extra `kubernetes`; the operator and its parts stay out, since a command has to answer in a moment.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sterna.engines.kubernetes.apiserver.client import Configuration, connect
from sterna.engines.kubernetes.console import ClusterScheduler, Submitted
from sterna.engines.kubernetes.process.settings import NAMESPACE
from sterna.wire.document_limits import read_document
from sterna.wire.manifests import read_manifests, workload_of_object


@asynccontextmanager
async def opened_console(configuration: Configuration, namespace: str) -> AsyncIterator[ClusterScheduler]:
    """`namespace`: of what is named without one."""
    async with (
        connect(configuration) as api,
        ClusterScheduler(
            api,
            namespace=namespace,
            read=_submitted,
            parse=lambda document: workload_of_object(document).workload,
            operator_namespace=os.environ.get("STERNA_OPERATOR_NAMESPACE") or NAMESPACE,
        ) as scheduler,
    ):
        yield scheduler


def _submitted(text: str) -> list[Submitted]:
    """The jobs of a text: as the API server is given them, and as we understand them."""
    return [
        Submitted(read_document(found.text, name=f"document {found.index}"), found.workload, found.warnings)
        for found in read_manifests(text)
    ]
