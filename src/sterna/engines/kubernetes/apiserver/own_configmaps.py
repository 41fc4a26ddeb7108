"""ConfigMaps of the operator's own namespace: what people tell the operator, and what it writes that is no job's.

One that has an owner is an object of a job, or of any other controller, whatever it is called, and says nothing here.
"""

from collections.abc import Mapping

from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject
from sterna.engines.kubernetes.apiserver.port import CONFIG_MAPS, AlreadyExists, Api, Missing, WriteConflict
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.model.errors import StaleView


def is_own(found: ConfigMapObject) -> bool:
    """May it tell the operator anything?"""
    return not found.metadata.owner_references


def own_data(cache: Cache, name: str, *, namespace: str) -> Mapping[str, str] | None:
    """What it says. None: there is no such one of our own."""
    found = cache.own.get(name, namespace)
    return (found.data or {}) if found is not None and is_own(found) else None


async def write_data(api: Api, cache: Cache, name: str, data: dict[str, str], *, namespace: str) -> None:
    """Write `data` as the ConfigMap's. `StaleView`: another writer changed it; the cache then has what is there."""
    known = cache.own.get(name, namespace)
    meta = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/managed-by": "sterna"}}
    gone = dict.fromkeys((known.data or {}).keys() - data.keys()) if known is not None else {}
    try:
        if known is None:
            body = {"metadata": meta, "data": data}
            found = await api.create(CONFIG_MAPS, body, namespace=namespace, shape=ConfigMapObject)
        else:
            body = {"metadata": {"resourceVersion": known.metadata.resource_version}, "data": {**gone, **data}}
            found = await api.patch(CONFIG_MAPS, name, body, namespace=namespace, shape=ConfigMapObject)
        cache.own.put(found)
    except (WriteConflict, AlreadyExists) as error:
        cache.own.put(await api.get(CONFIG_MAPS, name, namespace=namespace, shape=ConfigMapObject))
        raise StaleView(f"{name} was changed by another writer: {error}") from error
    except Missing as error:
        if known is not None:
            cache.own.forget(known)
        raise StaleView(f"{name} was deleted: {error}") from error
