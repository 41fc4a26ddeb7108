"""Pods that name a job which is not theirs: told of, on the pod itself, and otherwise treated like any other pod.

The owner of the pod reads the event; the owner of the job that it names is not told, or any user could fill the
events of any job. Each pod is told of once, and each namespace only so often.
"""

from sterna.engines.kubernetes.apiserver.objects import Pod
from sterna.engines.kubernetes.apiserver.port import PODS
from sterna.engines.kubernetes.cache.cluster_cache import Cache
from sterna.engines.kubernetes.process.clock import Clock
from sterna.engines.kubernetes.status.event_recorder import About, Recorder, Severity
from sterna.engines.kubernetes.world.job_index import KnownJobs

REASON = "NotOfThisJob"
TOLD_MAX = 10  # of one namespace at once
REFILL_S = 60.0  # and one more in this time


class Strangers:
    def __init__(self, cache: Cache, jobs: KnownJobs, recorder: Recorder, clock: Clock) -> None:
        self._cache = cache
        self._jobs = jobs
        self._recorder = recorder
        self._clock = clock
        self._begun = False
        self._told: set[str] = set()  # uids of pods that are there
        self._left: dict[str, tuple[float, float]] = {}  # by namespace: how many may be told of, as of when
        cache.pods.listen(self._pod_changed)

    def begin_term(self) -> None:
        """Pods that came before may not have been told of yet."""
        self._begun = True
        self._told.clear()
        for pod in self._cache.pods:
            self._look(pod)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            assert before is not None
            self._told.discard(before.metadata.uid)
        elif self._begun:
            self._look(after)

    def _look(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.uid in self._told or not meta.owner_references:
            return
        wrong = self._what_is_wrong(pod)
        if wrong and self._may_tell(meta.namespace):
            self._told.add(meta.uid)
            about = About(PODS.api_version, PODS.kind, meta.namespace, meta.name, meta.uid)
            message = f"it counts as a guest and for no job: {wrong}"
            self._recorder.record(about, reason=REASON, message=message, severity=Severity.WARNING)

    def _what_is_wrong(self, pod: Pod) -> str:
        """Empty: nothing, or it claims nothing."""
        for owner in pod.metadata.owner_references or ():
            job = self._jobs.by_uid.get(owner.uid)
            if job is None or self._jobs.owner_of(pod) is job:
                continue
            if job.object.metadata.namespace != pod.metadata.namespace:
                return "the uid in its ownerReferences is that of a job of another namespace"
            if not owner.controller:
                return f"its ownerReferences name job {owner.name}, which does not control it"
            return f"its ownerReferences name job {owner.name}, its labels or that name do not"
        return ""

    def _may_tell(self, namespace: str) -> bool:
        now_s = self._clock.mono()
        left, as_of_s = self._left.get(namespace, (float(TOLD_MAX), now_s))
        left = min(float(TOLD_MAX), left + (now_s - as_of_s) / REFILL_S)
        self._left[namespace] = (left - 1.0 if left >= 1.0 else left, now_s)
        return left >= 1.0
