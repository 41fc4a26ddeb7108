"""A client of a cluster: the same questions, answered from the API server with the credentials of whoever asks.

    from sterna.interfaces.client.cluster import cluster_client

    with closing(cluster_client(namespace="research")) as client:
        print(client.explain("mnist")["summary"])

No operator is asked: what is told stands in the cluster's own objects. Wired here and not in `compose`, which brings
the simulator along: a command has to be there in a moment.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sterna.interfaces.client.client import Client
from sterna.model.errors import EngineRefused

if TYPE_CHECKING:
    from sterna.engines.kubernetes.apiserver.client import Configuration
    from sterna.engines.kubernetes.console import ClusterScheduler, Submitted
    from sterna.interfaces.client.inside import Inside

_PACKAGES = frozenset({"aiohttp", "msgspec", "multidict", "yarl"})


class ClusterClient(Client):
    def __init__(self, line: "Inside", *, namespace: str) -> None:
        super().__init__(line=line, namespace=namespace)
        self._inside = line

    def close(self) -> None:
        """Give the connections back."""
        self._inside.close()


def cluster_client(
    *,
    kubeconfig: str | None = None,  # None: KUBECONFIG, ~/.kube/config, or the pod we are in
    context: str | None = None,  # None: the current one
    namespace: str | None = None,  # None: the context's own
    deadline_s: float | None = None,  # None: as long as a large cluster may take
) -> ClusterClient:
    """Nothing is sent before the first question; what is wrong with the configuration is told now."""
    configuration = _configuration(kubeconfig, context)
    from sterna.interfaces.client.inside import DEADLINE_S, Inside

    where = namespace or configuration.namespace
    line = Inside(
        partial(_opened, configuration, where),
        whom=f"the API server at {configuration.server}",
        deadline_s=deadline_s or DEADLINE_S,
    )
    return ClusterClient(line, namespace=where)


def default_namespace(*, kubeconfig: str | None = None, context: str | None = None) -> str:
    """Of the context. What is wrong with the configuration is an error."""
    return _configuration(kubeconfig, context).namespace


def _configuration(kubeconfig: str | None, context: str | None) -> "Configuration":
    try:
        from sterna.engines.kubernetes.apiserver.client import discovered
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        words = f"the package {error.name} is needed to speak to a cluster: pip install 'sterna[kubernetes]'"
        raise EngineRefused(words) from None
    return discovered(kubeconfig=None if kubeconfig is None else Path(kubeconfig), context=context)


@asynccontextmanager
async def _opened(configuration: "Configuration", namespace: str) -> "AsyncIterator[ClusterScheduler]":
    from sterna.engines.kubernetes.apiserver.client import connect
    from sterna.engines.kubernetes.console import ClusterScheduler
    from sterna.engines.kubernetes.process.settings import NAMESPACE
    from sterna.wire.manifests import workload_of_object

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


def _submitted(text: str) -> "list[Submitted]":
    """The jobs of a text: as the API server is given them, and as we understand them."""
    from sterna.engines.kubernetes.console import Submitted
    from sterna.wire.limits import read_document
    from sterna.wire.manifests import read_manifests

    return [
        Submitted(read_document(found.text, name=f"document {found.index}"), found.workload, found.warnings)
        for found in read_manifests(text)
    ]
