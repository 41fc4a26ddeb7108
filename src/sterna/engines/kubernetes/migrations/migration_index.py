"""Which jobs are carrying out, or have carried out, which Migration: kept up to date piece by piece.

A job's status names the Migration that each of its changes was made for. Looking through the status of every job for
every Migration would cost the product of both, in every cycle.
"""

from collections.abc import Callable, Collection

from sterna.engines.kubernetes.apiserver.objects import JobObject
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.job_index import status_of

_NAMED = b'"migration"'  # in the text of a status that names one; most do not, and need not be read


class MigrationIndex:
    """`on_gone` hears of Migrations that a job named and does not name any more, or that its job was deleted with."""

    def __init__(self, cache: Cache, on_gone: Callable[[str], None]) -> None:
        self._keys: dict[str, frozenset[str]] = {}  # by uid of the job
        self._uids: dict[str, dict[str, None]] = {}  # by key of the Migration, in order of naming
        self._on_gone = on_gone
        for store in cache.jobs.values():
            store.listen(self._changed)

    def uids(self, key: str) -> Collection[str]:
        """Of jobs that name this Migration."""
        return self._uids.get(key, {}).keys()

    def _changed(self, before: JobObject | None, after: JobObject | None) -> None:
        found = after or before
        assert found is not None
        uid, named = found.metadata.uid, frozenset[str]() if after is None else _named(after)
        known = self._keys.get(uid, frozenset())
        if named == known:
            return
        if named:
            self._keys[uid] = named
        else:
            del self._keys[uid]
        for key in named - known:
            self._uids.setdefault(key, {})[uid] = None
        for key in known - named:
            uids = self._uids[key]
            del uids[uid]
            if not uids:
                del self._uids[key]
            self._on_gone(key)


def _named(found: JobObject) -> frozenset[str]:
    if _NAMED not in bytes(found.status):
        return frozenset()
    return frozenset(migrations_of(status_of(found).recorded))


def migrations_of(standing: Standing) -> list[str]:
    change = [standing.change.migration] if standing.change is not None else []
    return [key for key in (*change, *(past.migration for past in standing.history)) if key]
