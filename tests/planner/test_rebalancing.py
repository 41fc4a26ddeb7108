"""Rebalancing as a part of the decision: what it remembers, when it wakes, one pool apart from the other."""

from dataclasses import replace

import pytest
from tests.worlds import cluster, job, node

from sterna.compose.decision_journals import replay_lines
from sterna.journal.journal import Shapes, TextJournal, line_of
from sterna.model.growth import Category, Growth
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import KEPT
from sterna.placement.packed import packed
from sterna.placement.rebalancers.registry import rebalancing
from sterna.placement.rebalancing import with_rebalancing, without_rebalancing
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import ENTRIES, policy
from sterna.wire.decision_file import decision_record, event_record, outcome_record
from sterna.wire.snapshot_file import snapshot_document

CONVERGED = Growth(Category.CONVERGED, 0.01)
SPECON = Settings(rebalance=rebalancing(["specon"], {"mode": "off"}))
SHAPES = Shapes(snapshot=snapshot_document, decision=decision_record, outcome=outcome_record, event=event_record)


def crowded(names: str = "abc", *, at_s: float = 100.0, pool: str = "", **more) -> list[Job]:
    """Three jobs on the first of three nodes, one of them converged."""
    first, spec = f"{pool}{names[0]}", {"accelerator": pool or None}
    gpus = 1 if pool else 0
    made = [
        job(f"{pool}j{number}", needs=1, gpus_each=gpus, on=[first], left=500.0, as_of_s=at_s, spec=spec, **more)
        for number in range(2)
    ]
    return [*made, made[0].but(spec=replace(made[0].spec, id=JobId(f"{pool}c")), growth=CONVERGED)]


def nodes(pool: str = ""):
    return [node(f"{pool}{name}", gpus=8 if pool else 0, accelerator=pool) for name in "abc"]


def hold(view: Snapshot) -> Target:
    """Keeps what is there, remembers a number of its own, forgets what others wrote, and wakes when it is told to."""
    grants = {each.id: Grant(each.size, 1, KEPT) for each in view.jobs if each.size}
    memory = PolicyMemory({each.id: {"own": 1.0} for each in view.jobs}, {"seen": view.now_s})
    return Target(grants, memory=memory, wake_s=view.now_s + 1000)


def test_what_rebalancers_remember_survives_a_policy_that_forgets_it():
    view = cluster(nodes=nodes(), jobs=crowded(), now_s=100.0)
    first = decide(view, hold, packed, SPECON)
    assert first.memory.values == {"seen": 100.0, "rebalancing/specon/round_s": 100.0}
    assert first.memory.jobs[JobId("c")]["own"] == 1.0
    assert first.memory.jobs[JobId("c")]["rebalancing/count/worker/0"] == 1.0
    assert first.memory.last_action_s == 100.0
    later = Snapshot.of(now_s=110.0, nodes=view.nodes, jobs=view.jobs, memory=first.memory)
    second = decide(later, hold, packed, SPECON)
    assert second.considered == ()
    assert second.memory.values["rebalancing/specon/round_s"] == 100.0
    assert second.memory.jobs[JobId("c")]["rebalancing/count/worker/0"] == 1.0


def test_a_policy_does_not_see_what_rebalancers_remember():
    seen: list[PolicyMemory] = []

    def spying(view: Snapshot) -> Target:
        seen.append(view.memory)
        return hold(view)

    memory = PolicyMemory({JobId("c"): {"rebalancing/count/worker/0": 1.0}}, {"rebalancing/specon/round_s": 99.0})
    decide(cluster(nodes=nodes(), jobs=crowded(), now_s=100.0, memory=memory), spying, packed, SPECON)
    assert seen == [PolicyMemory()]


def test_the_sooner_of_two_moments_wakes():
    view = cluster(nodes=nodes(), jobs=crowded(), now_s=100.0)
    assert decide(view, hold, packed, SPECON).wake_s == 130.0
    assert decide(view, hold, packed, Settings()).wake_s == 1100.0


def test_pools_are_rebalanced_and_remember_each_for_itself():
    jobs = [*crowded(pool="x"), *crowded(pool="y")]
    view = cluster(nodes=[*nodes("x"), *nodes("y")], jobs=jobs, now_s=100.0)
    first = decide(view, hold, packed, SPECON)
    assert [(move.job_id, move.to) for move in first.considered] == [("xc", "xb"), ("yc", "yb")]
    assert {key for key in first.memory.values if "rebalancing" in key} == {
        "x/rebalancing/specon/round_s",
        "y/rebalancing/specon/round_s",
    }
    later = Snapshot.of(now_s=110.0, nodes=view.nodes, jobs=view.jobs, memory=first.memory)
    assert decide(later, hold, packed, SPECON).considered == ()


def test_the_two_memories_come_apart_again():
    own = PolicyMemory({JobId("a"): {"queue": 1.0}}, {"x": 2.0}, 3.0)
    kept = PolicyMemory(
        {JobId("a"): {"rebalancing/k": 4.0}, JobId("b"): {"rebalancing/k": 5.0}}, {"rebalancing/v": 6.0}
    )
    both = with_rebalancing(own, kept)
    assert both.jobs[JobId("a")] == {"queue": 1.0, "rebalancing/k": 4.0}
    assert without_rebalancing(both) == own


@pytest.mark.parametrize("name", [entry.name for entry in ENTRIES])
def test_every_policy_goes_with_rebalancers_and_its_journal_replays_byte_for_byte(name):
    chosen, names = policy(name), ["specon", "imbalance", "defragment", "drain"]
    settings = {"specon.round-s": "20", "cost.mode": "off"}
    rules = Settings(rebalance=rebalancing(names, settings))
    about = {"policy": name, "settings": {}, "rebalance": names, "rebalanceSettings": settings}
    lines: list[str] = []
    journal = TextJournal(lines.append, SHAPES, about=about)
    place = placement(chosen.placement)
    memory, considered = PolicyMemory(), 0
    for turn in range(5):
        now_s = 100.0 + 11 * turn
        view = cluster(nodes=nodes(), jobs=crowded(at_s=now_s), now_s=now_s, memory=memory)
        decision = decide(view, chosen, place, rules)
        journal.decided(view, decision)
        memory, considered = decision.memory, considered + len(decision.considered)
    again = list(replay_lines(lines))
    assert len(again) == 5
    assert all(replayed.same for replayed in again)
    assert considered > 0
    assert '"considered"' in "".join(lines)
    without = [line_of({"entry": "opened", "about": {**about, "rebalance": [], "rebalanceSettings": {}}}) + "\n"]
    assert not all(replayed.same for replayed in replay_lines([*without, *lines[1:]]))
