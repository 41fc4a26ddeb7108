"""Sizes are on the grid, minimums go before growth, and nobody is overlooked.

Each test is a small world in which one of these once failed.
"""

from dataclasses import replace

import pytest
from benchmarks.packing import somebody_waits, tight_worlds
from tests.planner.lives import (
    ELASTIC,
    PLACED,
    POLICIES,
    carried_out,
    decided,
    held,
    life,
    named,
    placements_of,
    settled,
    sizes,
)
from tests.worlds import cluster, job, node

from sterna.engines.simulator.models.paced import PacedTraining
from sterna.engines.simulator.simulate import Simulation, simulate
from sterna.engines.simulator.training import SimulatedJob
from sterna.model.curves import SpeedupCurve
from sterna.model.errors import InvariantBroken
from sterna.model.happenings import NodeChange, NodeEvent
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.nodes import Effect, Taint, Toleration
from sterna.model.plan import Grow, Step
from sterna.model.snapshot import Snapshot
from sterna.model.why import KEPT
from sterna.placement.strategies import placement
from sterna.planner.decide import decide
from sterna.planner.invariants import require_sound
from sterna.policies.registry import policy

TOLERATES = Toleration("team")
DRAGONS = [case for case in POLICIES if case[0] == "dragon"]


def on_cards(name: str, *cards: str) -> list[Worker]:
    """A worker on each of these cards of this node."""
    return [Worker(Role.WORKER, number, NodeId(name), (DeviceId(card),)) for number, card in enumerate(cards)]


def with_card_memory(one: Job, gib: int) -> Job:
    """The same job, each of whose workers needs so much memory of its card."""
    return one.but(spec=replace(one.spec, request=one.spec.request._replace(gpu_bytes=gib << 30)))


def on_their_grids(view: Snapshot) -> bool:
    return all(job.size == job.spec.allowed_size(job.size) for job in view.jobs if job.workers)


# -- sizes are on the grid


def test_dragon_erudite_with_a_job_between_two_sizes_does_not_promise_5000_of_3000_twice():
    between = job("a", at_most=7, step=2, gpus_each=0, cpus_each=1, on=["n", "n"])
    growing = job("b", at_most=5, gpus_each=0, cpus_each=1, on=["n"])
    view = cluster(nodes=[node("n", cpus=3)], jobs=[between, growing])
    after = settled(view, ("dragon", {"variant": "erudite"}), cycles=3)
    assert on_their_grids(after)
    assert sum(held(after).values()) == 3


@pytest.mark.parametrize("case", POLICIES, ids=named)
def test_a_job_of_1_to_7_by_2_that_begins_with_4_starts_with_a_size_it_may_have(case):
    odd = job("odd", at_most=7, initial=4, step=2, cpus_each=1)
    view = cluster(nodes=[node("n", gpus=8, cpus=8)], jobs=[odd])
    for where in placements_of(case):
        decision = decided(view, case, where)
        assert sizes(view, decision)[JobId("odd")] in (1, 3, 5, 7)


@pytest.mark.parametrize("case", POLICIES, ids=named)
@pytest.mark.parametrize("size", [2, 4, 6])
def test_a_job_that_a_loss_left_between_two_sizes_is_on_its_grid_after_the_next_decision(case, size):
    lame = job("lame", at_most=7, initial=3, step=2, cpus_each=1, on=["n"] * size)
    mate = job("mate", at_most=7, initial=3, step=2, cpus_each=1, on=["n"], submitted_s=1.0)
    for gpus in (size + 1, 12):
        view = cluster(nodes=[node("n", gpus=gpus, cpus=gpus)], jobs=[lame, mate], now_s=100.0)
        for where in placements_of(case):
            assert on_their_grids(carried_out(view, decided(view, case, where))), (gpus, where)


@pytest.mark.parametrize("case", DRAGONS, ids=named)
def test_dragon_takes_a_job_between_two_sizes_down_since_that_needs_no_room_and_up_only_below_its_minimum(case):
    between = job("between", at_most=7, step=2, cpus_each=1, on=["n"] * 4)
    below = job("below", at_least=2, at_most=4, step=2, cpus_each=1, on=["n"])
    view = cluster(nodes=[node("n", gpus=5, cpus=5)], jobs=[between, below])
    assert sizes(view, decided(view, case)) == {"between": 3, "below": 2}


def test_a_plan_that_ends_between_two_sizes_is_never_applied():
    odd = job("odd", at_most=7, step=2, cpus_each=1)
    view = cluster(nodes=[node("n", gpus=8)], jobs=[odd])
    two = job("odd", at_most=7, step=2, on=["n", "n"]).workers
    with pytest.raises(InvariantBroken, match="odd would hold 2 workers; it may hold none, or 1 to 7 by 2"):
        require_sound(view, (Step((Grow(JobId("odd"), two, KEPT),), after_release=False),), counted=False)


@pytest.mark.parametrize("case", POLICIES, ids=named)
def test_a_simulated_job_that_loses_a_node_goes_on_with_a_size_it_may_have(case):
    specs = [job(name, at_most=7, initial=3, step=2, submitted_s=at).spec for name, at in (("a", 0.0), ("b", 1.0))]
    chosen = policy(*case)
    seen: list[Snapshot] = []
    simulate(
        Simulation(
            nodes=[node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=3)],
            jobs=[SimulatedJob(spec, PacedTraining(5000.0, SpeedupCurve.linear(7))) for spec in specs],
            size=chosen,
            place=placement(chosen.placement),
            node_events=[
                NodeEvent(400.0, NodeChange.LOST, NodeId("n1")),
                NodeEvent(600.0, NodeChange.RETURNED, NodeId("n1")),
                NodeEvent(800.0, NodeChange.LOST, NodeId("n2")),
                NodeEvent(1000.0, NodeChange.LOST, NodeId("n3")),
            ],
        ),
        observer=seen.append,
    )
    assert all(on_their_grids(view) for view in seen)
    assert any(job.workers for view in seen for job in view.jobs)


# -- minimums before growth


@pytest.mark.parametrize("where", [*PLACED, "dragon"])
@pytest.mark.parametrize("case", ELASTIC, ids=named)
@pytest.mark.parametrize("held_by_the_first", [0, 4])
def test_two_jobs_of_1_to_8_share_4_cpus_although_there_are_8_gpus(case, where, held_by_the_first):
    jobs = [
        job("a", at_most=8, cpus_each=1, left=1000.0, on=["n"] * held_by_the_first),
        job("b", at_most=8, cpus_each=1, left=1000.0),
    ]
    view = cluster(nodes=[node("n", gpus=8, cpus=4)], jobs=jobs, now_s=10.0)
    after = carried_out(view, decided(view, case, where))
    assert set(held(after)) == {"a", "b"}
    assert sum(held(after).values()) == 4, "a CPU is idle that both could use"
    assert held(settled(view, case, where)) == held(after)


@pytest.mark.parametrize("where", PLACED)
@pytest.mark.parametrize("case", ELASTIC, ids=named)
def test_no_two_nodes_stay_empty_while_three_jobs_wait_whose_minimum_fits_each(case, where):
    """The first may grow to 32 and is let into one node alone: what it cannot use is not kept for it."""
    greedy = job("greedy", at_least=2, at_most=32, left=10.0, spec={"selector": (("zone", "a"),)})
    others = [job(f"w{number}", at_least=2, at_most=4, left=1000.0, submitted_s=1.0) for number in range(3)]
    nodes = [node("n1", gpus=8, labels=(("zone", "a"),)), node("n2", gpus=4), node("n3", gpus=4)]
    view = cluster(nodes=nodes, jobs=[greedy, *others], now_s=10.0)
    after = carried_out(view, decided(view, case, where))
    assert sum(held(after).values()) == 16, "a GPU is idle that somebody could use"
    takes_all = case[0] == "elastic-srsf" or case == ("elastic-fifo", {"variant": "afs"})  # each as much as is left
    assert set(held(after)) >= {"greedy", "w0", "w1", *(() if takes_all else ("w2",))}


@pytest.mark.parametrize("case", ELASTIC, ids=named)
def test_only_an_exact_search_seats_a_gang_whose_seats_are_taken_by_growth_on_the_wrong_nodes(case):
    """The newcomer needs two workers of 3 CPUs, which only n1 and n2 can ever hold: both growths must give way there,
    while the lonely workers on n3, which packing would take first, would not help."""
    a = job("a", at_least=2, at_most=4, cpus_each=1, left=500.0, on=["n1", "n1", "n1", "n3"])
    b = job("b", at_least=2, at_most=4, cpus_each=1, left=500.0, on=["n2", "n2", "n2", "n3"])
    gang = job("gang", needs=2, cpus_each=3, left=500.0, submitted_s=1.0)
    nodes = [node("n1", gpus=6, cpus=4), node("n2", gpus=6, cpus=4), node("n3", gpus=6, cpus=2)]
    view = cluster(nodes=nodes, jobs=[a, b, gang], now_s=10.0)
    after = carried_out(view, decided(view, case, "packed"))
    assert held(after) == {"a": 2, "b": 2, "gang": 2}
    kept = {name: {worker.ordinal for worker in view.by_id[JobId(name)].workers} for name in "ab"}
    assert all(0 in ordinals for ordinals in kept.values())


def test_a_policy_that_gives_a_waiting_job_nothing_is_not_overruled():
    """elastic-fifo as AFS has it lets whoever holds a seat take all there is: its own rule, which no repair breaks."""
    view = cluster(gpus=4, jobs=[job("a", at_most=4, on=["n1"] * 4), job("b")])
    assert held(settled(view, ("elastic-fifo", {"variant": "afs"}))) == {"a": 4}


def test_rigid_sizes_are_not_shrunk_for_anybody():
    """What a policy grants as a whole or not at all is no growth."""
    a = job("a", at_most=4, initial=4, cpus_each=1, on=["n1"] * 4)
    b = job("b", at_most=4, initial=4, cpus_each=1)
    view = cluster(nodes=[node("n1", gpus=8, cpus=4)], jobs=[a, b])
    assert held(settled(view, ("fifo", {"order": "seat", "size": "initial"}))) == {"a": 4}


# -- nobody is overlooked


@pytest.mark.parametrize("case", POLICIES, ids=named)
def test_40_jobs_that_select_a_full_zone_do_not_hide_the_4_free_gpus_from_one_that_goes_anywhere(case):
    full = job("full", needs=4, left=1.0, on=["a"] * 4)
    zone = {"selector": (("zone", "a"),)}
    stuck = [job(f"stuck{number:02}", left=100.0, submitted_s=1.0 + number, spec=zone) for number in range(40)]
    free = job("free", left=100.0, submitted_s=50.0)
    nodes = [node("a", gpus=4, labels=(("zone", "a"),)), node("b", gpus=4)]
    view = cluster(nodes=nodes, jobs=[full, *stuck, free], now_s=51.0)
    for where in placements_of(case):
        if case[0] == "dragon":  # for which a head that has waited too long goes before everybody
            view = cluster(
                nodes=nodes, jobs=[full, *(each.but(waiting_since_s=50.0) for each in stuck), free], now_s=51.0
            )
        assert held(carried_out(view, decided(view, case, where))) == {"full": 4, "free": 1}, where


# In each of these worlds somebody is left out beside a job that is itself left out later, and fits in the end.
TAKES_ALL = [("elastic-srsf", {}), ("elastic-fifo", {"variant": "afs"})]  # each as much as it may, then the next
WEIGHS = ("afs-l", {"variant": "voda"})  # another's first helping against one's own next
MINIMUMS_FIRST = [case for case in ELASTIC if case not in TAKES_ALL]


@pytest.mark.parametrize("where", PLACED)
@pytest.mark.parametrize("case", MINIMUMS_FIRST, ids=named)
def test_a_job_that_was_left_out_beside_a_gang_without_a_seat_of_its_own_comes_back(case, where):
    """The gang is granted first and takes the newcomer's room, then finds that `a` and `b` are in its way."""
    gang = job("gang", needs=3, gpus_each=0, cpus_each=3, left=9.0)
    newcomer = job("newcomer", at_most=2, gpus_each=0, cpus_each=2, left=8.0, submitted_s=1.0)
    a = job("a", at_least=2, at_most=3, gpus_each=0, cpus_each=2, left=100.0, submitted_s=2.0, on=["n0"] * 3)
    b = job("b", at_least=2, at_most=3, gpus_each=0, cpus_each=1, left=100.0, submitted_s=3.0, on=["n1"] * 3)
    view = cluster(nodes=[node("n0", cpus=7), node("n1", cpus=4)], jobs=[gang, newcomer, a, b], now_s=10.0)
    moved = {"gang", "b"}  # where a placement moves `b`, which leaves no CPU idle
    assert set(held(settled(view, case, where))) in ({"newcomer", "a", "b"}, moved)


@pytest.mark.parametrize("where", PLACED)
@pytest.mark.parametrize("case", MINIMUMS_FIRST, ids=named)
def test_who_gives_a_worker_up_gives_up_the_one_that_is_in_the_way(case, where):
    """The policy takes one worker off `a`; the one that packing would take is not on the node that `zoned` needs."""
    a = job("a", at_least=3, at_most=4, left=100.0, on=["n0", "n0", "n1", "n1"])
    zoned = job("zoned", at_most=5, step=2, left=10.0, submitted_s=1.0, spec={"selector": (("zone", "b"),)})
    nodes = [node("n0", gpus=2, labels=(("zone", "b"),)), node("n1", gpus=2)]
    view = cluster(nodes=nodes, jobs=[a, zoned], now_s=10.0)
    assert held(settled(view, case, where)) == {"a": 3, "zoned": 1}


@pytest.mark.parametrize("where", PLACED)
@pytest.mark.parametrize("case", [case for case in POLICIES if case[0] != "dragon"], ids=named)
def test_who_comes_back_is_seated_exactly_even_where_the_placement_would_not_find_the_seat(case, where):
    """`large` is granted first and takes the room of `gang`, then gives way to `runs`. What is left holds the workers
    of `gang` only if its parameter servers go to the node without GPUs."""
    large = job("large", needs=6, left=1.0)
    gang = job("gang", needs=3, cpus_each=2, ps=2, ps_cpus=2, left=2.0, submitted_s=1.0)
    runs = job("runs", needs=1, cpus_each=2, left=500.0, submitted_s=2.0, on=["n0"])
    nodes = [
        node("n0", gpus=2, cpus=4),
        node("n1", cpus=4, accelerator="gpu"),
        node("n2", gpus=3, taints=(Taint("team", "x", Effect.NO_SCHEDULE),)),
        node("n3", gpus=4, cpus=4),
    ]
    view = cluster(nodes=nodes, jobs=[large, gang, runs], now_s=10.0)
    assert held(settled(view, case, where)) == {"gang": 3, "runs": 1}


@pytest.mark.parametrize("where", PLACED)
@pytest.mark.parametrize("case", [case for case in MINIMUMS_FIRST if case != WEIGHS], ids=named)
def test_who_comes_back_takes_its_least_size_rather_than_anothers_seat(case, where):
    """Granted two shares, `newcomer` would leave too little for both of those that `runs` needs."""
    wide = job("wide", at_most=4, gpus_each=0.25, cpus_each=4, left=1.0)
    newcomer = job("newcomer", at_most=3, gpus_each=0.334, cpus_each=1, left=2.0, submitted_s=1.0)
    shares = on_cards("n", "0", "0", "0", "0")
    runs = job("runs", at_least=2, at_most=4, gpus_each=0.25, cpus_each=1, left=500.0, submitted_s=2.0, holds=shares)
    view = cluster(nodes=[node("n", gpus=1, cpus=4)], jobs=[wide, newcomer, runs], now_s=10.0)
    assert set(held(settled(view, case, where))) in ({"newcomer", "runs"}, {"wide"})


@pytest.mark.parametrize("where", PLACED)
@pytest.mark.parametrize("case", ELASTIC, ids=named)
def test_a_worker_that_is_where_it_was_after_all_keeps_its_number(case, where):
    """While seats are sought, `first` is thought of on both nodes; in the end it is where it was, and so is its number:
    else the same worker would be replaced by itself in every cycle."""
    first = job(
        "first",
        at_least=2,
        at_most=5,
        cpus_each=4,
        left=100.0,
        spec={"tolerations": (TOLERATES,)},
        holds=on_cards("n1", "0", "1"),
    )
    zoned = {"selector": (("zone", "b"),), "tolerations": (TOLERATES,)}
    both = (Worker(Role.WORKER, 0, NodeId("n2"), (DeviceId("0"), DeviceId("1"))),)
    pair = job("pair", needs=1, gpus_each=2, left=100.0, submitted_s=1.0, spec=zoned, holds=both)
    served = job("served", needs=1, cpus_each=1, ps=2, ps_cpus=4, left=100.0, submitted_s=2.0)
    tainted = node("n2", gpus=2, cpus=7, labels=(("zone", "b"),), taints=(Taint("team", "x", Effect.NO_SCHEDULE),))
    view = cluster(nodes=[node("n1", gpus=2, cpus=14), tainted], jobs=[first, pair, served], now_s=10.0)
    *_, (before, decision) = life(view, case, where, cycles=8, after_s=70.0)
    assert carried_out(before, decision).by_id[JobId("first")].workers == before.by_id[JobId("first")].workers


@pytest.mark.parametrize("where", PLACED)
@pytest.mark.parametrize("case", MINIMUMS_FIRST, ids=named)
def test_who_was_cut_short_beside_somebody_who_is_left_out_later_may_grow_again(case, where):
    """`cards` needs three cards of its own and is seated before `pairs` is granted; then it must go. Were `grows` cut
    short for its sake for good, the two that share a card would take turns at growing."""
    servers = [Worker(Role.PS, number, NodeId("n")) for number in range(2)]
    pairs = job(
        "pairs",
        at_least=2,
        at_most=6,
        step=2,
        cpus_each=2,
        speedups=(1, 1.81, 2.46, 2.83, 3.8, 4.19),
        holds=on_cards("n", "0", "1"),
        spec={"priority": 1},
    )
    grows = job(
        "grows",
        at_most=7,
        initial=5,
        step=2,
        gpus_each=0.5,
        cpus_each=2,
        ps=2,
        ps_cpus=1,
        speedups=(1, 1.48, 2.11, 2.64, 3.49, 4.44, 4.97),
        submitted_s=1.0,
        holds=[*servers, *on_cards("n", "3", "2", "2")],
        spec={"priority": 2},
    )
    other = job(
        "other",
        at_most=7,
        step=2,
        gpus_each=0.334,
        cpus_each=2,
        speedups=(1, 1.4, 2.17, 2.69, 3.12, 3.99, 4.65),
        submitted_s=2.0,
        holds=on_cards("n", "3"),
    )
    cards = job(
        "cards",
        at_least=3,
        at_most=7,
        initial=5,
        step=2,
        gpus_each=0.334,
        cpus_each=1,
        speedups=(1, 1.94, 2.34, 2.92, 3.61, 4.19, 4.42),
        submitted_s=3.0,
    )
    shares = [with_card_memory(grows, 6), with_card_memory(other, 6), with_card_memory(cards, 12)]
    view = cluster(nodes=[node("n", gpus=4, cpus=16, gpu_gib=16)], jobs=[pairs, *shares], now_s=10.0)
    *_, (_, decision) = life(view, case, where, cycles=20)
    assert not decision.steps, decision.steps


@pytest.mark.parametrize("distinct", [False, True], ids=["all alike", "no two alike"])
def test_3000_jobs_that_find_no_seat_cost_a_handful_of_passes(distinct):
    """Counted and not timed: each pass is one look at all jobs."""
    zone = {"selector": (("zone", "a"),)}
    stuck = [
        job(f"stuck{number:04}", cpus_each=4 - 0.001 * number * distinct, submitted_s=float(number), spec=zone)
        for number in range(3000)
    ]
    nodes = [node("a", gpus=4, cpus=4, labels=(("zone", "a"),)), node("b", gpus=4)]
    full = job("full", needs=4, cpus_each=1, on=["a"] * 4)
    free = job("free", submitted_s=5000.0)
    view = cluster(nodes=nodes, jobs=[full, *stuck, free], now_s=6000.0)
    chosen, looks = policy("elastic-fifo"), []

    def size(seen):
        looks.append(len(seen.jobs))
        return chosen(seen)

    decision = decide(view, size, placement("packed"))
    assert held(carried_out(view, decision)) == {"full": 4, "free": 1}
    assert len(looks) <= 4


@pytest.mark.parametrize("where", PLACED)
@pytest.mark.parametrize("name", ["fifo", "elastic-fifo"])
def test_nobody_waits_in_tight_worlds_whose_minimums_fit_together(name, where):
    """Somebody waited in 23 of 117 such worlds under elastic-fifo and packed, before seats were sought exactly."""
    worlds = list(tight_worlds(seed=0, count=60))
    assert len(worlds) > 15
    assert not [view for view in worlds if somebody_waits(view, name, where)]
