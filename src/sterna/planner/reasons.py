"""Why each job has what it has, in the same words whatever the policy: what `decide` prints and events carry.

Worked out only on demand: a cycle needs none of it. Numbers are those of the layout that is carried out, and
name what is short in it.
"""

from functools import cached_property

from sterna.model.feasibility import asks, cannot_start_on, kept_by_doubt
from sterna.model.jobs import Job, JobSpec
from sterna.model.nodes import Cluster
from sterna.model.phases import Phase
from sterna.model.plan import Decision
from sterna.model.snapshot import Snapshot
from sterna.model.why import Because, Why
from sterna.planner.pool_choice import Pool, PoolChoice
from sterna.planner.pools import every_pool, open_to
from sterna.planner.steps import why_it_shrinks

_OF_NODES = frozenset({Why.NO_ROOM, Why.NO_NODE_FITS})  # reasons that say no more than that there is no room


class Reasons:
    """The reasons behind one decision. Of jobs that ask for the same, only one is looked at on every node."""

    def __init__(self, view: Snapshot, decision: Decision) -> None:
        self._view = view
        self._decision = decision
        self._verdicts: dict[tuple[object, ...], Because | None] = {}
        self._rooms: dict[tuple[object, ...], Because | None] = {}

    def of(self, job: Job) -> Because:
        if job.phase is Phase.SUSPENDED:
            return Because(Why.SUSPENDED)
        if job.denied:
            return Because(Why.ADMISSION_DENIED, (("answer", job.denied),))
        because = self._decision.because_of(job.id)
        wanted = self._decision.layout.workers_of(job.id)
        if job.size or wanted:
            return why_it_shrinks(job, wanted, because)
        return self._verdict(job) or self._about_room(job, because) or because

    def _verdict(self, job: Job) -> Because | None:
        key = asks(job.spec)
        if key not in self._verdicts:
            verdicts = [cannot_start_on(pool.cluster, job.spec) for pool in open_to(job.spec, self._pools)]
            self._verdicts[key] = None if None in verdicts else max(verdicts, key=_hope, default=_NOWHERE)
        return self._verdicts[key]

    def _about_room(self, job: Job, because: Because) -> Because | None:
        """What is short in the layout, or whose room it is, where the decision said no more than that there is none."""
        pools = self._pools_of(job)
        names = tuple(pool.name for pool in pools)
        key = (because.why, names, self._whole_size(job.spec), *asks(job.spec))
        if key not in self._rooms:
            self._rooms[key] = self._found_out(job.spec, because, pools)
        return self._rooms[key]

    def _pools_of(self, job: Job) -> list[Pool]:
        """The pool that was chosen for it; else those that it may be in, which is one."""
        pools, chosen = open_to(job.spec, self._pools), self._decision.chosen.get(job.id)
        return [pool for pool in pools if chosen is None or pool.title == dict(chosen.numbers)["pool"]]

    def _found_out(self, spec: JobSpec, because: Because, pools: list[Pool]) -> Because | None:
        if because.why not in _OF_NODES and not (because.why is Why.LOWER_QUEUE and self._decision.target.whole):
            return None
        short = self._choice.shortage(pools, spec, spec.workers_min)
        if short is not None:
            told = Because(Why.NO_NODE_FITS, short) if because.why is Why.NO_NODE_FITS else None
            return self._for_doubt(spec, pools) or told
        size = self._whole_size(spec)
        short = self._choice.shortage(pools, spec, size) if size > spec.workers_min else None
        if short is not None:
            return Because(Why.WHOLE_SIZE, (("workers", size), *short))
        for head in self._decision.kept_for:
            if head != spec.id:
                return Because(Why.RESERVED, (("for_job", str(head)),))
        return None

    def _for_doubt(self, spec: JobSpec, pools: list[Pool]) -> Because | None:
        """It would have room on nodes that are given nothing new for now."""
        nodes = [node for pool in pools for node in pool.cluster.nodes]
        because = kept_by_doubt(nodes, spec)
        if because is None:
            return None
        lifted = [
            pool._replace(cluster=Cluster(tuple(node.undoubted for node in pool.cluster.nodes))) for pool in pools
        ]
        fits = PoolChoice(self._after, lifted).shortage(lifted, spec, spec.workers_min) is None
        return because if fits else None

    def _whole_size(self, spec: JobSpec) -> int:
        """The least that the policy would give it."""
        sizes = {"initial": spec.size_asked, "max": spec.size_largest}
        grant = self._decision.target.grants.get(spec.id)
        return max(sizes.get(self._decision.target.whole, spec.workers_min), grant.floor if grant is not None else 0)

    @cached_property
    def _pools(self) -> list[Pool]:
        return every_pool(self._view, idle_cpu_share=self._decision.idle_cpu_share)

    @cached_property
    def _choice(self) -> PoolChoice:
        return PoolChoice(self._after, self._pools)

    @cached_property
    def _after(self) -> Snapshot:
        """The world once the decision is carried out."""
        workers_of = self._decision.layout.workers_of
        jobs = tuple(job.but(workers=workers_of(job.id), leaving=()) for job in self._view.jobs)
        return Snapshot(revision=0, now_s=self._view.now_s, cluster=self._view.cluster, jobs=jobs)


_NOWHERE = Because(Why.NEVER_FITS, (("nodes_that_admit_it", 0),))


_EASIEST_LAST = (  # to cure
    *(Why.NEVER_FITS, Why.NODES_NOT_READY, Why.NODES_CORDONED),
    *(Why.NODES_FLAPPING, Why.OTHER_PODS, Why.NODES_REFUSED),
)


def _hope(verdict: Because | None) -> tuple[int, int, int]:
    """Of several pools' verdicts the one that is cured most easily; else where most nodes admit it and workers fit."""
    if verdict is None:
        return len(_EASIEST_LAST), 0, 0
    numbers = dict(verdict.numbers)
    admitted, fit = numbers.get("nodes_that_admit_it", 0), numbers.get("workers_that_fit", 0)
    return _EASIEST_LAST.index(verdict.why), int(admitted), int(fit)
