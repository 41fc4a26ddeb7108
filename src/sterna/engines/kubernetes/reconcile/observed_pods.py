"""Pods of a job as far as they matter to it: which worker each one is, how far it has come, how it ended. Values only.

The container that decides is the kind's (`tensorflow`, `pytorch`), else the first. What an end means for the job is
`pod_ends.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.objects import ContainerStatus, Pod, Terminated
from sterna.engines.kubernetes.apiserver.timestamps import moment_s
from sterna.engines.kubernetes.bodies.own_names import place_of
from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.lifecycle.gang_roles import Place
from sterna.model.ids import DeviceId, NodeId
from sterna.model.jobs import Worker
from sterna.model.workload import RestartPolicy, Workload
from sterna.protocol import Status, WorkerPhase

INCARNATION = "sterna.dev/incarnation"  # annotation of a pod
DEVICES = "sterna.dev/devices"  # annotation of a pod: the cards that were meant for it
SLOT_LABELS = ("tf-job-workerid", "sterna.dev/slot")
MAIN_CONTAINERS: Mapping[str, str] = {"TFJob": "tensorflow", "PyTorchJob": "pytorch"}

# What a kubelet says of pods that it did not let in or threw out. The program had no part in it.
_REFUSALS = frozenset(
    {
        *("Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "Preempted"),
        *("UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError"),
    }
)
_ON_THE_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
# A kubelet alternates between an error and the pause after it; to users they are one trouble.
_ONE_TROUBLE = {"ErrImagePull": "ImagePullBackOff", "RunContainerError": "CrashLoopBackOff"}


class EndKind(StrEnum):
    COMPLETED = "completed"  # by itself, with code 0
    STOPPED = "stopped"  # it was told to
    FAILED = "failed"
    REFUSED = "refused"  # the kubelet did not let it in, or threw it out: no failure of the program


class End(NamedTuple):
    key: str  # of this end and no other: uid/restarts
    kind: EndKind
    code: int | None  # None: it is not known
    at_s: float | None
    message: str
    word: Status | None  # the SDK's last message. None: there is none, or it cannot be read


class Trouble(NamedTuple):
    """Why a pod does not come up."""

    reason: str
    message: str


@dataclass(frozen=True)
class Seen:
    """One pod."""

    pod: Pod
    place: Place | None  # None: its name is not one that this job gives
    main: str = ""  # name of the container that decides. Empty: the first
    policy: RestartPolicy = RestartPolicy.NEVER

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def node(self) -> NodeId:
        return NodeId(self.pod.spec.node_name)

    @property
    def terminating(self) -> bool:
        return self.pod.terminating

    @property
    def over(self) -> bool:
        """Nothing of it runs any more."""
        return self.pod.over or self.lingers

    @property
    def lingers(self) -> bool:
        """It was told to go, nothing of it runs, and a finalizer keeps it all the same, for how long is not ours to
        say. It has its name and nothing else: its place is free.
        """
        ended = self.pod.over or not self.pod.spec.node_name  # one without a node is given none any more
        return self.terminating and ended and bool(self.pod.metadata.finalizers)

    @cached_property
    def incarnation(self) -> int:
        text = self.pod.metadata.annotation(INCARNATION) or ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0

    @cached_property
    def slot(self) -> str:
        labels = (self.pod.metadata.label(key) for key in SLOT_LABELS)
        return next((label for label in labels if label), "")

    @property
    def worker(self) -> Worker | None:
        if self.place is None:
            return None
        cards = (self.pod.metadata.annotation(DEVICES) or "").split(",")
        return Worker(*self.place, self.node, tuple(DeviceId(card) for card in cards if card))

    @cached_property
    def runs(self) -> bool:
        """Its program runs."""
        if self.over or self.end is not None:
            return False
        status = self._status
        return status is not None and status.state is not None and status.state.running is not None

    @property
    def ready(self) -> bool:
        return self.runs and self.pod.ready and not self.terminating

    @property
    def started_s(self) -> float | None:
        status = self._status
        if status is None or status.state is None or status.state.running is None:
            return None
        return moment_s(status.state.running.started_at)

    @property
    def restarts(self) -> int:
        """By the kubelet, in place, init containers included."""
        status = self.pod.status
        return sum(
            found.restart_count
            for found in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        )

    @cached_property
    def end(self) -> End | None:
        """How it ended for good. None: it has not, or its kubelet starts it again."""
        status = self._status
        terminated = status.state.terminated if status is not None and status.state is not None else None
        restarts = status.restart_count if status is not None else 0
        if not self.over and (terminated is None or self._is_started_again(terminated)):
            return None
        return self._end(terminated, f"{self.uid}/{restarts}")

    @cached_property
    def earlier(self) -> End | None:
        """How it ended before its kubelet started it again."""
        status = self._status
        if status is None or status.last_state is None or status.last_state.terminated is None:
            return None
        return self._end(status.last_state.terminated, f"{self.uid}/{status.restart_count - 1}")

    @property
    def trouble(self) -> Trouble | None:
        """Why it does not come up. None: it does, or is on its way."""
        if self.over or self.terminating or self.end is not None:
            return None
        status = self.pod.status
        for found in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
            waiting = found.state.waiting if found.state is not None else None
            if waiting is not None and waiting.reason not in _ON_THE_WAY:
                reason = _ONE_TROUBLE.get(waiting.reason, waiting.reason)
                return Trouble(reason, f"pod {self.name}, container {found.name}: {waiting.message or waiting.reason}")
        for condition in status.conditions or ():
            if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
                return Trouble("Unschedulable", f"pod {self.name}: {condition.message}")
        return None

    @cached_property
    def _status(self) -> ContainerStatus | None:
        statuses = self.pod.status.container_statuses or []
        main = self.main or (self.pod.spec.containers[0].name if self.pod.spec.containers else "")
        by_name = next((found for found in statuses if found.name == main), None)
        return by_name if by_name is not None or not statuses else statuses[0]

    def _is_started_again(self, terminated: Terminated) -> bool:
        if self.terminating or self.policy in (RestartPolicy.NEVER, RestartPolicy.EXIT_CODE):
            return False
        return self.policy is RestartPolicy.ALWAYS or terminated.exit_code != 0

    def _end(self, terminated: Terminated | None, key: str) -> End:
        word = Status.from_json(terminated.message) if terminated is not None and terminated.message else None
        code = terminated.exit_code if terminated is not None else None
        at_s = moment_s(terminated.finished_at) if terminated is not None else None
        return End(key, self._kind(terminated, word), code, at_s, self._message(terminated, word), word)

    def _kind(self, terminated: Terminated | None, word: Status | None) -> EndKind:
        well = terminated.exit_code == 0 if terminated is not None else self.pod.status.phase == "Succeeded"
        if well and word is not None and word.phase is WorkerPhase.FINISHED:
            return EndKind.COMPLETED
        if self.terminating or (well and word is not None and word.phase is WorkerPhase.COMMITTED):
            return EndKind.STOPPED  # a pod beside it may have been told to stop, and the ranks agreed to stop together
        if well:
            return EndKind.COMPLETED
        return EndKind.REFUSED if _is_refused(self.pod) else EndKind.FAILED

    def _message(self, terminated: Terminated | None, word: Status | None) -> str:
        status = self.pod.status
        if terminated is None or _is_refused(self.pod):
            return ": ".join(filter(None, [status.reason or status.phase, status.message]))
        said = [f"exit code {terminated.exit_code}"]
        if terminated.reason == "OOMKilled":
            said.append("out of memory")
        if word is not None and word.problem:
            said.append(word.problem)
        elif word is None and terminated.message.strip():
            said.append(terminated.message.strip()[-200:])
        return ", ".join(said)


def seen_of(view: JobView, workload: Workload, pod: Pod) -> Seen:
    place = place_of(workload, pod.metadata.name)
    policy = workload.template(place[0]).restart_policy if place is not None else RestartPolicy.NEVER
    return Seen(pod, place, view.main_container or MAIN_CONTAINERS.get(workload.kind, ""), policy)


def _is_refused(pod: Pod) -> bool:
    status = pod.status
    if status.phase != "Failed":
        return False
    if any(found.type == "DisruptionTarget" and found.status == "True" for found in status.conditions or ()):
        return True
    never_began = not status.container_statuses and bool(status.reason) and status.reason != "DeadlineExceeded"
    return status.reason in _REFUSALS or status.reason.startswith("OutOf") or never_began
