"""Where things are on the API server: URLs of resources, objects and their subresources."""

from urllib.parse import quote

from sterna.engines.kubernetes.apiserver.port import Resource
from sterna.model.errors import InvalidRequest


def path_of(resource: Resource, *, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
    """`name` None: the collection. An empty name is refused, because its path would be the collection's."""
    parts = [group_path(resource)]
    if resource.namespaced and namespace is not None:
        parts += ["namespaces", _segment("namespace", namespace)]
    parts.append(resource.plural)
    if name is not None:
        parts.append(_segment(f"name of a {resource.kind}", name))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def group_path(resource: Resource) -> str:
    return f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"


def _segment(field: str, value: str) -> str:
    if value in ("", ".", "..") or "/" in value or "%" in value:
        raise InvalidRequest(field=field, value=value, expected="a name without / and %")
    return quote(value, safe="")
