"""Which cluster is meant: what a kubeconfig, a context or the pod we run in says, without speaking to it."""

from pathlib import Path
from typing import TYPE_CHECKING

from sterna.model.errors import EngineRefused

if TYPE_CHECKING:
    from sterna.engines.kubernetes.apiserver.client import Configuration

_PACKAGES = frozenset({"aiohttp", "msgspec", "multidict", "yarl"})  # of the extra


def cluster_configuration(kubeconfig: str | None, context: str | None) -> "Configuration":
    """`EngineRefused`: the extra is not installed. What is wrong with the configuration is `InvalidRequest`."""
    try:
        from sterna.engines.kubernetes.apiserver.client import discovered
    except ModuleNotFoundError as error:
        if error.name not in _PACKAGES:
            raise
        words = f"the package {error.name} is needed to speak to a cluster: pip install 'sterna[kubernetes]'"
        raise EngineRefused(words) from None
    return discovered(kubeconfig=None if kubeconfig is None else Path(kubeconfig), context=context)
