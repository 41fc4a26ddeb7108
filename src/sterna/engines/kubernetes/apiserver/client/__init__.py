"""A thin client of the API server: HTTP by aiohttp, JSON straight into partial shapes by msgspec.

`configuration` finds the cluster and the user, `connect` opens the door: the `Api` that the rest of the engine sees.
"""

from sterna.engines.kubernetes.apiserver.client.client import Client, connect
from sterna.engines.kubernetes.apiserver.client.connection_settings import Configuration, in_cluster
from sterna.engines.kubernetes.apiserver.client.kubeconfig import discovered, from_kubeconfig
from sterna.engines.kubernetes.apiserver.client.request_limits import Limits

__all__ = ["Client", "Configuration", "Limits", "connect", "discovered", "from_kubeconfig", "in_cluster"]
