"""Jobs: what was asked for, what each one holds right now, and how far it has come. Values only.

Counters grow while a job runs, so they are kept as "exact at `as_of_s`" plus a rate: a snapshot can then be taken at
any moment without touching the jobs that nothing happened to. Methods that take `now_s` do the extrapolation.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, NamedTuple

from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvalidRequest
from sterna.model.growth import Growth
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.neighbours import NO_TRAITS, PodTraits
from sterna.model.node_affinity import NodeTerm, NodeWish
from sterna.model.nodes import NodeDemands, Toleration
from sterna.model.phases import FINISHED, Phase
from sterna.model.resources import NOTHING, WHOLE_GPU_MILLI, Resources


class Role(StrEnum):
    """What a worker is for. Only WORKER is elastic; the others exist in fixed numbers while the job holds anything."""

    PS = "ps"
    CHIEF = "chief"
    MASTER = "master"
    LAUNCHER = "launcher"
    EVALUATOR = "evaluator"
    WORKER = "worker"


class Worker(NamedTuple):
    """One process of a job in its place. The job is known from the context."""

    role: Role
    ordinal: int  # stable for the worker's life; the lowest free one is given to a new worker
    node: NodeId
    devices: tuple[DeviceId, ...] = ()  # which GPUs, where that matters (shares of a card, the local engine)


class FixedRole(NamedTuple):
    role: Role
    replicas: int
    request: Resources
    limit: Resources = NOTHING  # of one replica: what it may use at most; 0: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What the owner asked for. Shared by all snapshots until the owner edits it."""

    id: JobId
    submitted_s: float
    request: Resources  # of one elastic worker, limits counted where no request is given
    workers_min: int = 1
    workers_max: int = 1
    workers_initial: int = 1  # what rigid policies give, and elastic ones start from
    workers_step: int = 1  # sizes are min, min + step, ...: tensor-parallel groups, whole nodes
    fixed: tuple[FixedRole, ...] = ()
    accelerator: str | None = None  # the pool; None: any
    moves_between_pools: bool = False  # may a running job that takes any go to another pool when it cannot stay?
    category: str = ""  # jobs of one category share what is learned about their speed
    kind: str = "ElasticJob"
    priority: int = 0  # larger goes first, where a policy looks at it
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    node_terms: tuple[NodeTerm, ...] = ()  # alternatives, of which a node must match one. Empty: no such demand
    node_wishes: tuple[NodeWish, ...] = ()  # where several nodes would do, the one that meets most of these
    kept_from: frozenset[NodeId] = frozenset()  # nodes that refused its workers lately
    node_preference: NodeId | None = None  # tried first; unknown or full is no error
    restarts_on_resize: bool = False  # no worker survives a change of size or place; the checkpoint carries over
    limit: Resources = NOTHING  # of one elastic worker: what it may use at most; 0: no limit
    pods: tuple[tuple[Role, PodTraits], ...] = ()  # what pods of each role are to others. Empty: nothing is known
    # What follows from the above, kept because every cycle asks for it of every job:
    demands: NodeDemands = field(init=False)  # what the four above say together
    has_rules: bool = field(init=False)  # does a pod of it say beside which others it may be?
    size_asked: int = field(init=False)  # `workers_initial` on the job's own grid of steps
    size_largest: int = field(init=False)  # the last size on the grid
    width_largest: int = field(init=False)  # milli-GPU at that size; a worker counts as one where no GPU is asked for
    fixed_request: Resources = field(init=False)  # all fixed roles together
    min_request: Resources = field(init=False)  # the least this job can start with
    asked_request: Resources = field(init=False)  # the same at `size_asked`, and at `size_largest`
    largest_request: Resources = field(init=False)

    def __post_init__(self) -> None:
        name = f"job {self.id}"
        if self.workers_min < 1:
            raise InvalidRequest(field=f"{name}: workers.min", value=self.workers_min, expected="at least 1")
        if self.workers_max < self.workers_min:
            expected = f"at least workers.min ({self.workers_min})"
            raise InvalidRequest(field=f"{name}: workers.max", value=self.workers_max, expected=expected)
        if not self.workers_min <= self.workers_initial <= self.workers_max:
            expected = f"between workers.min ({self.workers_min}) and workers.max ({self.workers_max})"
            raise InvalidRequest(field=f"{name}: workers.initial", value=self.workers_initial, expected=expected)
        if self.workers_step < 1:
            raise InvalidRequest(field=f"{name}: workers.step", value=self.workers_step, expected="at least 1")
        for amount, what in zip(self.request, self.request._fields, strict=True):
            if amount < 0:
                raise InvalidRequest(field=f"{name}: request.{what}", value=amount, expected="0 or more")
        if self.request.shares_gpu and self.request.gpu_milli > WHOLE_GPU_MILLI:
            expected = "a share of one GPU below 1000, or a multiple of 1000"
            raise InvalidRequest(field=f"{name}: request.gpu_milli", value=self.request.gpu_milli, expected=expected)
        object.__setattr__(
            self, "demands", NodeDemands(self.selector, self.tolerations, self.node_terms, self.kept_from)
        )
        object.__setattr__(self, "has_rules", any(traits.has_rules for _, traits in self.pods))
        object.__setattr__(self, "size_asked", self.allowed_size(self.workers_initial))
        object.__setattr__(self, "size_largest", self.allowed_size(self.workers_max))
        object.__setattr__(self, "width_largest", self.size_largest * (self.request.gpu_milli or WHOLE_GPU_MILLI))
        fixed = NOTHING
        for role in self.fixed:
            fixed = fixed.plus(role.request.times(role.replicas))
        object.__setattr__(self, "fixed_request", fixed)
        object.__setattr__(self, "min_request", self.request.times(self.workers_min).plus(fixed))
        object.__setattr__(self, "asked_request", self.request.times(self.size_asked).plus(fixed))
        object.__setattr__(self, "largest_request", self.request.times(self.size_largest).plus(fixed))

    @property
    def fixed_count(self) -> int:
        return sum(role.replicas for role in self.fixed)

    def request_of(self, role: Role) -> Resources:
        for fixed in self.fixed:
            if fixed.role is role:
                return fixed.request
        return self.request

    def limit_of(self, role: Role) -> Resources:
        for fixed in self.fixed:
            if fixed.role is role:
                return fixed.limit
        return self.limit

    def traits_of(self, role: Role) -> PodTraits:
        """What its pods of this role are to others."""
        return next((traits for known, traits in self.pods if known is role), NO_TRAITS)

    def allowed_size(self, workers: int) -> int:
        """The largest size this job may have that is not above `workers`; 0 if even its minimum is."""
        if workers < self.workers_min:
            return 0
        capped = min(workers, self.workers_max)
        return capped - (capped - self.workers_min) % self.workers_step


class ProgressPoint(NamedTuple):
    """One report of the training program: an epoch or an evaluation."""

    at_s: float
    units_done: float
    workers: int
    unit_s: float  # how long the last unit took
    value: float | None = None  # loss, accuracy, ...; None: this report had no evaluation


class Disruption(NamedTuple):
    """One interruption that the scheduler caused: what budgets and cool-downs are counted from."""

    at_s: float
    kind: str  # resize, migration, preemption
    pause_s: float


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as one snapshot sees it. Not slotted: `but` copies the instance dict, which is what a cycle does most."""

    spec: JobSpec
    phase: Phase = Phase.WAITING
    workers: tuple[Worker, ...] = ()  # held now, fixed roles first, then by ordinal
    leaving: tuple[Worker, ...] = ()  # told to go and not gone: they train nothing and still take room
    as_of_s: float = 0.0  # the counters below are exact at this moment
    resumes_s: float = 0.0  # no progress before this moment: a start or restart is being paid for
    waiting_since_s: float | None = None  # None: it is not waiting
    first_started_s: float | None = None  # None: it never ran
    started_s: float | None = None  # when it last went from nothing to something; None: it holds nothing
    gpu_s: float = 0.0  # attained service: GPU-seconds (worker-seconds where no GPU is asked for)
    ran_s: float = 0.0  # seconds with workers
    gpu_s_since_start: float = 0.0  # the same two, counted from `started_s`: what Tiresias demotes by
    last_ran_s: float = 0.0  # seconds of the latest run: what a promotion compares the wait with
    units_left: float | None = None  # work left, in the curve's units; None: not known
    curve: SpeedupCurve = SpeedupCurve((1.0,))
    checkpoint_s: float = 0.0  # what saving costs
    restart_s: float = 0.0  # what stopping and starting again costs beside saving
    progress: tuple[ProgressPoint, ...] = ()
    growth: Growth | None = None  # how its evaluation value grows. None: it has not been judged
    disruptions: tuple[Disruption, ...] = ()
    denied: str = ""  # what the cluster said that does not let its workers in: it asks for nothing now. Empty: it may
    # What follows from the above, kept because every policy asks for it of every job in every cycle:
    size: int = field(init=False)  # elastic workers held
    service_rate: float = field(init=False)  # GPUs held; workers where the job asks for no GPU
    wants_workers: bool = field(init=False)  # takes part in sharing out: neither finished, suspended nor denied
    seat_s: float = field(init=False)  # when it last went from nothing to something; infinite while it holds nothing
    since_s: float = field(init=False)  # progress is being made from here on, so this is when the next two are exact
    left_s: float = field(init=False)  # time to the end at the job's largest size; infinite if not known
    left_slope: float = field(init=False)  # by how much that falls each second with the workers it has
    solo: float = field(init=False)  # how many times longer one worker takes than the largest size

    def __post_init__(self) -> None:
        self.__dict__.update(_follows(self))

    def but(self, **changes: Any) -> "Job":
        """This job with other values; `dataclasses.replace` in a fifth of the time."""
        twin = object.__new__(Job)
        values = {**self.__dict__, **changes}  # one copy, where filling an empty dict would grow it again and again
        object.__setattr__(twin, "__dict__", values)
        values.update(_follows(twin))
        return twin

    @property
    def id(self) -> JobId:
        return self.spec.id

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def size_to_keep(self) -> int:
        """What it holds, on its grid: a loss between two sizes goes down to the smaller, which needs no room; one below
        the smallest goes up to it. 0 if it holds nothing."""
        return self.size and (self.spec.allowed_size(self.size) or self.spec.workers_min)

    def attained_gpu_s(self, now_s: float) -> float:
        return self.gpu_s + self.service_rate * max(0.0, now_s - self.as_of_s) if self.size else self.gpu_s

    def attained_since_start(self, now_s: float) -> float:
        elapsed = max(0.0, now_s - self.as_of_s)
        return self.gpu_s_since_start + self.service_rate * elapsed if self.size else self.gpu_s_since_start

    def units_left_at(self, now_s: float) -> float:
        """Work left; infinite if not known, never below 0."""
        left = self.units_left
        if left is None:
            return inf
        size = self.size
        if not size:
            return left
        since = self.as_of_s if self.as_of_s > self.resumes_s else self.resumes_s
        if now_s <= since:
            return left
        left -= (now_s - since) / self.curve.unit_s(size)
        return left if left > 0.0 else 0.0

    def remaining_s(self, workers: int, now_s: float) -> float:
        """Time to the end with so many workers from now on; infinite with none, or if the work left is unknown.

        `units_left_at` times `curve.unit_s`, in one piece: policies ask this of every job in every cycle.
        """
        left = self.units_left
        if left is None or workers <= 0:
            return inf
        pace, size = self.curve.pace_s, self.size
        if size:
            since = self.as_of_s if self.as_of_s > self.resumes_s else self.resumes_s
            if now_s > since:
                left -= (now_s - since) / (pace[size - 1] if size <= len(pace) else pace[-1])
                if left <= 0.0:
                    return 0.0
        return left * (pace[workers - 1] if workers <= len(pace) else pace[-1])

    def waited_s(self, now_s: float) -> float:
        return 0.0 if self.waiting_since_s is None else now_s - self.waiting_since_s


_OUT_OF_THE_GAME = FINISHED | {Phase.SUSPENDED}


def _follows(job: Job) -> dict[str, object]:
    spec, workers, left, pace = job.spec, job.workers, job.units_left, job.curve.pace_s
    size = len(workers)
    if spec.fixed or (size and workers[0].role is not Role.WORKER):  # fixed roles stand first
        size = _elastic(workers)
    largest, milli = spec.size_largest, spec.request[2]
    unit_s = pace[largest - 1] if largest <= len(pace) else pace[-1]
    return {
        "size": size,
        "service_rate": size * milli / WHOLE_GPU_MILLI if milli else float(size),
        "wants_workers": job.phase not in _OUT_OF_THE_GAME and not job.denied,
        "seat_s": inf if job.started_s is None else job.started_s,
        "since_s": job.as_of_s if job.as_of_s > job.resumes_s else job.resumes_s,
        "left_s": inf if left is None else left * unit_s,
        "solo": pace[0] / unit_s,
        "left_slope": unit_s / (pace[size - 1] if size <= len(pace) else pace[-1]) if size else 0.0,
    }


def _elastic(workers: tuple[Worker, ...]) -> int:
    return sum(worker.role is Role.WORKER for worker in workers)
