"""SharePods of the cluster: counted on their nodes, and placed before training where that is ours to do.

Right before every decision `place` looks at those that wait, the oldest first. One for which there is room gets its
node and card; for one without, room is promised on a node where training can shrink, and the decision that follows
counts it there. A promise is nothing but memory of this process: it ends at once when its SharePod is deleted or
placed, and the next leader makes it anew. What goes where is `share_seats.py`.
"""

import logging
from collections.abc import Callable, Hashable

from sterna.engines.kubernetes.apiserver.objects import Body, Pod, SharePodObject
from sterna.engines.kubernetes.apiserver.port import SHARE_PODS, Api, Missing, WriteConflict
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.kubeshare.share_seats import (
    Cards,
    ShareSeat,
    promise_at,
    promise_for,
    seat_for,
    without_guest,
)
from sterna.engines.kubernetes.kubeshare.sharepods import (
    GPU_ID,
    SharePod,
    guests_of,
    is_shadow,
    open_cards,
    shadows_of,
    share_pod_of,
)
from sterna.engines.kubernetes.loop.rules import Rules
from sterna.engines.kubernetes.status.event_recorder import About, Recorder, Severity
from sterna.engines.kubernetes.world.node_index import Roster
from sterna.engines.pacing import Happening
from sterna.engines.thinking import Thinker
from sterna.model.errors import SternaError
from sterna.model.nodes import Guest
from sterna.model.snapshot import Snapshot
from sterna.planner.decide import decide

log = logging.getLogger(__name__)

_NO_ROOM = "no node has room for it, even with every job at its least size"


class Sharing:
    """`look` is the world as the next decision would see it."""

    def __init__(
        self,
        api: Api,
        cache: Cache,
        roster: Roster,
        recorder: Recorder,
        *,
        look: Callable[[], Snapshot],
        rules: Callable[[], Rules],
        notice: Callable[[Happening], None],
        namespace: str,
        think: Thinker,
    ) -> None:
        self._api = api
        self._cache = cache
        self._roster = roster
        self._recorder = recorder
        self._look = look
        self._rules = rules
        self._notice = notice
        self._namespace = namespace  # the operator's own
        self._think = think
        self._there: dict[str, dict[str, SharePod]] = {}  # by node, then by uid: those that take room
        self._counted: dict[str, SharePod] = {}  # the same by uid
        self._sharers: dict[str, dict[str, set[str]]] = {}  # by node and card: uids of the SharePods that share it
        self._waiting: dict[str, SharePod] = {}  # by uid: ours to place
        self._promises: dict[str, tuple[str, Guest]] = {}  # by uid: the node, and what is counted there
        self._told: dict[str, str] = {}  # by uid: what its events said last
        self._hopeless: set[Hashable] = set()  # in this round: no room for those that are like this one
        roster.is_shadow = self._is_shadow
        cache.share_pods.listen(self._changed)

    async def place(self) -> bool:
        """Attend to all that wait. False: something did not work that may work a little later."""
        went_well = True
        self._hopeless.clear()
        for pod in sorted(self._waiting.values(), key=lambda pod: (pod.meta.creation_timestamp or "", pod.id)):
            try:
                await self._attend(pod.meta.uid)
            except SternaError as error:  # the boundary of one SharePod: training goes on
                log.warning("a SharePod could not be placed", extra={"sharepod": pod.id, "why": str(error)})
                went_well = False
            except Exception:  # such as a bug in a policy, which is asked which jobs would shrink
                log.exception("a SharePod could not be placed", extra={"sharepod": pod.id})
                went_well = False
        return went_well

    async def _attend(self, uid: str) -> None:
        pod = self._waiting.get(uid)
        if pod is None:
            return  # it was deleted or placed while others were attended to
        if pod.problem:
            self._promise(uid, None)
            self._tell(pod, "InvalidSharePod", pod.problem, bad=True)
            return
        promise, shape = self._promises.get(uid), (pod.request, pod.share, pod.selector, pod.tolerations)
        if promise is None and shape in self._hopeless:
            self._tell(pod, "NoRoom", _NO_ROOM, bad=True)
            return
        view = self._look() if promise is None else without_guest(self._look(), *promise)
        cards = self._cards(view)
        seat = seat_for(pod, view, cards)
        if seat is not None:
            try:
                await self._put(pod, seat)
            except SternaError:
                if uid in self._waiting:  # its room is kept until it is tried again
                    self._promise(uid, (seat.node, promise_at(pod, seat.node, view, cards)))
                raise
            return
        rules = self._rules()
        kept = "" if promise is None else promise[0]
        found = await self._think(
            lambda: promise_for(
                pod, view, cards, lambda trial: decide(trial, rules.size, rules.place, rules.settings), kept
            )
        )
        if uid not in self._waiting:
            return  # it was deleted or placed while that was found out
        self._promise(uid, found)
        if found is None:
            self._tell(pod, "NoRoom", _NO_ROOM, bad=True)
            if promise is None:  # else there is more room now than there was for those before
                self._hopeless.add(shape)
            else:
                self._hopeless.clear()
        else:
            self._tell(pod, "MakingRoom", f"training makes room for it on {found[0]}")

    async def _put(self, pod: SharePod, seat: ShareSeat) -> None:
        meta = pod.meta
        annotations = {"annotations": {GPU_ID: seat.gpu_id}} if seat.gpu_id else {}
        body: Body = {
            "metadata": {"resourceVersion": meta.resource_version, **annotations},
            "spec": {"nodeName": seat.node},
        }
        store, where = self._cache.share_pods, meta.namespace
        try:
            store.put(await self._api.patch(SHARE_PODS, meta.name, body, namespace=where, shape=SharePodObject))
        except WriteConflict:
            store.put(await self._api.get(SHARE_PODS, meta.name, namespace=where, shape=SharePodObject))
            raise
        except Missing:
            present = store.get(meta.name, where)
            if present is not None and present.metadata.uid == meta.uid:
                store.forget(present)
            return
        card = f", card {seat.gpu_id}" if seat.gpu_id else ""
        self._tell(pod, "Placed", f"placed on {seat.node}{card}")

    # -- what the store tells -----------------------------------------------------------------------------------------

    def _changed(self, before: SharePodObject | None, after: SharePodObject | None) -> None:
        found = after or before
        assert found is not None
        uid, pod = found.metadata.uid, None if after is None else share_pod_of(after)
        if pod is not None and pod.waits_for_us:
            if uid not in self._waiting:
                self._notice(Happening.SERVING_ARRIVED)
            self._waiting[uid] = pod
        elif self._waiting.pop(uid, None) is not None:
            self._promise(uid, None)
            self._notice(Happening.SERVING_LEFT)
        if pod is None:
            self._told.pop(uid, None)
        was = self._counted.pop(uid, None)
        if pod is not None and pod.takes_room:
            self._counted[uid] = pod
        self._show(was, self._counted.get(uid))

    def _show(self, was: SharePod | None, now: SharePod | None) -> None:
        """The roster is told of the difference, and of nothing else: a node may have thousands of them."""
        if was is not None:
            self._take_away(was)
        if now is not None:
            self._there.setdefault(now.node, {})[now.meta.uid] = now
            if now.gpu_id:
                self._sharers.setdefault(now.node, {}).setdefault(now.gpu_id, set()).add(now.meta.uid)
            for key, guest in guests_of(now).items():
                self._roster.put_guest(key, now.node, guest)
        shadows = {key for pod in (was, now) if pod is not None for key in shadows_of(pod)}
        self._roster.recount([pod for key in sorted(shadows) for pod in self._cache.pods.by("shadow", key)])
        for key in self._gone(was) - (guests_of(now).keys() if now is not None else set()):
            self._roster.drop_guest(key)  # last: while its pod is there, its room is never free

    def _take_away(self, was: SharePod) -> None:
        there = self._there[was.node]
        del there[was.meta.uid]
        if not there:
            del self._there[was.node]
        sharers = self._sharers.get(was.node, {})
        if was.gpu_id:
            sharers[was.gpu_id].discard(was.meta.uid)
            if not sharers[was.gpu_id]:
                del sharers[was.gpu_id]
            if not sharers:
                del self._sharers[was.node]

    def _gone(self, was: SharePod | None) -> set[str]:
        """Keys of what it took and no SharePod takes any more."""
        if was is None:
            return set()
        shared = was.gpu_id in self._sharers.get(was.node, {})
        return {key for key in guests_of(was) if not (shared and key == f"{was.node}/{was.gpu_id}")}

    def _is_shadow(self, pod: Pod) -> bool:
        node = pod.spec.node_name
        there, cards = self._there.get(node, {}), self._sharers.get(node, {})
        return is_shadow(pod, there, cards, operator_namespace=self._namespace)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _cards(self, view: Snapshot) -> Cards:
        by_id = {str(node.id): node for node in view.nodes}
        return {name: open_cards(by_id[name], pods.values()) for name, pods in self._there.items() if name in by_id}

    def _promise(self, uid: str, found: tuple[str, Guest] | None) -> None:
        before = self._promises.pop(uid, None)
        if before == found and found is not None:
            self._promises[uid] = found
            return
        key = f"promise/{uid}"
        if before is not None:
            self._roster.drop_guest(key)
        if found is not None:
            self._promises[uid] = found
            self._roster.put_guest(key, *found)

    def _tell(self, pod: SharePod, reason: str, message: str, *, bad: bool = False) -> None:
        """Once, until something else is to be said."""
        meta = pod.meta
        if self._told.get(meta.uid) == message:
            return
        self._told[meta.uid] = message
        about = About(SHARE_PODS.api_version, SHARE_PODS.kind, meta.namespace, meta.name, meta.uid)
        severity = Severity.WARNING if bad else Severity.NORMAL
        self._recorder.record(about, reason=reason, message=message, severity=severity)
