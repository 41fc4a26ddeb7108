"""One resource of a cluster, followed until cancelled: listed, then watched from where the listing ended, into a store.

No error ends it: a cut watch goes on from the last event, a watch that is too late lists again, and trouble is
waited out with growing pauses. Listeners of the store hear of differences only, so a relist of an unchanged cluster is
silent. What the reflector cannot do at present stands in `trouble`.
"""

import asyncio
import logging
from contextlib import aclosing
from typing import Generic, Never, TypeVar

from sterna.engines.kubernetes.apiserver.client.backoff import Backoff
from sterna.engines.kubernetes.apiserver.objects import KubeObject
from sterna.engines.kubernetes.apiserver.port import Api, Gone, Resource
from sterna.engines.kubernetes.cache.object_store import Store, number_of
from sterna.engines.kubernetes.process.clock import Clock, SystemClock
from sterna.model.errors import SternaError

T = TypeVar("T", bound=KubeObject)
log = logging.getLogger(__name__)

PAUSE_S, PAUSE_MAX_S = 0.5, 30.0
FAILURES_BEFORE_RELIST = 5  # of watches from one place: perhaps it is the place
_STEADY_S = 5.0  # a watch that lasted this long was a success, even if nothing happened


class Reflector(Generic[T]):
    """`namespace` None: all of them; `name`: this one object alone. Several reflectors may feed one store if each has a
    namespace, or a name there, of its own.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        store: Store[T],
        *,
        shape: type[T],
        namespace: str | None = None,
        labels: str = "",
        name: str = "",
        clock: Clock | None = None,
        pause_s: float = PAUSE_S,
        pause_max_s: float = PAUSE_MAX_S,
    ) -> None:
        self.synced = asyncio.Event()  # set after the first listing, and stays set
        self.trouble = ""  # what goes wrong at present. Empty: nothing
        self.heard_s = 0.0  # moment of the clock (`mono`) at which the server last told something
        self._api = api
        self._resource = resource
        self._store = store
        self._shape = shape
        self._namespace = namespace
        self._labels = labels
        self._name = name
        self._clock: Clock = clock or SystemClock()
        self._backoff = Backoff(pause_s, pause_max_s)
        self._since = ""  # where to go on watching. Empty: list first
        self._heard = 0  # the highest version that the server told
        self._failures = 0  # in a row, since something was heard

    async def run(self) -> Never:
        """List, watch, and again; only cancelling ends it."""
        while True:
            heard_s, began_s = self.heard_s, self._clock.mono()
            try:
                if not self._since:
                    await self._list()
                await self._watch()
            except Gone as error:
                self._since = ""
                log.info("listing again", extra={"resource": self._resource.plural, "why": str(error)})
            except SternaError as error:
                self._note(str(error))
            except Exception as error:  # a listener's bug, or ours: begin again with a listing
                self._since = ""
                self._note(f"{type(error).__name__}: {error}")
                log.exception("reflector stumbled", extra={"resource": self._resource.plural})
            else:
                if self.heard_s > heard_s or self._clock.mono() - began_s >= _STEADY_S:
                    self._steady()
                    continue
            await self._clock.sleep(self._backoff.after())

    async def _list(self) -> None:
        heard = self._heard
        listing = await self._api.listing(
            self._resource, namespace=self._namespace, labels=self._labels, name=self._name, shape=self._shape
        )
        if number_of(listing.resource_version, heard) < heard:
            # A listing is never older than what was told before it, unless a backup of etcd was restored.
            log.warning("cluster was set back", extra={"resource": self._resource.plural, "version": heard})
            self._store.clear(namespace=self._namespace, name=self._name)
            self._heard = 0
        self._store.replace(listing, namespace=self._namespace, name=self._name)
        self._go_on_from(listing.resource_version)
        self.trouble = ""
        self.synced.set()

    async def _watch(self) -> None:
        events = self._api.watch(
            self._resource,
            since=self._since,
            namespace=self._namespace,
            labels=self._labels,
            name=self._name,
            shape=self._shape,
        )
        async with aclosing(events):
            async for event in events:
                self._store.apply(event)
                self._go_on_from(event.object.metadata.resource_version)
                self._steady()

    def _go_on_from(self, version: str) -> None:
        self._since = version or self._since
        self._heard = max(self._heard, number_of(version, 0))

    def _steady(self) -> None:
        self.heard_s = self._clock.mono()
        self.trouble = ""
        self._failures = 0
        self._backoff.reset()

    def _note(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("reflector in trouble", extra={"resource": self._resource.plural, "why": trouble})
        self.trouble = trouble
        self._failures += 1
        if self._failures >= FAILURES_BEFORE_RELIST:
            self._failures = 0
            self._since = ""
