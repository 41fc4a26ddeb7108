"""The cluster as it looks from outside: every change that watches tell is held against what must always be true.

It knows what the API server says and nothing of the operator. What it finds wrong is in `wrongs`, the first ones only.
Who tells it of changes is `lookout.py`.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.cluster.requests import Body
from tests.cluster.talking import Followed

LINGER_S = 60.0  # a pod may be without a job, or a job's that ended, for so long: an operator may be dead for a while
TRIES_MAX = 3  # of one node in a row, for one seat
WRONGS_MAX = 20
_SUFFIXES = {"m": 1e-3, "": 1.0, "k": 1e3, "Ki": 2.0**10, "M": 1e6, "Mi": 2.0**20, "G": 1e9, "Gi": 2.0**30}
_WHERE = ("tf-{}", "training.kubeflow.org/{}", "sterna.dev/{}")

Seat = tuple[str, str, str]  # uid of the job, role, index


@dataclass
class SeenPod:
    """What matters of a pod."""

    uid: str
    namespace: str
    name: str
    node: str
    phase: str
    reason: str
    going: bool  # it was told to
    seat: Seat
    job_label: str  # the name of the job that it says it is of
    incarnation: str
    request: Mapping[str, float]
    ready: bool
    codes: tuple[int, ...]  # exit codes of its containers, and those before a restart in place

    @property
    def over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def alive(self) -> bool:
        """It is to run."""
        return not self.over and not self.going

    def lives_otherwise(self, later: "SeenPod") -> bool:
        """Has its kubelet said something new since?"""
        return (self.phase, self.ready, self.codes) != (later.phase, later.ready, later.codes)


@dataclass
class SeenJob:
    uid: str
    kind: str
    namespace: str
    name: str
    conditions: Mapping[str, str] = field(default_factory=dict)  # by type: True, False
    decision: str = ""
    message: str = ""  # how it ended
    timers: int = 0  # moments that it waits for: the next try, nodes that are left alone, admission that said no
    ended_s: float | None = None

    @property
    def verdict(self) -> str:
        """Empty: it has not ended."""
        return next((each for each in ("Succeeded", "Failed") if self.conditions.get(each) == "True"), "")


@dataclass
class Earned:
    """What the pods of a job came to by themselves."""

    completed: set[str] = field(default_factory=set)  # names of pods that ended well
    failed: set[tuple[str, str]] = field(default_factory=set)  # uids of pods that failed, and exit codes


class Observer:
    def __init__(self, namespaces: Collection[str], room: Mapping[str, str]) -> None:
        """`room` is what every node can hold."""
        self.wrongs: list[str] = []
        self.pods: dict[str, SeenPod] = {}  # by uid
        self.jobs: dict[str, SeenJob] = {}
        self.gone: dict[str, float] = {}  # uids of jobs, and when they went
        self.earned: dict[str, Earned] = defaultdict(Earned)  # by uid of the job
        self.unprovoked: set[str] = set()  # decisions since something last happened to a pod
        self._namespaces = frozenset(namespaces)
        self._room = {name: _amount(text) for name, text in room.items()}
        self._held: dict[str, Counter[str]] = defaultdict(Counter)  # by node
        self._by_seat: dict[Seat, set[str]] = defaultdict(set)
        self._by_job: dict[str, set[str]] = defaultdict(set)
        self._refused: dict[Seat, list[str]] = defaultdict(list)  # nodes, in a row
        self._decisions: set[str] = set()
        self._taken: set[str] = set()  # uids of pods that were taken from their job by hand, which are no job's since

    # -- pods

    def take_pods(self, change: Followed) -> None:
        found = [_pod(msgspec.json.decode(raw)) for raw in change.objects]
        if change.type == "LISTED":
            for uid in self.pods.keys() - {pod.uid for pod in found}:
                self._forget(self.pods[uid])
        for pod in found:
            before = self.pods.get(pod.uid)
            if before is not None:
                self._forget(before)
                if (before.seat, before.job_label) != (pod.seat, pod.job_label):
                    self._taken.add(pod.uid)
            if change.type == "DELETED" or (before is not None and before.lives_otherwise(pod)):
                self.unprovoked.clear()
            if change.type != "DELETED":
                self._note(pod)
            elif pod.namespace in self._namespaces:
                self._learn(pod)

    def _forget(self, pod: SeenPod) -> None:
        del self.pods[pod.uid]
        self._by_seat[pod.seat].discard(pod.uid)
        self._by_job[pod.seat[0]].discard(pod.uid)
        if pod.node and not pod.over:
            self._held[pod.node].subtract(pod.request)

    def _note(self, pod: SeenPod) -> None:
        self.pods[pod.uid] = pod
        if pod.node and not pod.over:
            self._held[pod.node].update(pod.request)
            self._check_room(pod)
        if pod.namespace not in self._namespaces:
            return
        self._by_seat[pod.seat].add(pod.uid)
        self._by_job[pod.seat[0]].add(pod.uid)
        self._check_seat(pod)
        self._learn(pod)

    def _check_room(self, pod: SeenPod) -> None:
        held = self._held[pod.node]
        over = {name: (held[name], room) for name, room in self._room.items() if held[name] > room + 1e-6}
        if over:
            there = sorted(other.name for other in self.pods.values() if other.node == pod.node and not other.over)
            self._say(f"{pod.node} holds more than it can: {over}; {there}, the last one {pod.name}")

    def _check_seat(self, pod: SeenPod) -> None:
        if pod.seat[0] and pod.alive and pod.uid not in self._taken:
            alive = [uid for uid in self._by_seat[pod.seat] - self._taken if self.pods[uid].alive]
            if len(alive) > 1:
                self._say(f"two pods in one seat {pod.seat}: {[self.pods[uid].name for uid in alive]}")
            job = self.jobs.get(pod.seat[0])
            if job is not None and job.kind == "ElasticJob":  # all begin anew together
                mine = [self.pods[uid] for uid in self._by_job[pod.seat[0]] - self._taken]
                there = {other.incarnation for other in mine if not other.over}
                if len(there) > 1:
                    self._say(f"two gangs of {job.name} at once: {sorted(there)}, the last pod {pod.name}")

    def _learn(self, pod: SeenPod) -> None:
        uid, role, index = pod.seat
        if not uid:
            return
        if pod.phase == "Succeeded" and not pod.going:
            self.earned[uid].completed.add(f"{role}-{index}")
        if not pod.going:
            self.earned[uid].failed |= {(pod.uid, str(code)) for code in pod.codes if code not in (0, 143)}
        refused = self._refused[pod.seat]
        if pod.phase == "Running":
            refused.clear()
        elif pod.phase == "Failed" and pod.reason and f"{pod.node} {pod.uid}" not in refused:
            if refused and refused[-1].split()[0] != pod.node:
                refused.clear()
            refused.append(f"{pod.node} {pod.uid}")
            if len(refused) > TRIES_MAX:
                self._say(f"{pod.name} was tried on {pod.node} {len(refused)} times in a row: {pod.reason}")

    # -- jobs

    def take_jobs(self, kind: str, change: Followed) -> None:
        found = [_job(kind, msgspec.json.decode(raw)) for raw in change.objects]
        mine = [job for job in found if job.namespace in self._namespaces]
        if change.type == "LISTED":
            known = {uid for uid, job in self.jobs.items() if job.kind == kind}
            for uid in known - {job.uid for job in mine}:
                self.gone[uid] = time.monotonic()
                del self.jobs[uid]
        for job in mine:
            before = self.jobs.pop(job.uid, None)
            if change.type == "DELETED":
                self.gone[job.uid] = time.monotonic()
                continue
            self.jobs[job.uid] = job
            if job.decision not in self._decisions:
                self._decisions.add(job.decision)
                self.unprovoked.add(job.decision)
            self._check_verdict(before, job)

    def _check_verdict(self, before: SeenJob | None, job: SeenJob) -> None:
        if before is not None:
            job.ended_s = before.ended_s
            if before.verdict and job.verdict != before.verdict:
                self._say(f"{job.name} was {before.verdict} and is {job.verdict or 'at work again'}")
        if job.verdict and job.ended_s is None:
            job.ended_s = time.monotonic()
        if job.conditions.get("Succeeded") == job.conditions.get("Failed") == "True":
            self._say(f"{job.name} succeeded and failed")

    # -- what is wrong for a while only

    def look(self) -> None:
        """For pods that nothing takes away."""
        for what in self._left_over(time.monotonic() - LINGER_S):
            self._say(what)

    def left_over(self) -> list[str]:
        """Pods that have no job, or whose job has ended, now."""
        return list(self._left_over(time.monotonic()))

    def _left_over(self, before_s: float) -> Iterator[str]:
        for pod in self.pods.values():
            if pod.namespace not in self._namespaces or not pod.alive or pod.uid in self._taken:
                continue
            job, gone_s = self.jobs.get(pod.seat[0]), self.gone.get(pod.seat[0])
            if gone_s is not None and gone_s <= before_s:
                yield f"pod {pod.name} is there, and its job is not"
            if job is not None and job.ended_s is not None and job.ended_s <= before_s:
                yield f"pod {pod.name} runs, and its job has {job.verdict}"

    def of_job(self, uid: str) -> list[SeenPod]:
        return [self.pods[pod] for pod in sorted(self._by_job.get(uid, ()))]

    def _say(self, what: str) -> None:
        if len(self.wrongs) < WRONGS_MAX and what not in self.wrongs:
            self.wrongs.append(what)


def _pod(body: Body) -> SeenPod:
    meta, spec, status = body["metadata"], body["spec"], body.get("status", {})
    labels = meta.get("labels") or {}
    owner = next((str(each["uid"]) for each in meta.get("ownerReferences", []) if each.get("controller")), "")
    request: Counter[str] = Counter({"pods": 1})
    for container in spec["containers"]:
        wanted = container.get("resources", {}).get("requests", {})
        request.update({name: _amount(amount) for name, amount in wanted.items()})
    return SeenPod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        reason=status.get("reason", ""),
        going="deletionTimestamp" in meta,
        seat=(owner, _label(labels, "replica-type"), _label(labels, "replica-index")),
        job_label=_label(labels, "job-name"),
        incarnation=(meta.get("annotations") or {}).get("sterna.dev/incarnation", ""),
        request=request,
        ready=any(each.get("ready") for each in status.get("containerStatuses", [])),
        codes=tuple(_codes(status.get("containerStatuses", []))),
    )


def _label(labels: Mapping[str, str], key: str) -> str:
    return next((labels[name.format(key)] for name in _WHERE if name.format(key) in labels), "")


def _codes(containers: Collection[Mapping[str, Any]]) -> Iterator[int]:
    for container in containers:
        for state in (container.get("state", {}), container.get("lastState", {})):
            if "terminated" in state:
                yield int(state["terminated"]["exitCode"])


def _job(kind: str, body: Body) -> SeenJob:
    meta, status = body["metadata"], body.get("status", {})
    scheduling = status.get("scheduling", {})
    return SeenJob(
        uid=meta["uid"],
        kind=kind,
        namespace=meta["namespace"],
        name=meta["name"],
        conditions={each["type"]: each["status"] for each in status.get("conditions", [])},
        message=next((each["message"] for each in status.get("conditions", []) if each["type"] == "Failed"), ""),
        decision=str(scheduling.get("decision", "")),
        timers=len(scheduling.get("refusals", [])) + ("retryAt" in scheduling) + ("denial" in scheduling),
    )


def _amount(text: Any) -> float:
    number = str(text)
    suffix = number.lstrip("0123456789.")
    return float(number.removesuffix(suffix) if suffix else number) * _SUFFIXES[suffix]
