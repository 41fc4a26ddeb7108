"""Rules between pods: affinity, anti-affinity, spread and host ports, obeyed by every policy and every placement."""

import os
import random

import pytest
from tests.planner.lives import POLICIES, named, placements_of
from tests.planner.rule_worlds import HOST, ZONE, broken_rules, rule_world
from tests.planner.test_properties import PLACEMENTS, VARIANTS, names
from tests.planner.test_rest import BY_DESIGN, assert_it_rests
from tests.worlds import cluster, job, node

from sterna.lifecycle.asked_moves import Granted, ask_of_job, tried
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.layout import Layout
from sterna.model.neighbours import EvenRule, HostPort, PodSelector, PodTerm, PodTraits
from sterna.model.node_affinity import LabelOperator, LabelRequirement
from sterna.model.nodes import Guest
from sterna.model.plan import Decision
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.why import KEPT, Because, Why
from sterna.placement.moving import Move, Moving
from sterna.placement.rebalancing import Proposal, with_proposals
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings, decide
from sterna.planner.obedience import with_neighbourhood
from sterna.policies.registry import policy

WORLDS = int(os.environ.get("STERNA_RULE_WORLDS", "40"))  # `make soak` asks for more


def of_app(*apps: str) -> PodSelector:
    return PodSelector((LabelRequirement("app", LabelOperator.IN, apps),), ("",))


def pods(app: str, **rules) -> dict[str, object]:
    """The spec of a job whose workers are of this app."""
    return {"pods": ((Role.WORKER, PodTraits(labels=(("app", app),), **rules)),)}


def apart(key: str, *apps: str) -> dict[str, object]:
    return {"apart": (PodTerm(key, of_app(*apps)),)}


def together(key: str, *apps: str) -> dict[str, object]:
    return {"together": (PodTerm(key, of_app(*apps)),)}


def even(key: str, app: str, skew: int = 1, domains: int = 1) -> dict[str, object]:
    return {"even": (EvenRule(key, of_app(app), skew, domains),)}


def guest(app: str, **rules) -> Guest:
    return Guest(f"guest-{app}", Resources(), pod=PodTraits(labels=(("app", app),), **rules))


def host(name: str, *, zone: str = "", gpus: int = 4, **more):
    labels = ((HOST, name), *(((ZONE, zone),) if zone else ()))
    return node(name, gpus=gpus, labels=labels, **more)


def decided(nodes, jobs, *, by: str = "elastic-fifo", where: str = "packed", **settings) -> Decision:
    return decide(cluster(nodes=nodes, jobs=jobs, now_s=100.0), policy(by), placement(where), Settings(**settings))


def where_are(decision: Decision, name: str) -> list[str]:
    return sorted(worker.node for worker in decision.layout.workers_of(JobId(name)))


FOUR = [host("a", zone="x"), host("b", zone="x"), host("c", zone="y"), host("d", zone="y")]


@pytest.mark.parametrize(
    ("nodes", "jobs", "expected"),
    [
        pytest.param(
            FOUR,
            [job("j", needs=3, spec=pods("j", **apart(HOST, "j")))],
            {"j": ["a", "b", "c"]},
            id="workers that must be apart are one on each node, although one node has room for all",
        ),
        pytest.param(
            FOUR,
            [job("j", needs=2, spec=pods("j", **apart(ZONE, "j")))],
            {"j": ["a", "c"]},
            id="workers that must be apart in zones are one in each zone",
        ),
        pytest.param(
            FOUR,
            [job("j", at_least=1, at_most=8, spec=pods("j", **apart(HOST, "j")))],
            {"j": ["a", "b", "c", "d"]},
            id="an elastic job grows until no node is left that a rule opens",
        ),
        pytest.param(
            [host("a", guests=(guest("db"),)), host("b")],
            [job("j", needs=2, spec=pods("j", **apart(HOST, "db")))],
            {"j": ["b", "b"]},
            id="a guest keeps out workers that must not be with it",
        ),
        pytest.param(
            [host("a", guests=(guest("db", **apart(HOST, "j")),)), host("b")],
            [job("j", needs=2, spec=pods("j"))],
            {"j": ["b", "b"]},
            id="a guest that must be apart from such workers keeps them out, though they have no rule",
        ),
        pytest.param(
            [host("a"), host("b")],
            [
                job("i", on=["a"], spec=pods("i", **apart(HOST, "j"))),
                job("j", needs=2, spec=pods("j"), submitted_s=1.0),
            ],
            {"i": ["a"], "j": ["b", "b"]},
            id="a running job that must be apart from another keeps it out",
        ),
        pytest.param(
            [host("a", guests=(guest("cache"),), gpus=2), host("b", gpus=8)],
            [job("j", needs=2, spec=pods("j", **together(HOST, "cache")))],
            {"j": ["a", "a"]},
            id="workers that must be with a pod go where it is",
        ),
        pytest.param(
            [host("a", zone="x", gpus=2), host("b", zone="y", gpus=1), host("c", zone="y", gpus=2)],
            [job("j", needs=3, spec=pods("j", **together(ZONE, "j")))],
            {"j": ["b", "c", "c"]},
            id="workers that must be with their like are all in the one zone that has room for all",
        ),
        pytest.param(
            FOUR,
            [job("j", needs=4, spec=pods("j", **even(ZONE, "j")))],
            {"j": ["a", "a", "c", "c"]},
            id="workers are spread evenly over zones",
        ),
        pytest.param(
            [host("a", zone="x", gpus=8), host("b", zone="y", gpus=1)],
            [job("j", at_least=1, at_most=8, spec=pods("j", **even(ZONE, "j")))],
            {"j": ["a", "a", "b"]},
            id="a zone with little room bounds how many workers the others take",
        ),
        pytest.param(
            [host("a", zone="x", gpus=8, guests=(guest("j"), guest("j"))), host("b", zone="y", gpus=8)],
            [job("j", needs=2, spec=pods("j", **even(ZONE, "j")))],
            {"j": ["b", "b"]},
            id="guests that the spread selects are counted",
        ),
        pytest.param(
            FOUR,
            [job("j", needs=2, spec=pods("j", ports=(HostPort(80),)))],
            {"j": ["a", "b"]},
            id="two workers with one host port are not on one node",
        ),
        pytest.param(
            [host("a", guests=(guest("web", ports=(HostPort(80),)),)), host("b")],
            [job("j", needs=1, spec=pods("j", ports=(HostPort(80),)))],
            {"j": ["b"]},
            id="a host port that a guest has is taken",
        ),
        pytest.param(
            [host("a", guests=(guest("web", ports=(HostPort(80, "UDP"), HostPort(80, "TCP", "10.0.0.1"))),))],
            [job("j", needs=1, spec=pods("j", ports=(HostPort(80, "TCP", "10.0.0.2"),)))],
            {"j": ["a"]},
            id="the same port of another protocol or address is free",
        ),
        pytest.param(
            [host("a"), host("b")],
            [job("j", on=["a", "a"], at_least=2, at_most=2, spec=pods("j", **apart(HOST, "j")))],
            {"j": ["a", "a"]},
            id="workers that are there stay, whatever a rule says",
        ),
        pytest.param(
            [host("a", gpus=2), host("b", gpus=2)],
            [
                job("i", on=["a", "b", "b"], at_least=1, at_most=4),
                job("j", needs=2, submitted_s=1.0, spec=pods("j", **apart(HOST, "j"))),
            ],
            {"i": ["a", "b"], "j": ["a", "b"]},
            id="another job shrinks so that workers that must be apart find a node each",
        ),
    ],
)
def test_seats_obey_rules_between_pods(nodes, jobs, expected):
    decision = decided(nodes, jobs)
    assert {name: where_are(decision, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("nodes", "spec", "rule"),
    [
        pytest.param(FOUR[:1], pods("j", **apart(HOST, "j")), f"podAntiAffinity on {HOST}", id="own anti-affinity"),
        pytest.param(FOUR, pods("j", **together(ZONE, "db")), f"podAffinity on {ZONE}", id="affinity to no pod"),
        pytest.param(
            [host("a", zone="x", gpus=8)],
            pods("j", **even(ZONE, "j", domains=2)),
            f"topologySpreadConstraints on {ZONE}",
            id="too few domains",
        ),
        pytest.param(FOUR[:1], pods("j", ports=(HostPort(80),)), "host port 80", id="a host port"),
        pytest.param(
            [host("a", guests=(guest("db", **apart(HOST, "j")),))],
            pods("j"),
            "podAntiAffinity of other pods",
            id="anti-affinity of another pod",
        ),
    ],
)
@pytest.mark.parametrize("by", ["elastic-fifo", "fifo", "dragon"])
def test_a_job_that_a_rule_keeps_waiting_is_told_which(nodes, spec, rule, by):
    decision = decided(nodes, [job("j", needs=2, spec=spec)], by=by)
    assert decision.because_of(JobId("j")) == Because(Why.RULED_OUT, (("rule", rule),))
    assert not decision.steps


@pytest.mark.parametrize("by", ["elastic-fifo", "fifo", "dragon"])
def test_a_job_that_a_rule_keeps_waiting_does_not_keep_others_waiting(by):
    jobs = [
        job("j", needs=4, spec=pods("j", **together(ZONE, "db")), waiting_since_s=0.0),
        job("k", on=["a"], at_most=4, spec=pods("k")),
        job("l", needs=2, submitted_s=2.0),
    ]
    decision = decided([host("a", zone="x", gpus=6)], jobs, by=by, starving_after_s=10.0)
    assert where_are(decision, "l") == ["a", "a"]
    assert len(where_are(decision, "k")) >= 1
    assert not where_are(decision, "j")


def test_room_is_kept_on_nodes_that_the_rules_of_a_starving_job_allow():
    nodes = [host("a", gpus=2, guests=(guest("db"),)), host("b", gpus=2), host("c", gpus=2)]
    running = [job(f"r{name}", needs=2, on=[name, name]) for name in "abc"]
    head = job("j", needs=2, submitted_s=1.0, spec=pods("j", **apart(HOST, "j", "db")))
    decision = decided(nodes, [*running, head], starving_after_s=10.0)
    assert decision.kept_for == ("j",)
    later = [job("ra", needs=2, on=["a", "a"]), job("rb", needs=2, on=["b", "b"]), head]
    decision = decided(nodes, [*later, job("k", needs=2, submitted_s=2.0)], starving_after_s=10.0)
    assert not where_are(decision, "k")


def test_a_job_that_takes_any_pool_goes_where_its_rules_let_it():
    nodes = [host("a", accelerator="a100"), host("b", accelerator="h100", guests=(guest("cache"),))]
    decision = decided(nodes, [job("j", needs=2, spec=pods("j", **together(HOST, "cache")))])
    assert where_are(decision, "j") == ["b", "b"]


def test_pods_of_another_pool_count():
    nodes = [host("a", zone="x", accelerator="a100"), *(host(n, zone=z, accelerator="h100") for n, z in ("bx", "cy"))]
    jobs = [
        job("i", needs=1, spec={**pods("i"), "accelerator": "a100"}),
        job("j", needs=1, submitted_s=1.0, spec={**pods("j", **apart(ZONE, "i")), "accelerator": "h100"}),
    ]
    assert where_are(decided(nodes, jobs), "j") == ["c"]


def test_a_related_job_is_put_where_a_worker_is_leaving_its_domain_only_once_that_is_gone():
    nodes = [host("a", zone="x"), host("b", zone="x")]
    leaving = (Worker(Role.WORKER, 0, NodeId("a")),)
    gone = job("i", needs=1, spec=pods("i"), leaving=leaving)
    view = cluster(
        nodes=nodes, jobs=[gone.but(phase="Suspended"), job("j", needs=1, spec=pods("j", **apart(ZONE, "i")))]
    )
    decision = decide(view, policy("elastic-fifo"), placement("packed"))
    assert [step.after_release for step in decision.steps] == [True]


@pytest.mark.parametrize(
    ("to", "made"),
    [
        pytest.param("b", False, id="not to a node that a rule closes"),
        pytest.param("c", True, id="to one that is open"),
    ],
)
def test_moves_obey_rules_between_pods(to, made):
    nodes = [host("a"), host("b", guests=(guest("db"),)), host("c")]
    moved = job("j", on=["a"], spec=pods("j", **apart(HOST, "db")))
    view = with_neighbourhood(cluster(nodes=nodes, jobs=[moved]))
    layout = Layout({moved.id: moved.workers})
    assert Moving(view, layout).make([Move(moved.id, moved.workers[0], NodeId(to))], KEPT) is made
    proposal = Proposal(moved.id, moved.workers[0], NodeId(to), KEPT, 10.0, 1.0)
    after = with_proposals(view, layout, [proposal], moves_max=1)
    assert (after.workers_of(moved.id)[0].node == to) is made


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param("abcd", ("c", "d"), id="a gang that must be apart goes to a node each"),
        pytest.param("abc", None, id="and stays where there are too few such nodes"),
    ],
)
def test_a_move_that_was_asked_for_finds_nodes_that_rules_leave_open(nodes, expected):
    moved = job("j", on=["a", "b"], at_least=2, spec=pods("j", **apart(HOST, "j")))
    view = with_neighbourhood(cluster(nodes=[host(name) for name in nodes], jobs=[moved]))
    ask = ask_of_job("key", moved.id, moved.workers, worker=None, to=None)
    answer = tried(Moving(view, Layout({moved.id: moved.workers})), ask, KEPT)
    assert (answer.reached if isinstance(answer, Granted) else None) == expected


def test_a_cluster_without_rules_has_no_neighbourhood():
    nodes = [host("a", guests=(guest("db", ports=(HostPort(80),)),))]
    view = cluster(nodes=nodes, jobs=[job("j", needs=1, spec=pods("j"))])
    assert with_neighbourhood(view) is view


@pytest.mark.parametrize("case", VARIANTS, ids=names)
def test_no_policy_puts_a_new_worker_where_a_rule_between_pods_keeps_it_out(case):
    chosen = policy(*case)
    for seed in _seeds():
        _check(rule_world(seed), chosen, placement(chosen.placement), seed)


@pytest.mark.parametrize("where", PLACEMENTS)
def test_no_placement_puts_a_new_worker_where_a_rule_between_pods_keeps_it_out(where):
    for seed in _seeds():
        _check(rule_world(seed), policy("elastic-fifo"), placement(where), seed)


def _seeds() -> list[int]:
    chance = random.SystemRandom()
    return [chance.randrange(10**9) for _ in range(WORLDS)]


def _check(view: Snapshot, size, place, seed: int) -> None:
    settings = Settings(starving_after_s=60.0 if seed % 3 == 0 else None)
    decision = decide(view, size, place, settings)
    held = {each.id: decision.layout.workers_of(each.id) for each in view.jobs}
    broken = broken_rules(view, held)
    assert not broken, f"seed {seed}: {broken}"


@pytest.mark.parametrize("case", [case for case in POLICIES if BY_DESIGN not in named(case)], ids=named)
def test_a_static_world_with_rules_comes_to_rest(case):
    for seed in _seeds()[: WORLDS // 10]:
        for where in placements_of(case):
            assert_it_rests(rule_world(seed), case, where, seed=seed)
