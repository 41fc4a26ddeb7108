"""Reports of monitors taken in: whose they are is found in the caches, what they say goes to `lessons.py`.

Nothing is written for a report. A job is looked at, and a cycle asked for, only when its category changes or when it
has come a good deal further. What is about nobody who is here, or was said before, is passed over.
"""

from collections.abc import Callable, Mapping

from sterna.engines.contracts.members import TAKES_PART
from sterna.engines.kubernetes.cache import Cache
from sterna.engines.kubernetes.known import KnownJob, status_of
from sterna.engines.kubernetes.lessons import growth_of
from sterna.engines.kubernetes.objects import Pod
from sterna.engines.kubernetes.observed import place_of
from sterna.engines.kubernetes.seats import size_of
from sterna.engines.kubernetes.snapshot import World
from sterna.engines.kubernetes.telling import Speaker
from sterna.engines.kubernetes.timeline import Timeline
from sterna.engines.pacing import Happening
from sterna.model.ids import JobId, NodeId
from sterna.protocol.reports import Batch, Report

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
    ) -> None:
        self._cache = cache
        self._world = world
        self._timeline = timeline
        self._look_at = look_at
        self._notice = notice
        self._numbers: dict[str, dict[str, int]] = {}  # by uid of the job, then by pod: the last number that was taken

    def take(self, batch: Batch) -> int:
        """How many of the reports were new, and about somebody who is here."""
        now_s = self._timeline.now()
        if batch.load is not None and batch.node in self._world.roster.facts:
            self._world.lessons.put_load(NodeId(batch.node), batch.load, now_s)
        taken = 0
        by_job: dict[str, list[tuple[Speaker, Report]]] = {}
        for report in batch.reports:
            found = self._subject(report, batch.node)
            if found is not None and self._is_new(found[0].uid, report):
                by_job.setdefault(found[0].uid, []).append((found[1], report))
                taken += 1
        for uid, said in by_job.items():
            self._hear(self._world.jobs.by_uid[uid], said, now_s)
        return taken

    def follow(self, node: str) -> Mapping[str, str]:
        """Pods on this node whose output is to be searched for values, and by which pattern."""
        found: dict[str, str] = {}
        for pod in self._cache.pods.by("node", node):
            job = self._world.jobs.by_uid.get(pod.metadata.controller_uid or "")
            pattern = None if job is None else job.object.metadata.annotation(LOG_PATTERN)
            if pattern and not pod.over:
                found[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pattern
        return found

    def forget(self, uid: str) -> None:
        """This job is gone."""
        self._numbers.pop(uid, None)
        self._world.lessons.forget(uid)

    # -- whose it is --------------------------------------------------------------------------------------------------

    def _subject(self, report: Report, node: str) -> tuple[KnownJob, Speaker] | None:
        """None: nobody who is here, or not any more."""
        namespace, _, name = report.pod.partition("/")
        if not name:
            return None  # whose token it was sent with says the namespace; a monitor writes it down
        pod = self._cache.pods.get(name, namespace)
        if pod is None:
            return self._whole_job(JobId(report.pod), report)
        job = self._world.jobs.by_uid.get(pod.metadata.controller_uid or "")
        if job is None or (report.job_uid and report.job_uid != job.uid) or pod.terminating or pod.over:
            return None
        if node and pod.spec.node_name and pod.spec.node_name != node:
            return None  # of the pod of this name that was there before
        return job, Speaker(self._order(job, pod), pod.metadata.uid)

    def _whole_job(self, job_id: JobId, report: Report) -> tuple[KnownJob, Speaker] | None:
        job = self._world.owner(job_id)
        if job is None or (report.job_uid and report.job_uid != job.uid):
            return None
        incarnation = status_of(job.object).recorded.incarnation
        return job, Speaker(_WHOLE_JOB, f"{job.uid}/{incarnation}")

    def _order(self, job: KnownJob, pod: Pod) -> tuple[int, int]:
        place = None if job.workload is None else place_of(job.workload, pod.metadata.name)
        if place is None:
            return (_OTHERS, 0)
        role, ordinal = place
        return (TAKES_PART.index(role) if role in TAKES_PART else _OTHERS, ordinal)

    def _is_new(self, uid: str, report: Report) -> bool:
        if not report.seq:
            return True  # measured by the monitor: the newest counts
        numbers = self._numbers.setdefault(uid, {})
        if report.seq <= numbers.get(report.pod, 0):
            return False
        numbers[report.pod] = report.seq
        return True

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
