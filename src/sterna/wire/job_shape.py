"""How jobs look in a snapshot file, and how they become ours.

What a file leaves out of a job's state is filled in as a person would mean it: a job with workers runs, one without
waits since its submission, counters are those of this moment, and a job of unknown speed trains linearly.
"""

from typing import Annotated

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sterna.model.curves import SpeedupCurve
from sterna.model.growth import Category, Growth
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Disruption, FixedRole, Job, JobSpec, ProgressPoint, Role, Worker
from sterna.model.phases import Phase
from sterna.wire.fields import Amount, Count, Moment, Name, Number, Positive, WholeNumber
from sterna.wire.node_shape import ResourcesBody, TolerationBody, WishBody
from sterna.wire.pod_shape import PodBody, RequirementBody
from sterna.wire.problems import Body

RoleName = Annotated[Role, Field(strict=False)]

_LINEAR_TO = 1024  # beyond it an assumed curve is flat; linear speed-up has not been seen there
_LINEAR = SpeedupCurve.linear(_LINEAR_TO).pace_s


class SizesBody(Body):
    """The elastic workers. Sizes are min, min + step, ... up to max."""

    min: Count = 1
    max: Count | None = Field(default=None, description="null: as min")
    initial: Count | None = Field(default=None, description="what rigid policies give; null: as min")
    step: Count = 1
    request: ResourcesBody = Field(description="of one worker")
    limit: ResourcesBody = Field(default=ResourcesBody(), description="what one worker may use at most; 0: no limit")


class FixedRoleBody(Body):
    role: RoleName
    replicas: Count = 1
    request: ResourcesBody = ResourcesBody()
    limit: ResourcesBody = Field(default=ResourcesBody(), description="what one replica may use at most; 0: no limit")

    @model_validator(mode="after")
    def _not_elastic(self) -> "FixedRoleBody":
        if self.role is Role.WORKER:
            raise PydanticCustomError("role", "a role other than worker: those stand under workers")
        return self

    def to_model(self) -> FixedRole:
        return FixedRole(self.role, self.replicas, self.request.to_model(), self.limit.to_model())


class RolePodBody(PodBody):
    role: RoleName = Role.WORKER


class SpecBody(Body):
    """What the owner asked for."""

    submitted_seconds: Moment = 0.0
    workers: SizesBody
    fixed: list[FixedRoleBody] = Field(
        default_factory=list, description="roles that exist in fixed numbers: ps, chief, master, ..."
    )
    accelerator: str | None = Field(default=None, description="the pool; null: any")
    moves_between_pools: bool = Field(
        default=False, description="with no accelerator named: may go to another pool when it cannot stay in its own"
    )
    category: str = Field(default="", description="jobs of one category share what is learned about their speed")
    kind: str = "ElasticJob"
    priority: int = Field(default=0, description="larger goes first, where the policy looks at it")
    selector: dict[str, str] = Field(default_factory=dict, description="labels that its nodes must have")
    tolerations: list[TolerationBody] = Field(default_factory=list)
    node_terms: list[list[RequirementBody]] = Field(
        default_factory=list, description="alternatives: a node must meet every requirement of one of them"
    )
    node_wishes: list[WishBody] = Field(
        default_factory=list, description="where several nodes would do, the one that meets most of these"
    )
    kept_from: list[Name] = Field(default_factory=list, description="nodes that refused its workers lately")
    node_preference: Name | None = Field(default=None, description="tried first; unknown or full is no error")
    restarts_on_resize: bool = Field(
        default=False, description="no worker survives a resize; the checkpoint carries over"
    )

    pods: list[RolePodBody] = Field(
        default_factory=list, description="what pods of each role are to others; left out: no rule asks"
    )

    def to_model(self, job_id: str) -> JobSpec:
        sizes = self.workers
        return JobSpec(
            id=JobId(job_id),
            submitted_s=self.submitted_seconds,
            request=sizes.request.to_model(),
            workers_min=sizes.min,
            workers_max=sizes.min if sizes.max is None else sizes.max,
            workers_initial=sizes.min if sizes.initial is None else sizes.initial,
            workers_step=sizes.step,
            fixed=tuple(role.to_model() for role in self.fixed),
            accelerator=self.accelerator,
            moves_between_pools=self.moves_between_pools,
            category=self.category,
            kind=self.kind,
            priority=self.priority,
            selector=tuple(sorted(self.selector.items())),
            tolerations=tuple(toleration.to_model() for toleration in self.tolerations),
            node_terms=tuple(tuple(each.to_model() for each in term) for term in self.node_terms),
            node_wishes=tuple(wish.to_model() for wish in self.node_wishes),
            kept_from=frozenset(map(NodeId, self.kept_from)),
            node_preference=None if self.node_preference is None else NodeId(self.node_preference),
            restarts_on_resize=self.restarts_on_resize,
            limit=sizes.limit.to_model(),
            pods=tuple((pod.role, pod.to_model()) for pod in self.pods),
        )


class WorkerBody(Body):
    role: RoleName = Role.WORKER
    ordinal: WholeNumber
    node: Name
    devices: list[Name] = Field(default_factory=list, description="which GPUs, where it matters")

    def to_model(self) -> Worker:
        return Worker(self.role, self.ordinal, NodeId(self.node), tuple(map(DeviceId, self.devices)))


class CurveBody(Body):
    """Speed at 1, 2, ... workers, said in one of two ways. Beyond its end a curve is flat."""

    pace_seconds: list[Positive] | None = Field(default=None, min_length=1, description="seconds for a unit of work")
    speedups: list[Positive] | None = Field(
        default=None, min_length=1, description="how many times faster than one worker"
    )
    unit_seconds: Positive = Field(default=1.0, description="with speedups: seconds for a unit with one worker")

    @model_validator(mode="after")
    def _one_way(self) -> "CurveBody":
        if (self.pace_seconds is None) == (self.speedups is None):
            raise PydanticCustomError("curve", "either paceSeconds or speedups")
        return self

    def to_model(self) -> SpeedupCurve:
        if self.pace_seconds is not None:
            return SpeedupCurve(tuple(self.pace_seconds))
        return SpeedupCurve.from_speedups(self.speedups or (), unit_s=self.unit_seconds)


class ProgressBody(Body):
    at_seconds: Moment
    units_done: Amount
    workers: WholeNumber
    unit_seconds: Amount = Field(description="how long the last unit took")
    value: Number | None = Field(default=None, description="loss, accuracy, ...; null: no evaluation")

    def to_model(self) -> ProgressPoint:
        return ProgressPoint(self.at_seconds, self.units_done, self.workers, self.unit_seconds, self.value)


class GrowthBody(Body):
    """How the evaluation value grows, as it was last judged."""

    category: Annotated[Category, Field(strict=False)] = Category.PROGRESSING
    score: Number | None = Field(default=None, description="null: fewer than two evaluations so far")
    efficiency: Number | None = Field(default=None, description="score per CPU used; null: the CPU was not measured")
    since_seconds: Moment = Field(default=0.0, description="when it came into this category")

    def to_model(self) -> Growth:
        return Growth(self.category, self.score, self.efficiency, self.since_seconds)


class DisruptionBody(Body):
    at_seconds: Moment
    kind: str = Field(description="resize, migration, preemption")
    pause_seconds: Amount

    def to_model(self) -> Disruption:
        return Disruption(self.at_seconds, self.kind, self.pause_seconds)


class StateBody(Body):
    """What the job holds now, and how far it has come."""

    phase: Annotated[Phase, Field(strict=False)] | None = Field(
        default=None, description="left out: Running with workers, else Waiting. Finished jobs take no part"
    )
    workers: list[WorkerBody] = Field(default_factory=list, description="held now: fixed roles first, then by ordinal")
    leaving: list[WorkerBody] = Field(default_factory=list, description="told to go and not gone: they still take room")
    as_of_seconds: Moment | None = Field(default=None, description="when the counters below are exact; left out: now")
    resumes_seconds: Moment = Field(
        default=0.0, description="no progress before this moment: a start is being paid for"
    )
    waiting_since_seconds: Moment | None = Field(default=None, description="left out: since submission, if it waits")
    first_started_seconds: Moment | None = Field(default=None, description="left out: at submission, if it has workers")
    started_seconds: Moment | None = Field(
        default=None, description="of the present run; left out: as firstStartedSeconds"
    )
    gpu_seconds: Amount = Field(default=0.0, description="attained service; worker-seconds where no GPU is asked for")
    ran_seconds: Amount = 0.0
    gpu_seconds_since_start: Amount = 0.0
    last_ran_seconds: Amount = 0.0
    units_left: Amount | None = Field(default=None, description="work left, in the curve's units; null: unknown")
    curve: CurveBody | None = Field(default=None, description="null: linear, one second for a unit with one worker")
    checkpoint_seconds: Amount = Field(default=0.0, description="what saving costs")
    restart_seconds: Amount = Field(default=0.0, description="what stopping and starting again costs beside saving")
    progress: list[ProgressBody] = Field(default_factory=list)
    growth: GrowthBody | None = Field(default=None, description="null: it was not judged")
    disruptions: list[DisruptionBody] = Field(default_factory=list)
    denied: Name | None = Field(
        default=None, description="what the cluster said that does not let its workers in: it asks for nothing now"
    )

    def to_model(self, spec: JobSpec, *, now_s: float) -> Job:
        workers = tuple(worker.to_model() for worker in self.workers)
        phase = self.phase or (Phase.RUNNING if workers else Phase.WAITING)
        said = self.model_fields_set
        since_submission = spec.submitted_s if phase is Phase.WAITING else None
        at_submission = spec.submitted_s if workers else None
        first_s = self.first_started_seconds if "first_started_seconds" in said else at_submission
        return Job(
            spec=spec,
            phase=phase,
            workers=workers,
            leaving=tuple(worker.to_model() for worker in self.leaving),
            as_of_s=now_s if self.as_of_seconds is None else self.as_of_seconds,
            resumes_s=self.resumes_seconds,
            waiting_since_s=self.waiting_since_seconds if "waiting_since_seconds" in said else since_submission,
            first_started_s=first_s,
            started_s=self.started_seconds if "started_seconds" in said else first_s if workers else None,
            gpu_s=self.gpu_seconds,
            ran_s=self.ran_seconds,
            gpu_s_since_start=self.gpu_seconds_since_start,
            last_ran_s=self.last_ran_seconds,
            units_left=self.units_left,
            curve=SpeedupCurve(_LINEAR[: spec.workers_max]) if self.curve is None else self.curve.to_model(),
            checkpoint_s=self.checkpoint_seconds,
            restart_s=self.restart_seconds,
            progress=tuple(point.to_model() for point in self.progress),
            growth=None if self.growth is None else self.growth.to_model(),
            disruptions=tuple(disruption.to_model() for disruption in self.disruptions),
            denied=self.denied or "",
        )


class JobBody(Body):
    id: Name = Field(description="namespace/name where there are namespaces; unique in the file")
    spec: SpecBody
    state: StateBody = StateBody()

    def to_model(self, *, now_s: float) -> Job:
        return self.state.to_model(self.spec.to_model(self.id), now_s=now_s)
