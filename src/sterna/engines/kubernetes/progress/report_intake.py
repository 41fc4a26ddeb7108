"""Reports of monitors taken in: whose they are is found in the caches, what they say goes to `training_facts.py`.

Nothing is written for a report. A job is looked at, and a cycle asked for, only when its category changes or when it
has come a good deal further. What is about no pod or job that is here, or was said before, is passed over. What cannot
be taken is told to its own job, by an event now and then, and costs the others of the batch nothing.
"""

import logging
from collections.abc import Callable, Mapping

from sterna.engines.door.following import followed
from sterna.engines.door.household import Taken
from sterna.engines.kubernetes.apiserver.objects import Pod
from sterna.engines.kubernetes.bodies.own_names import place_of
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.process.clock import Timeline
from sterna.engines.kubernetes.progress.job_reports import Speaker
from sterna.engines.kubernetes.progress.training_facts import growth_of
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason
from sterna.engines.kubernetes.world.job_index import KnownJob
from sterna.engines.kubernetes.world.world import World
from sterna.engines.pacing import Happening
from sterna.engines.refusals import Refusals
from sterna.lifecycle.gang_roles import TAKES_PART, size_of
from sterna.model.ids import JobId, NodeId
from sterna.protocol.reports import Batch, Refusal, Report, reason_of

log = logging.getLogger(__name__)

LOG_PATTERN = "sterna.dev/log-pattern"  # annotation of a job: how its output tells a value
_WHOLE_JOB = (-1, 0)
_OTHERS = len(TAKES_PART)  # roles that do not train speak last


class Reporting:
    def __init__(
        self,
        cache: Cache,
        world: World,
        timeline: Timeline,
        *,
        look_at: Callable[[str], None],
        notice: Callable[[Happening], None],
        tell: Callable[[KnownJob, JobEvent], None],
    ) -> None:
        self._cache = cache
        self._world = world
        self._timeline = timeline
        self._look_at = look_at
        self._notice = notice
        self._tell = tell
        # By uid of the job, then by pod and by whether the worker or its monitor speaks: the last number that was taken
        self._numbers: dict[str, dict[tuple[str, bool], int]] = {}
        self._refusals = Refusals()
        self._left_out: dict[str, str] = {}  # by uid of a job whose output is not followed: why, as it was told

    def take(self, batch: Batch, *, only_here: bool = False) -> Taken:
        """Each report by itself. `only_here`: those about jobs on the batch's own node, and no others."""
        now_s = self._timeline.now()
        if batch.load is not None and batch.node in self._world.roster.facts:
            self._world.lessons.put_load(NodeId(batch.node), batch.load, now_s)
        count = 0
        refused: list[Refusal] = []
        by_job: dict[str, list[tuple[int, Speaker, Report]]] = {}
        for place, report in enumerate(batch.reports):
            found = self._subject(report, batch.node)
            if found is not None and only_here and not self._is_on(found[0], batch.node):
                continue  # a monitor speaks for its own node
            if found is not None and self._is_new(found[0].uid, report):
                by_job.setdefault(found[0].uid, []).append((place, found[1], report))
        for uid, said in by_job.items():
            job = self._world.jobs.by_uid[uid]
            try:
                self._hear(job, [(speaker, report) for _, speaker, report in said], now_s)
                count += len(said)
            except Exception as error:  # the boundary of one job: its neighbours' reports must arrive
                log.exception("reports could not be taken", extra={"job": job.id})
                refused += [Refusal(place, report.pod, reason_of(error)) for place, _, report in said]
        for refusal in (*batch.refused, *refused):
            self._tell_of(refusal, now_s, on=batch.node if only_here else None)
        for name, why in batch.faults.items():
            owner = self._job_named(name)
            if owner is not None and (not only_here or self._is_on(owner, batch.node)):
                self._not_followed(owner, why)
        return Taken(count, tuple(refused))

    def follow(self, node: str) -> Mapping[str, str]:
        """Pods on this node whose output is to be searched for values, and by which pattern."""
        owners: dict[str, KnownJob] = {}
        wishes: dict[str, str] = {}
        for pod in self._cache.pods.by("node", node):
            job = self._world.jobs.owner_of(pod)
            pattern = None if job is None else job.object.metadata.annotation(LOG_PATTERN)
            if job is not None and pattern and not pod.over:
                name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                wishes[name], owners[name] = pattern, job
        patterns, left_out = followed(wishes)
        for name, why in left_out.items():
            self._not_followed(owners[name], why)
        return patterns

    def forget(self, uid: str) -> None:
        """This job is gone."""
        self._refusals.forget(uid)
        self._left_out.pop(uid, None)
        self._numbers.pop(uid, None)
        self._world.lessons.forget(uid)

    # -- whose it is --------------------------------------------------------------------------------------------------

    def _subject(self, report: Report, node: str) -> tuple[KnownJob, Speaker] | None:
        """None: its pod or job is not here, or not any more."""
        namespace, _, name = report.pod.partition("/")
        if not name:
            return None  # whose token it was sent with says the namespace; a monitor writes it down
        pod = self._cache.pods.get(name, namespace)
        if pod is None:
            return self._whole_job(JobId(report.pod), report)
        job = self._world.jobs.owner_of(pod)
        if job is None or (report.job_uid and report.job_uid != job.uid) or pod.terminating or pod.over:
            return None
        if node and pod.spec.node_name and pod.spec.node_name != node:
            return None  # of the pod of this name that was there before
        return job, Speaker(self._order(job, pod), pod.metadata.uid)

    def _whole_job(self, job_id: JobId, report: Report) -> tuple[KnownJob, Speaker] | None:
        job = self._world.owner(job_id)
        if job is None or (report.job_uid and report.job_uid != job.uid):
            return None
        incarnation = job.status.recorded.incarnation
        return job, Speaker(_WHOLE_JOB, f"{job.uid}/{incarnation}")

    def _is_on(self, job: KnownJob, node: str) -> bool:
        return any(pod.spec.node_name == node for pod in self._cache.pods.by("job", job.key))

    def _order(self, job: KnownJob, pod: Pod) -> tuple[int, int]:
        place = None if job.workload is None else place_of(job.workload, pod.metadata.name)
        if place is None:
            return (_OTHERS, 0)
        role, ordinal = place
        return (TAKES_PART.index(role) if role in TAKES_PART else _OTHERS, ordinal)

    def _is_new(self, uid: str, report: Report) -> bool:
        if not report.seq:
            return True  # measured by the monitor: the newest counts
        numbers, sender = self._numbers.setdefault(uid, {}), (report.pod, bool(report.job_uid))
        if report.seq <= numbers.get(sender, 0):
            return False
        numbers[sender] = report.seq
        return True

    def _tell_of(self, refusal: Refusal, now_s: float, *, on: str | None) -> None:
        """The job that it was to be about, if there is one. `on`: and if it is on this node."""
        job = self._job_named(refusal.pod)
        if job is None or (on is not None and not self._is_on(job, on)):
            return
        message = self._refusals.message(job.uid, refusal, now_s)
        if message is not None:
            self._tell(job, JobEvent(Reason.REPORT_REFUSED, message, warning=True))

    def _not_followed(self, job: KnownJob, why: str) -> None:
        if self._left_out.get(job.uid) != why:
            self._left_out[job.uid] = why
            message = f"its output is not searched for values: {LOG_PATTERN}: {why}"
            self._tell(job, JobEvent(Reason.PATTERN_REFUSED, message, warning=True))

    def _job_named(self, name: str) -> KnownJob | None:
        """By namespace and name of a pod of it, or its own."""
        namespace, _, pod_name = name.partition("/")
        pod = self._cache.pods.get(pod_name, namespace)
        return self._world.owner(JobId(name)) if pod is None else self._world.jobs.owner_of(pod)

    # -- what it says -------------------------------------------------------------------------------------------------

    def _hear(self, job: KnownJob, said: list[tuple[Speaker, Report]], now_s: float) -> None:
        lessons, view = self._world.lessons, self._world.jobs.view(job)
        if view.workload is None or view.standing.finished:
            return
        before = told = lessons.told_of(view)
        workers = size_of(view.standing.assigned)
        for speaker, report in said:
            told = told.hearing(speaker, report, workers=workers, now_s=now_s)
        if told is before:
            return
        lessons.take(view, told)
        self._world.touch(job.uid)
        growth, known = growth_of(told), growth_of(before)
        if growth is not None and (known is None or known.category is not growth.category):
            self._notice(Happening.GROWTH_CHANGED)
        if lessons.is_worth_writing(view.standing, told):
            self._look_at(job.uid)
