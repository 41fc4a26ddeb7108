"""What is known of one resource: fed by a watch and by the answers to our own writes, whichever is newer.

Read your writes: an object that a write returned is here at once, and an event older than it changes nothing. What is
removed leaves a tombstone, so that a late event or a late answer cannot bring it back. Nothing here sends a request.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from sterna.engines.kubernetes.apiserver.objects import KubeObject
from sterna.engines.kubernetes.apiserver.port import EventType, Listing, WatchEvent

T = TypeVar("T", bound=KubeObject)
N = TypeVar("N")
OnChange = Callable[[T | None, T | None], None]  # (before, after): None before it was there, None after it is gone
IndexOf = Callable[[T], Hashable | None]  # None: not in this index

TOMBSTONES_MAX = (
    1024  # a late answer is one of those in flight, of which there are 32 at once (`client/request_limits.py`)
)
_FOR_EVER = 1 << 127

_Key = tuple[str, str]  # namespace, name


class Store(Generic[T]):
    """`indexes` name functions of an object: `Store[Pod]({"node": lambda pod: pod.spec.node_name})`.

    Objects are never changed in place: a caller that was given one keeps what it was given.
    """

    def __init__(
        self, indexes: Mapping[str, IndexOf[T]] | None = None, *, tombstones_max: int = TOMBSTONES_MAX
    ) -> None:
        self._objects: dict[_Key, T] = {}
        self._index_of: dict[str, IndexOf[T]] = dict(indexes or {})
        self._found: dict[str, dict[Hashable, dict[_Key, T]]] = {name: {} for name in self._index_of}
        self._tombstones: dict[str, int] = {}  # uid -> resource version of its end; the oldest first
        self._tombstones_max = tombstones_max
        self._listeners: list[OnChange[T]] = []

    def listen(self, on_change: OnChange[T]) -> None:
        """Told of every difference, ours too, after it is in the store. An object made anew under a name is two calls.

        It must not raise, and must not write to this store.
        """
        self._listeners.append(on_change)

    # -- reading: nothing is copied, so do not keep a view across an await --------------------------------------------

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get((namespace, name))

    def by(self, index: str, value: Hashable) -> Collection[T]:
        """All objects of which the index function said `value`."""
        found = self._found[index].get(value)
        return found.values() if found is not None else ()

    def values_of(self, index: str) -> Collection[Hashable]:
        """Everything that an index function said of some object."""
        return self._found[index].keys()

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, found: T) -> bool:
        """The answer to one of our own writes or reads. False: the store knows better already."""
        present = self._objects.get(found.key)
        if self._is_buried(found):
            return self._outlived(present, found)
        if present is not None and not _is_newer(found, present):
            return False
        self._set(present, found)
        return True

    def forget(self, found: T) -> None:
        """The server says it is gone (404 to its name): it leaves, and its uid never comes back."""
        self._bury(found.metadata.uid, _FOR_EVER)
        present = self._objects.get(found.key)
        if present is not None and present.metadata.uid == found.metadata.uid:
            self._drop(present)

    def apply(self, event: WatchEvent[T]) -> bool:
        """An event of a watch. False: it told nothing new."""
        if event.type is EventType.BOOKMARK:
            return False
        return self._end(event.object) if event.type is EventType.DELETED else self.put(event.object)

    def replace(self, listing: Listing[T], *, namespace: str | None = None, name: str = "") -> int:
        """A new listing: what is missing from it is gone, unless it is newer than the listing. Number of differences.

        `namespace`: the listing is of this one only, and says nothing about the others; the same with `name`.
        """
        listed = {found.key: found.metadata.uid for found in listing.items}
        as_of = _number(listing.resource_version)
        missing = [
            present
            for key, present in self._objects.items()
            if listed.get(key) != present.metadata.uid
            and (namespace is None or key[0] == namespace)
            and (not name or key[1] == name)
            and not _is_after(_number(present.metadata.resource_version), as_of)
        ]
        for present in missing:
            self._bury(present.metadata.uid, as_of)
            self._drop(present)
        return len(missing) + sum(self.put(found) for found in listing.items)

    def clear(self, *, namespace: str | None = None, name: str = "") -> None:
        """Forget the objects, and every tombstone."""
        self._tombstones.clear()
        for key in [*self._objects]:
            if (namespace is None or key[0] == namespace) and (not name or key[1] == name):
                self._drop(self._objects[key])

    # -- what is newer ------------------------------------------------------------------------------------------------

    def _is_buried(self, found: T) -> bool:
        ended = self._tombstones.get(found.metadata.uid)
        if ended is None:
            return False
        if not _is_after(_number(found.metadata.resource_version), ended):
            return True
        del self._tombstones[found.metadata.uid]  # it had only left the selection of the watch
        return False

    def _end(self, ended: T) -> bool:
        uid, version = ended.metadata.uid, _number(ended.metadata.resource_version)
        present = self._objects.get(ended.key)
        if present is None or present.metadata.uid != uid:
            self._bury(uid, version)
            return self._outlived(present, ended)
        if _is_after(_number(present.metadata.resource_version), version):
            return False  # it left the selection of the watch and is back since
        self._bury(uid, version)
        self._drop(present)
        return True

    def _outlived(self, present: T | None, gone: T) -> bool:
        """An object that had its name before one that is gone is gone too, even if no event told its end."""
        if present is None or present.metadata.uid == gone.metadata.uid or not _is_newer(gone, present):
            return False
        self._bury(present.metadata.uid, _FOR_EVER)
        self._drop(present)
        return True

    # -- keeping ------------------------------------------------------------------------------------------------------

    def _set(self, present: T | None, found: T) -> None:
        if present is not None and present.metadata.uid != found.metadata.uid:
            self._bury(present.metadata.uid, _FOR_EVER)  # there is a successor under its name
            self._drop(present)
            present = None
        key = found.key
        self._objects[key] = found
        for name, index_of in self._index_of.items():
            value = index_of(found)
            if present is not None and (before := index_of(present)) != value:
                self._unindex(name, before, key)
            if value is not None:
                self._found[name].setdefault(value, {})[key] = found
        self._tell(present, found)

    def _drop(self, present: T) -> None:
        del self._objects[present.key]
        for name, index_of in self._index_of.items():
            self._unindex(name, index_of(present), present.key)
        self._tell(present, None)

    def _unindex(self, index: str, value: Hashable | None, key: _Key) -> None:
        if value is None:
            return
        found = self._found[index][value]
        del found[key]
        if not found:
            del self._found[index][value]

    def _bury(self, uid: str, version: int | None) -> None:
        if not uid:
            return
        ended = _FOR_EVER if version is None else version
        self._tombstones[uid] = max(self._tombstones.pop(uid, 0), ended)
        if len(self._tombstones) > self._tombstones_max:
            del self._tombstones[next(iter(self._tombstones))]

    def _tell(self, before: T | None, after: T | None) -> None:
        for on_change in self._listeners:
            on_change(before, after)


def number_of(version: str, otherwise: N) -> int | N:
    """A resource version as the number it is. `otherwise`: this server's are none, so nothing says which is newer."""
    return int(version) if version.isdecimal() else otherwise


def _number(version: str) -> int | None:
    return number_of(version, None)


def _is_newer(found: KubeObject, present: KubeObject) -> bool:
    """Where versions are no numbers, all that can be told is whether they are the same."""
    version, before = _number(found.metadata.resource_version), _number(present.metadata.resource_version)
    if version is None or before is None:
        return found.metadata.resource_version != present.metadata.resource_version
    return version > before


def _is_after(version: int | None, other: int | None) -> bool:
    return version is not None and other is not None and version > other
