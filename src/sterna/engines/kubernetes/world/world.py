"""What the next decision sees: jobs as values, kept in order of arrival; only those that something happened to are
worked out again.
"""

import logging
from collections.abc import Callable

from sterna.engines.kubernetes.apiserver.objects import Pod
from sterna.engines.kubernetes.apiserver.ownership import JobKey, job_key_of
from sterna.engines.kubernetes.bodies.own_names import place_of
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.progress.training_facts import Lessons
from sterna.engines.kubernetes.world.claim_index import Claims
from sterna.engines.kubernetes.world.job_index import KnownJob, KnownJobs, Parse
from sterna.engines.kubernetes.world.job_value import value_of
from sterna.engines.kubernetes.world.node_index import Roster
from sterna.engines.pacing import Happening
from sterna.lifecycle.node_trust import TrustRules
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import FixedRole, Job
from sterna.model.resources import NOTHING, Resources
from sterna.model.serving_room import room_for_serving
from sterna.model.snapshot import Snapshot, arrival_order
from sterna.model.target import PolicyMemory

log = logging.getLogger(__name__)


class World:
    """Nodes, guests and jobs. `on_change` tells of a job, by uid, that something happened to."""

    def __init__(
        self,
        cache: Cache,
        parse: Parse,
        *,
        now: Callable[[], float],
        trust: TrustRules | None = None,
        share_learning: bool = False,
        places_pods: bool = True,
    ) -> None:
        """`places_pods` False: the cluster's own scheduler does."""
        self.on_change: Callable[[str], None] = lambda _: None
        self._counted: dict[str, JobId] = {}  # uid -> id, of jobs that have a value
        self._values: dict[JobId, Job] = {}  # in order of arrival
        self._owners: dict[JobId, str] = {}  # uid of the job whose value it is
        self._ruled: set[JobId] = set()  # jobs with rules about the pods beside their own
        self._changed: set[str] = set()
        self._aside: dict[str, float] = {}  # uid -> until when it is not shown
        self._revision = 0
        self._cache = cache
        self.roster = Roster(cache, self._answered_for, now=now, trust=trust or TrustRules())
        self.lessons = Lessons(self._accelerator_of, shared=share_learning)
        self.claims = Claims(obeyed=places_pods)
        self.jobs = KnownJobs(cache, parse, self.roster.facts, self.claims)
        self.jobs.on_change = self._job_changed
        self.roster.on_facts = self._node_changed

    def listen(self, on_happening: Callable[[Happening], None]) -> None:
        """Told of whatever a decision may depend on."""
        self.jobs.on_happening = on_happening
        self.roster.on_happening = on_happening

    def set_aside(self, uid: str, until_s: float) -> None:
        """Leave this job out of decisions, as if it were not ours: the cluster refuses what is decided about it."""
        self._aside[uid] = until_s
        self._changed.add(uid)

    def touch(self, uid: str) -> None:
        """Something is told of this job that the next decision should see. It need not be looked at for that."""
        self._changed.add(uid)

    def look_again_at(self, uid: str) -> None:
        """Something that this job depends on changed: it is looked at, and the next decision sees it."""
        self._job_changed(uid)

    def touch_category(self, category: str) -> None:
        """Much was learned about jobs of this category, as `Lessons.learned_as` has it."""
        learned_as = self.lessons.learned_as
        self._changed.update(
            self._owners[job_id]
            for job_id, value in self._values.items()
            if value.spec.category and learned_as(value.spec).category == category
        )

    def snapshot(self, now_s: float, memory: PolicyMemory) -> Snapshot:
        for uid in [uid for uid, until_s in self._aside.items() if until_s <= now_s]:
            del self._aside[uid]
            self._changed.add(uid)
        self.refresh()
        self._revision += 1
        self.roster.tell_of_rules(bool(self._ruled))
        cluster, serving = self.roster.cluster, self.roster.serving
        view = Snapshot(
            revision=self._revision,
            now_s=now_s,
            cluster=cluster,
            jobs=tuple(self._values.values()),
            serving=serving,
            memory=memory,
            reserved=room_for_serving(cluster, serving) if serving else 0,
            usage=self.lessons.loads(now_s),
        )
        return view.prepared(by_id=self._values.copy(), jobs_have_rules=bool(self._ruled))

    def value(self, job_id: JobId) -> Job | None:
        self.refresh()
        return self._values.get(job_id)

    @property
    def values(self) -> dict[JobId, Job]:
        self.refresh()
        return self._values

    def owner(self, job_id: JobId) -> KnownJob | None:
        """The job that the snapshot shows under this id."""
        self.refresh()
        return self.jobs.by_uid.get(self._owners.get(job_id, ""))

    def owners(self) -> dict[JobId, str]:
        """Uids of the jobs that the latest snapshot shows, by their ids."""
        return self._owners.copy()

    @property
    def anybody_leaves(self) -> bool:
        self.refresh()
        return any(job.leaving for job in self._values.values())

    def refresh(self) -> None:
        """Work out anew what something happened to."""
        in_order = True
        while self._changed:  # a name that becomes free may go to another job
            changed, self._changed = self._changed, set()
            for uid in changed:
                job = self.jobs.by_uid.get(uid)
                value = None if job is None else self._value(job)
                if value is None:
                    self._leave(uid)
                else:
                    in_order = self._show(uid, value) and in_order
        if not in_order:
            self._values = {job.id: job for job in sorted(self._values.values(), key=arrival_order)}

    def _value(self, job: KnownJob) -> Job | None:
        try:
            if job.uid in self._aside or job.status.recorded.finished:
                return None  # before its spec is read: a cluster may keep many of these
            return value_of(self.jobs.view(job), self.lessons.facts_of)
        except Exception:  # the boundary of one job: a snapshot without it is better than none
            log.exception("a job cannot be shown to the scheduler", extra={"job": job.id})
            return None

    def _show(self, uid: str, value: Job) -> bool:
        """Says whether the values are still in order."""
        job_id = value.id
        if self._owners.get(job_id, uid) != uid:
            return True  # an older job of another kind has this name
        before = self._values.get(job_id)
        last = next(reversed(self._values.values()), None)
        self._values[job_id], self._owners[job_id] = value, uid
        (self._ruled.add if value.spec.has_rules else self._ruled.discard)(job_id)
        if uid not in self._counted or before is None or _each(before) != _each(value):
            self._counted[uid] = job_id
            self._recount(uid, job_id)
        if before is not None:
            return arrival_order(before) == arrival_order(value)
        return last is None or arrival_order(last) <= arrival_order(value)

    def _leave(self, uid: str) -> None:
        job_id = self._counted.pop(uid, None)
        if job_id is None:
            return
        if self._owners.get(job_id) == uid:
            del self._owners[job_id], self._values[job_id]
            self._ruled.discard(job_id)
            self._changed.update(job.uid for job in self.jobs.named(job_id) if job.uid != uid)
        self._recount(uid, job_id)

    def _recount(self, uid: str, job_id: JobId) -> None:
        """Whether its pods are guests may have changed."""
        namespace, _, name = job_id.partition("/")
        job = self.jobs.by_uid.get(uid)
        left = [] if job is None else self.jobs.left_pods(job)
        self.roster.recount([*self._cache.pods.by("job", JobKey(namespace, name, uid)), *left])

    def _answered_for(self, pod: Pod) -> Resources | None:
        """What of it the snapshot shows as part of its job. None: nothing, it is a guest."""
        key = job_key_of(pod.metadata)
        job = self.jobs.owner_of(pod) if key is None else self.jobs.by_uid.get(key.uid)
        if key is None and job is not None:
            key = job.key
        job_id = None if key is None else self._counted.get(key.uid)
        if key is None or job_id is None or job_id != f"{key.namespace}/{key.name}":
            return None
        value = self._values.get(job_id)
        place = None if job is None or job.workload is None else place_of(job.workload, pod.metadata.name)
        return NOTHING if place is None or value is None else value.spec.request_of(place[0])

    def _job_changed(self, uid: str) -> None:
        self._changed.add(uid)
        self.on_change(uid)

    def _node_changed(self, name: str) -> None:
        """Jobs that are there, or are to be there, are looked at again."""
        for pod in self._cache.pods.by("node", name):
            if (job := self.jobs.owner_of(pod)) is not None:
                self._job_changed(job.uid)
        for job_id, value in self._values.items():
            if any(worker.node == name for worker in value.workers):
                self._job_changed(self._owners[job_id])

    def _accelerator_of(self, node: NodeId) -> str:
        found = self.roster.cluster.by_id.get(node)
        return "" if found is None else found.accelerator


def _each(value: Job) -> tuple[Resources, tuple[FixedRole, ...]]:
    """What its pods are counted for."""
    return value.spec.request, value.spec.fixed
