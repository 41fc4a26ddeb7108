"""The world as one decision sees it: nodes, jobs, and what each job holds right now.

Values only. Nothing here reads a clock, a socket or a file, and nothing here chooses anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job
from sterna.model.neighbours import Neighbourhood
from sterna.model.nodes import Cluster, Guest, Node
from sterna.model.resources import NOTHING, Currency, Resources
from sterna.model.serving_room import room_for_serving
from sterna.model.target import PolicyMemory

if TYPE_CHECKING:
    from sterna.model.columns import Columns


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Not slotted: what follows from the jobs is worked out once, on first use, and kept beside them."""

    revision: int  # a plan names the revision it was made from, so a stale one can be refused
    now_s: float  # the only clock the core ever sees
    cluster: Cluster  # shared by snapshots while no node changes
    jobs: tuple[Job, ...]  # unfinished ones, by (submission, id), so that equal worlds compare and replay alike
    serving: tuple[Guest, ...] = ()  # serving pods that have no node yet, oldest first
    memory: PolicyMemory = field(default_factory=PolicyMemory)
    reserved: int = 0  # room in the currency that the policy must leave alone
    seed: int = 0  # the only source of chance for a policy that needs any
    usage: Mapping[NodeId, Resources] = field(default_factory=dict)  # measured on nodes, guests included; may be empty
    neighbourhood: Neighbourhood | None = None  # what rules between pods need to know; the planner's. None: no rule

    @staticmethod
    def of(
        *,
        now_s: float,
        nodes: Iterable[Node],
        jobs: Iterable[Job],
        revision: int = 0,
        serving: Iterable[Guest] = (),
        memory: PolicyMemory | None = None,
        seed: int = 0,
        usage: Mapping[NodeId, Resources] | None = None,
    ) -> "Snapshot":
        """Put nodes and jobs into their order and check that each id stands once."""
        ordered = tuple(sorted((job for job in jobs if not job.finished), key=arrival_order))
        if len({job.id for job in ordered}) != len(ordered):
            seen: set[JobId] = set()
            twice = next(job.id for job in ordered if job.id in seen or seen.add(job.id))  # type: ignore[func-returns-value]
            raise InvalidRequest(field="jobs[].id", value=twice, expected="each job id once")
        cluster, waiting = Cluster.of(nodes), tuple(serving)
        return Snapshot(
            revision=revision,
            now_s=now_s,
            cluster=cluster,
            jobs=ordered,
            serving=waiting,
            memory=memory or PolicyMemory(),
            reserved=room_for_serving(cluster, waiting),
            seed=seed,
            usage=usage or {},
        )

    @staticmethod
    def as_known(**values: object) -> "Snapshot":
        """All fields, in their order, and what an engine may know besides, taken as they are: for an engine that looks
        thousands of times a second."""
        view = object.__new__(Snapshot)
        view.__dict__.update(values)
        return view

    def prepared(self, **known: object) -> "Snapshot":
        """The same snapshot with what an engine keeps up to date anyway, so that it need not be worked out.

        By name any of the properties below that say "an engine may know".
        """
        self.__dict__.update(known)
        return self

    @cached_property
    def by_id(self) -> Mapping[JobId, Job]:
        """An engine may know."""
        return {job.spec.id: job for job in self.jobs}

    @cached_property
    def holding(self) -> tuple[Job, ...]:
        """Jobs that take room, be it by workers that are leaving; in any order. An engine may know."""
        return tuple([job for job in self.jobs if job.workers or job.leaving])  # a list is faster than a generator

    @cached_property
    def holders(self) -> frozenset[JobId]:
        """The ids of `holding`. An engine may know."""
        return frozenset([job.spec.id for job in self.holding])

    @cached_property
    def held(self) -> Resources:
        """What all workers together take, each counted as an elastic one. An engine may know."""
        total = NOTHING
        for job in self.holding:
            total = total.plus(job.spec.request.times(len(job.workers)))
        return total

    @cached_property
    def leaving(self) -> tuple[Job, ...]:
        """Jobs with workers that were told to go and are not gone; in any order. An engine may know."""
        return tuple([job for job in self.holding if job.leaving])

    @cached_property
    def wanting(self) -> tuple[Job, ...]:
        """Jobs that take part in sharing out, by (submission, id). An engine may know."""
        return tuple([job for job in self.jobs if job.wants_workers])

    @cached_property
    def columns(self) -> "Columns":
        """What is asked of every job that takes part, as arrays in the order of `wanting`. An engine may know."""
        from sterna.model.columns import Columns  # here, so that reading a snapshot does not load NumPy

        return Columns(self.wanting)

    @cached_property
    def accelerators_named(self) -> frozenset[str | None]:
        """Accelerators that jobs ask for, None among them if some take any. An engine may know, or name more."""
        return frozenset([job.spec.accelerator for job in self.jobs])

    @cached_property
    def has_rules(self) -> bool:
        """Has a job or a guest rules about the pods beside its own? An engine may know of the jobs."""
        return self.jobs_have_rules or self.cluster.has_rules

    @cached_property
    def jobs_have_rules(self) -> bool:
        """An engine may know, or say that there are some."""
        return any(job.spec.has_rules for job in self.jobs)

    @cached_property
    def largest_minimum(self) -> Resources:
        """In each resource the most that any job needs to start. An engine may know, or say more."""
        requests = [job.spec.min_request for job in self.jobs] or [NOTHING]
        return Resources(*map(max, zip(*requests, strict=True)))

    @cached_property
    def smallest_minimum(self) -> Resources:
        """In each resource the least that any job needs to start. An engine may know, or say less."""
        requests = [job.spec.min_request for job in self.jobs] or [NOTHING]
        return Resources(*map(min, zip(*requests, strict=True)))

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.cluster.nodes

    @property
    def currency(self) -> Currency:
        return self.cluster.currency

    @property
    def capacity(self) -> int:
        """What a policy may share out, in the currency."""
        return max(0, self.cluster.capacity - self.reserved)


def arrival_order(job: Job) -> tuple[float, JobId]:
    return (job.spec.submitted_s, job.spec.id)
