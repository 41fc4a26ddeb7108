"""Random snapshots with every field in use, for whatever must carry one through unchanged."""

from typing import Any

from hypothesis import strategies as st

from sterna.model.curves import SpeedupCurve
from sterna.model.growth import Category, Growth
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Disruption, FixedRole, Job, JobSpec, ProgressPoint, Role, Worker
from sterna.model.neighbours import EvenRule, HostPort, PodSelector, PodTerm, PodTraits
from sterna.model.node_affinity import NODE_NAME, LabelOperator, LabelRequirement, NodeWish
from sterna.model.nodes import Device, Doubt, Effect, Guest, GuestKind, Node, Taint, Toleration
from sterna.model.phases import FINISHED, Phase
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=6)
moments = st.floats(-1e6, 1e12) | st.integers(0, 10**9)
amounts = st.floats(0, 1e12) | st.integers(0, 10**9)
positives = st.floats(1e-6, 1e6)
pairs = st.dictionaries(words, words, max_size=3).map(lambda made: tuple(sorted(made.items())))
resources = st.builds(
    Resources, st.integers(0, 10**6), st.integers(0, 1 << 50), st.integers(0, 16_000), st.integers(0, 1 << 40)
)
requests = st.builds(
    Resources,
    st.integers(0, 10**6),
    st.integers(0, 1 << 50),
    st.integers(0, 999) | st.integers(0, 16).map(lambda n: n * 1000),
    st.integers(0, 1 << 40),
)
devices = st.lists(names.map(DeviceId), max_size=2).map(tuple)
effects = st.sampled_from(Effect)


def tuples_of(strategy: st.SearchStrategy[Any], *, by: Any = None) -> st.SearchStrategy[tuple[Any, ...]]:
    """Up to two of them; told apart by `by`, where no two may be alike."""
    return st.lists(strategy, max_size=2, unique_by=by).map(tuple)


requirements = st.sampled_from(
    [
        LabelRequirement("zone", LabelOperator.IN, ("a", "b")),
        LabelRequirement("zone", LabelOperator.NOT_IN, ("",)),
        LabelRequirement("", LabelOperator.EXISTS),
        LabelRequirement("disk", LabelOperator.DOES_NOT_EXIST),
        LabelRequirement("cpus", LabelOperator.GREATER, ("3",)),
        LabelRequirement(NODE_NAME, LabelOperator.LESS, ("0",)),
    ]
)
terms = tuples_of(requirements)


selectors = st.builds(
    PodSelector,
    st.none() | tuples_of(requirements),
    st.lists(names, max_size=2, unique=True).map(lambda spaces: tuple(sorted(spaces))),
    st.none() | tuples_of(requirements),
    st.just(()),  # labels "as on the pod itself" are resolved before there is a snapshot
    st.just(()),
)
pod_terms = tuples_of(st.builds(PodTerm, words, selectors))
traits = st.builds(
    PodTraits,
    words,
    pairs,
    st.just((HostPort(80), HostPort(81, "UDP", "10.0.0.1"))),  # so that there is a rule, and it is written
    pod_terms,
    pod_terms,
    tuples_of(
        st.builds(EvenRule, words, selectors, st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans())
    ),
)


guests = st.builds(Guest, names, resources, st.sampled_from(GuestKind), devices, st.none() | traits)
nodes = st.builds(
    Node,
    id=names.map(NodeId),
    allocatable=resources,
    accelerator=words,
    labels=pairs,
    taints=tuples_of(st.builds(Taint, words, words, effects)),
    ready=st.booleans(),
    cordoned=st.booleans(),
    doubt=st.none() | st.sampled_from(Doubt),
    devices=tuples_of(st.builds(Device, names.map(DeviceId), st.integers(0, 1 << 40)), by=lambda device: device.id),
    guests=tuples_of(guests),
)
workers = st.builds(Worker, st.sampled_from(Role), st.integers(0, 99), names.map(NodeId), devices)
fixed_roles = st.builds(
    FixedRole,
    st.sampled_from([role for role in Role if role is not Role.WORKER]),
    st.integers(1, 4),
    requests,
    resources,
)
growths = st.builds(
    Growth, st.sampled_from(Category), st.none() | st.floats(-1e9, 1e9), st.none() | st.floats(-1e9, 1e9), moments
)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    least, initial, most = sorted(draw(st.tuples(*[st.integers(1, 64)] * 3)))
    return JobSpec(
        id=JobId(draw(names)),
        submitted_s=draw(moments),
        request=draw(requests),
        workers_min=least,
        workers_max=most,
        workers_initial=initial,
        workers_step=draw(st.integers(1, 4)),
        fixed=draw(tuples_of(fixed_roles, by=lambda fixed: fixed.role)),
        accelerator=draw(st.none() | words),
        category=draw(words),
        kind=draw(st.sampled_from(["ElasticJob", "TFJob", ""])),
        priority=draw(st.integers(-5, 5)),
        selector=draw(pairs),
        tolerations=draw(tuples_of(st.builds(Toleration, words, st.none() | words, st.none() | effects))),
        node_terms=draw(tuples_of(terms)),
        node_wishes=draw(tuples_of(st.builds(NodeWish, st.integers(1, 100), terms))),
        kept_from=frozenset(draw(st.lists(names.map(NodeId), max_size=2))),
        node_preference=draw(st.none() | names.map(NodeId)),
        restarts_on_resize=draw(st.booleans()),
        limit=draw(resources),
        pods=draw(tuples_of(st.tuples(st.sampled_from(Role), traits), by=lambda pod: pod[0])),
    )


jobs = st.builds(
    Job,
    spec=specs(),
    phase=st.sampled_from(sorted(set(Phase) - FINISHED)),
    workers=tuples_of(workers, by=lambda worker: worker[:2]),
    leaving=tuples_of(workers),
    as_of_s=moments,
    resumes_s=moments,
    waiting_since_s=st.none() | moments,
    first_started_s=st.none() | moments,
    started_s=st.none() | moments,
    gpu_s=amounts,
    ran_s=amounts,
    gpu_s_since_start=amounts,
    last_ran_s=amounts,
    units_left=st.none() | amounts,
    curve=st.lists(positives, min_size=1, max_size=4).map(lambda pace: SpeedupCurve(tuple(pace))),
    checkpoint_s=amounts,
    restart_s=amounts,
    progress=tuples_of(
        st.builds(ProgressPoint, moments, amounts, st.integers(0, 64), amounts, st.none() | st.floats(-1e9, 1e9))
    ),
    growth=st.none() | growths,
    disruptions=tuples_of(st.builds(Disruption, moments, words, amounts)),
)
memories = st.builds(
    PolicyMemory,
    st.dictionaries(names.map(JobId), st.dictionaries(words, moments, max_size=2), max_size=2),
    st.dictionaries(words, moments, max_size=2),
    st.none() | moments,
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    return Snapshot.of(
        now_s=draw(moments),
        nodes=draw(st.lists(nodes, max_size=3, unique_by=lambda node: node.id)),
        jobs=draw(st.lists(jobs, max_size=3, unique_by=lambda job: job.id)),
        revision=draw(st.integers(0, 10**9)),
        serving=draw(tuples_of(guests)),
        memory=draw(memories),
        seed=draw(st.integers(-(2**31), 2**31)),
        usage=draw(st.dictionaries(names.map(NodeId), resources, max_size=2)),
    )
