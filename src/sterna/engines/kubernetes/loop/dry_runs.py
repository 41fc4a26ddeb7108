"""What admission makes of a job's templates: asked of the API server by creating a pod that is not kept.

Defaults of a LimitRange, overhead of a runtime class and changes by webhooks are not in a manifest, and a node is
overbooked where they are not counted. One request tells, for all jobs of a namespace that have the same template; it
needs no right but that to create pods. What comes of it is counted from then on (`world/job_requests.py`).

Where there is no answer, be it that the server does not give one in time or that a quota or a policy says no, nothing
is concluded from that here: the template is counted as it is written, and asked about again later. What a refusal
means for the job is found when its pods are created.
"""

import asyncio
import hashlib
import logging
import random
from collections import OrderedDict
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from sterna.engines.kubernetes.apiserver.objects import Body, Pod
from sterna.engines.kubernetes.apiserver.port import PODS, Api, NotLeader, Urgency
from sterna.engines.kubernetes.bodies.own_names import place_of
from sterna.engines.kubernetes.bodies.trial_body import trial_body
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.reconcile.intentions import is_others, takes_part
from sterna.engines.kubernetes.reconcile.job_view import JobView, Options
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.job_requests import with_counted_requests
from sterna.engines.kubernetes.world.pod_amounts import request_of_pod
from sterna.model.errors import EngineRefused, InvalidRequest, SternaError
from sterna.model.ids import JobId
from sterna.model.jobs import Role
from sterna.model.resources import Resources
from sterna.model.workload import Workload

log = logging.getLogger(__name__)

PATIENCE_S = 5.0  # for one answer: a job that waits for it is late by no more
FRESH_S = 300.0  # about so long an answer is relied on, a refusal too
RETRY_S = 30.0  # about so long after none came it is asked for again
ANSWERS_MAX = 10_000

_Key = tuple[str, str]  # namespace, digest of a template


class _Answer(NamedTuple):
    request: Resources | None  # None: there was none
    until_s: float


class _Asked(NamedTuple):
    """Of one job, as long as its owner does not edit it."""

    workload: Workload
    keys: dict[Role, _Key]


class DryRuns:
    def __init__(self, api: Api, timeline: Timeline, *, chance: random.Random | None = None) -> None:
        self._api = api
        self._timeline = timeline
        self._chance = chance or random.Random()
        self._answers: OrderedDict[_Key, _Answer] = OrderedDict()  # the one that was used last stands last
        self._asked: dict[str, _Asked] = {}  # by uid
        self._turns: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()

    def forget(self, uid: str) -> None:
        """The job is gone. What is known of its templates may serve others."""
        self._asked.pop(uid, None)

    def is_due(self, view: JobView) -> bool:
        """Is it a job that holds nothing, and is something about its templates to be asked first?"""
        if view.workload is None or view.standing.seats or view.standing.finished or view.deleting or is_others(view):
            return False
        return any(self._fresh(key) is None for key in self._keys(view, view.workload).values())

    async def ask(self, view: JobView, options: Options) -> None:
        """Where it is due. Never an error of the job's, and over in a bounded time; `NotLeader` passes."""
        workload = view.workload
        assert workload is not None
        for role, key in self._keys(view, workload).items():
            turn = self._turns.setdefault(key, asyncio.Lock())
            async with turn:  # others with the same template wait for this answer instead of asking for their own
                if self._fresh(key) is None:
                    await self._ask(key, trial_body(view, workload, role, options), view.id)

    def noted(self, view: JobView) -> Standing:
        """The standing with what the job is counted for, as far as anything is known."""
        if view.workload is None or view.standing.finished:
            return view.standing
        fresh = {role: self._fresh(key) for role, key in self._keys(view, view.workload).items()}
        admitted = {role: found.request for role, found in fresh.items() if found and found.request is not None}
        return with_counted_requests(view, admitted)

    def learn(self, view: JobView, pod: Pod) -> None:
        """This pod of the job was created just now: what admission made of it is newer than any answer."""
        place = None if view.workload is None else place_of(view.workload, pod.metadata.name)
        if view.workload is None or place is None:
            return
        key = self._keys(view, view.workload)[place[0]]
        try:
            request = request_of_pod(pod)
        except InvalidRequest:
            return
        known = self._fresh(key)
        if known is None or known.request != request:
            self._keep(key, request)

    def wake_s(self, view: JobView) -> float | None:
        """When to ask again about a job that waits. None: it does not."""
        if view.workload is None or view.standing.seats or not takes_part(view):
            return None
        known = [self._answers.get(key) for key in self._keys(view, view.workload).values()]
        return min((answer.until_s for answer in known if answer is not None), default=None)

    async def _ask(self, key: _Key, body: Body, job_id: JobId) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                pod = await self._api.create(
                    PODS, body, namespace=key[0], shape=Pod, urgency=Urgency.READ, dry_run=True
                )
            self._keep(key, request_of_pod(pod))
        except NotLeader:
            raise
        except (SternaError, TimeoutError) as error:
            final = isinstance(error, EngineRefused | InvalidRequest)
            self._keep(key, None, for_s=FRESH_S if final else RETRY_S)
            why = str(error) or f"no answer within {PATIENCE_S:.0f} s"
            log.warning("template counted as written", extra={"job": job_id, "why": why})

    def _fresh(self, key: _Key) -> _Answer | None:
        found = self._answers.get(key)
        return None if found is None or found.until_s <= self._timeline.now() else found

    def _keep(self, key: _Key, request: Resources | None, *, for_s: float = FRESH_S) -> None:
        until_s = self._timeline.now() + for_s * self._chance.uniform(0.8, 1.2)  # not all of them at the same moment
        self._answers[key] = _Answer(request, until_s)
        self._answers.move_to_end(key)
        while len(self._answers) > ANSWERS_MAX:
            self._answers.popitem(last=False)

    def _keys(self, view: JobView, workload: Workload) -> dict[Role, _Key]:
        known = self._asked.get(view.uid)
        if known is None or known.workload is not workload:
            roles = [template.role for template in workload.roles]
            keys = {role: (view.namespace, _digest(view.templates.get(role))) for role in roles}
            known = self._asked[view.uid] = _Asked(workload, keys)
        return known.keys


def _digest(template: object) -> str:
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()
