"""What a story is made of: facts that happen to jobs and nodes in an order, and what is seen of a job after them.

Values only. How a fact is played is each engine's world (`played_*.py`); the table of stories is `stories.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Body = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A job as its owner declares it, in the same manifest for every engine. A worker asks for one GPU."""

    name: str
    at_least: int = 1
    at_most: int = 1
    step: int = 1
    members: bool = False  # workers come and go while the others train on (torchrun). False: all start anew
    master: bool = False  # beside the workers there is a master, whose success is the job's
    restart: str = "ExitCode"  # under OnFailure and Always it is the kubelet that starts a container again
    backoff_limit: int | None = None
    deadline_s: int | None = None
    epochs: int | None = None
    category: str | None = None
    suspended: bool = False

    @property
    def kind(self) -> str:
        return "PyTorchJob" if self.members or self.master else "ElasticJob"

    def manifest(self) -> Body:
        policy: Body = {"suspend": self.suspended}
        if self.backoff_limit is not None:
            policy["backoffLimit"] = self.backoff_limit
        if self.deadline_s is not None:
            policy["activeDeadlineSeconds"] = self.deadline_s
        spec = self._replicas() if self.kind == "PyTorchJob" else self._elastic()
        version = "kubeflow.org/v1" if self.kind == "PyTorchJob" else "sterna.dev/v1alpha1"
        return {
            "apiVersion": version,
            "kind": self.kind,
            "metadata": {"name": self.name, "annotations": self._annotations()},
            "spec": {**spec, "runPolicy": policy},
        }

    def _annotations(self) -> Body:
        """What the kinds of others have no field for."""
        return {"sterna.dev/workers-step": str(self.step)} if self.kind == "PyTorchJob" and self.step > 1 else {}

    def _elastic(self) -> Body:
        spec: Body = {
            "workers": {"min": self.at_least, "max": self.at_most, "initial": self.at_least, "step": self.step},
            "image": "localhost/none:1",
            "command": ["sleep", "1000"],
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "terminationGracePeriodSeconds": 2,
            "restartPolicy": self.restart,
        }
        if self.epochs is not None:
            spec["epochs"] = self.epochs
        if self.category is not None:
            spec["category"] = self.category
        return spec

    def _replicas(self) -> Body:
        def replica(count: int, gpus: int) -> Body:
            limits = {"limits": {"nvidia.com/gpu": gpus} if gpus else {"cpu": "1"}}
            program = {
                "name": "pytorch",
                "image": "localhost/none:1",
                "command": ["sleep", "1000"],
                "resources": limits,
            }
            pod = {"terminationGracePeriodSeconds": 2, "containers": [program]}
            return {"replicas": count, "restartPolicy": self.restart, "template": {"spec": pod}}

        spec: Body = {"pytorchReplicaSpecs": {"Worker": replica(self.at_least, 1)}}
        if self.master:
            spec["pytorchReplicaSpecs"] = {"Master": replica(1, 0), "Worker": replica(self.at_least, 1)}
        if self.members:
            spec["elasticPolicy"] = {
                "minReplicas": self.at_least,
                "maxReplicas": self.at_most,
                "rdzvBackend": "c10d",
            }
        return spec


# -- facts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Submitted:
    job: Declared


@dataclass(frozen=True, slots=True)
class Ends:
    """A worker's program ends by itself; above 128 by a signal, as a shell tells it."""

    job: str
    code: int
    worker: str = "worker-0"


@dataclass(frozen=True, slots=True)
class Says:
    """The program tells how far it is: of so many units in all, if it knows how many; and its loss, if it evaluated."""

    job: str
    done: float
    total: float | None = None
    epoch: int = 0
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class TimePasses:
    seconds: float


@dataclass(frozen=True, slots=True)
class NodeLost:
    node: str


@dataclass(frozen=True, slots=True)
class NodeSilent:
    """It does not answer, and nothing says that it is lost: what runs there may run on. `NodeBack` ends it."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeBack:
    node: str


@dataclass(frozen=True, slots=True)
class Cordoned:
    """It takes nothing new; what runs there stays."""

    node: str


@dataclass(frozen=True, slots=True)
class Drained:
    """What runs there is to leave."""

    node: str


@dataclass(frozen=True, slots=True)
class Suspended:
    job: str


@dataclass(frozen=True, slots=True)
class Resumed:
    job: str


@dataclass(frozen=True, slots=True)
class Scaled:
    job: str
    at_least: int
    at_most: int


@dataclass(frozen=True, slots=True)
class Deleted:
    job: str


@dataclass(frozen=True, slots=True)
class MoveAsked:
    job: str
    to: str


@dataclass(frozen=True, slots=True)
class StartsHeld:
    """Workers that are started from now on do not come up, until `StartsLet`."""


@dataclass(frozen=True, slots=True)
class StartsLet:
    pass


@dataclass(frozen=True, slots=True)
class StopsHeld:
    """Workers that are told to go from now on do not, until `StopsLet`."""


@dataclass(frozen=True, slots=True)
class StopsLet:
    pass


@dataclass(frozen=True, slots=True)
class SchedulerKilled:
    """And started again over the same state, with the same workers."""


@dataclass(frozen=True, slots=True)
class SchedulerDies:
    """Workers run on, and nothing looks after them until `SchedulerComes`."""


@dataclass(frozen=True, slots=True)
class SchedulerComes:
    pass


@dataclass(frozen=True, slots=True)
class ServingPodWaits:
    """A pod that goes before training finds no room."""

    name: str
    gpus: int


Fact = (
    Submitted
    | Ends
    | Says
    | TimePasses
    | NodeLost
    | NodeSilent
    | NodeBack
    | Cordoned
    | Drained
    | Suspended
    | Resumed
    | Scaled
    | Deleted
    | MoveAsked
    | StartsHeld
    | StartsLet
    | StopsHeld
    | StopsLet
    | SchedulerKilled
    | SchedulerDies
    | SchedulerComes
    | ServingPodWaits
)


# -- what is seen -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A job as every engine can tell of it. Moments are seconds since the story began."""

    phase: str = "Gone"  # of its life; Gone: the engine does not have it
    size: int = 0  # elastic workers held
    nodes: tuple[str, ...] = ()  # of its seats, in their order
    seats: tuple[str, ...] = ()  # role and ordinal of each, in their order
    reason: str = ""  # the word for why it stands as it does
    failures: int = 0  # counted against backoffLimit
    retry_s: float | None = None  # nothing is started before. None: it backs off from nothing
    deadline_s: float | None = None  # when its time is over. None: it has none, or is not active
    waiting_since_s: float | None = None  # None: it does not wait
    started_s: float | None = None  # when its time in the seat began. None: it holds nothing
    served_gpu_s: float = 0.0  # attained service, as of now
    served_since_start_gpu_s: float = 0.0
    units_left: float | None = None  # None: unknown
    migrations: int = 0
    conditions: frozenset[str] = frozenset()  # those that are true, of the ones that all engines know
    events: tuple[str, ...] = ()  # reasons, each once
    words: tuple[str, ...] = ()  # messages of the same events
    refusal: str = ""  # why the move that was asked for last was refused. Empty: it was not


@dataclass(frozen=True, slots=True)
class Then:
    """What is seen of a job now: the fields that are named, and no others."""

    job: str
    sees: Mapping[str, object] = field(default_factory=dict)


def then(job: str, **sees: object) -> Then:
    """`then("a", phase="Running", size=2)`. `said` names an event, `told` words of one, `holds` a condition."""
    return Then(job, sees)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """`without` names the engines that cannot play it, each with the reason."""

    title: str
    history: tuple[Fact | Then, ...]
    without: Mapping[str, str] = field(default_factory=dict)


def story(title: str, *history: Fact | Then, without: Mapping[str, str] | None = None) -> Story:
    return Story(title=title, history=history, without=without or {})
