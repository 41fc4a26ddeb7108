"""A client of a cluster: the same questions, answered from the API server with the credentials of the user who asks.

    from sterna.interfaces.client.cluster import cluster_client

    with closing(cluster_client(namespace="research")) as client:
        print(client.explain("mnist")["summary"])

No operator is asked: what is told stands in the cluster's own objects.
"""

from functools import partial

from sterna.compose.kubeconfigs import cluster_configuration
from sterna.interfaces.client.client import Client


def cluster_client(
    *,
    kubeconfig: str | None = None,  # None: KUBECONFIG, ~/.kube/config, or the pod we are in
    context: str | None = None,  # None: the current one
    namespace: str | None = None,  # None: the context's own
    deadline_s: float | None = None,  # None: as long as a large cluster may take
) -> Client:
    """Nothing is sent before the first question; what is wrong with the configuration is told now."""
    configuration = cluster_configuration(kubeconfig, context)
    from sterna.compose.cluster_console import opened_console  # after it is known that the extra is installed
    from sterna.interfaces.client.in_process import DEADLINE_S, InProcess

    where = namespace or configuration.namespace
    line = InProcess(
        partial(opened_console, configuration, where),
        whom=f"the API server at {configuration.server}",
        deadline_s=deadline_s or DEADLINE_S,
    )
    return Client(line=line, namespace=where)


def default_namespace(*, kubeconfig: str | None = None, context: str | None = None) -> str:
    """Of the context. What is wrong with the configuration is an error."""
    return cluster_configuration(kubeconfig, context).namespace
