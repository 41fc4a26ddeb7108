"""Room that is made for a gang or for whole nodes, and nodes that are emptied because they are closed."""

import random
from itertools import combinations, product

import pytest

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.nodes import Doubt, Taint, Toleration
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant
from sterna.model.why import KEPT, Why
from sterna.placement.frame import frame_of
from sterna.placement.packed import packed
from sterna.placement.packing import seated
from sterna.placement.rebalancers.registry import rebalancing
from sterna.placement.room import Room
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import policy
from tests.placement.rebalancers.worlds import after, look, nodes_of, rows, world
from tests.worlds import job, node

CLOSED = (Taint("node.kubernetes.io/unschedulable"),)
LONG_S = 1000.0


def gang(name: str = "gang", *, gpus_each: int = 4, **more):
    return job(name, needs=1, gpus_each=gpus_each, submitted_s=50.0, **more)


def test_the_fewest_moves_make_room_for_the_largest_waiting_gang():
    """Three nodes of four cards, of which two, two and three are free: one move off the third is enough."""
    nodes = [node(name, gpus=4) for name in ("a", "b", "c")]
    jobs = [
        job("x", needs=2, on=["a", "a"], left=LONG_S),
        job("y", needs=2, on=["b", "b"], left=LONG_S),
        job("z", needs=1, on=["c"], left=LONG_S),
        gang("small", gpus_each=3),
        gang("large", gpus_each=4),
    ]
    decision = look(world(nodes, jobs), "defragment")
    assert rows(decision.considered) == [("z", "c", "a")]
    assert decision.considered[0].because.numbers == (("makes_room_for", "large"),)


def test_the_gang_starts_in_the_cycle_after():
    nodes = [node(name, gpus=4) for name in ("a", "b")]
    jobs = [job("x", needs=1, on=["a"], left=LONG_S), job("y", needs=1, on=["b"], left=LONG_S), gang()]
    fifo, settings = policy("fifo"), Settings(rebalance=rebalancing(["defragment"]))
    view = world(nodes, jobs)
    first = decide(view, fifo, packed, settings)
    assert first.layout.workers_of(view.jobs[2].id) == ()
    moved = after(view, first, at_s=view.now_s + 1)
    assert nodes_of(decide(moved, fifo, packed, settings), "gang") == ["a"]


@pytest.mark.parametrize(
    ("jobs", "why"),
    [
        pytest.param([job("x", needs=2, on=["a", "b"], left=2.0), gang()], "it ends sooner than the pause", id="soon"),
        pytest.param([job("x", needs=3, on=["a", "a", "b"], left=LONG_S), gang(gpus_each=8)], "never", id="too large"),
        pytest.param([job("x", needs=1, on=["a"], left=LONG_S), gang(gpus_each=2)], "it fits as it is", id="fits"),
        pytest.param([job("x", needs=2, on=["a", "b"], left=LONG_S)], "nobody waits", id="nobody"),
        pytest.param(
            [
                job("x", needs=3, on=["a", "a", "a"], left=LONG_S),
                job("y", needs=3, on=["b", "b", "b"], left=LONG_S),
                gang(),
            ],
            "there is no room elsewhere",
            id="full",
        ),
    ],
)
def test_nothing_moves_where_that_would_not_help(jobs, why):
    decision = look(world([node("a", gpus=4), node("b", gpus=4)], jobs), "defragment")
    assert decision.considered == (), why


@pytest.mark.parametrize("seed", range(60))
def test_there_are_no_fewer_moves_that_would_do(seed):
    """Compared with trying every set of workers and every target."""
    view = fragmented(seed)
    moves = [move for move in look(view, "defragment", cost__mode="off").considered if move.to]
    fewest = next((count for count in (1, 2, 3) if _possible(view, count)), 0)
    assert len(moves) == (0 if _possible(view, 0) else fewest)


def fragmented(seed: int) -> Snapshot:
    """Four nodes of four cards with workers of one or two here and there, and one waiting that wants three or four."""
    chance = random.Random(seed)
    nodes = [node(f"n{number}", gpus=4) for number in range(4)]
    jobs: list[Job] = []
    for each in nodes:
        free = 4
        while free and chance.random() < 0.6:
            size = chance.randint(1, min(2, free))
            free -= size
            jobs.append(job(f"j{len(jobs)}", needs=1, gpus_each=size, on=[each.id], left=LONG_S))
    return world(nodes, [*jobs, gang(gpus_each=chance.choice([3, 4]))])


def _possible(view: Snapshot, count: int) -> bool:
    waiting, frame = view.by_id[JobId("gang")], frame_of(view.cluster)
    seats = [(each, worker) for each in view.jobs for worker in each.workers]
    for leavers in combinations(seats, count):
        left = {frame.index[worker.node] for _, worker in leavers}
        for targets in product([at for at in range(len(frame.nodes)) if at not in left], repeat=count):
            room = Room.of(view)
            for (each, worker), at in zip(leavers, targets, strict=True):
                room.release(each.spec, (worker,))
                if not room.slots_at(at, each.spec.request):
                    break
                room.take(at, each.spec.request)
            else:
                if seated(room, waiting.spec, (), Grant(1, 1, KEPT)) is not None:
                    return True
    return False


def test_nodes_are_emptied_into_nodes_that_are_in_use():
    nodes = [node(name, gpus=4) for name in ("a", "b", "c", "idle")]
    jobs = [
        job("x", needs=2, on=["a", "a"], left=LONG_S),
        job("y", needs=3, on=["b", "b", "b"], left=LONG_S),
        job("z", needs=1, on=["c"], left=LONG_S),
    ]
    view = world(nodes, jobs)
    first = look(view, "defragment", goal="empty")
    assert rows(first.considered) == [("z", "c", "b")]
    second = look(after(view, first, at_s=view.now_s + 60), "defragment", goal="empty")
    assert second.considered == ()  # a is left with two, and b is full


def test_a_round_of_defragmenting_is_followed_by_rest():
    nodes = [node(name, gpus=4) for name in ("a", "b")]
    view = world(nodes, [job("x", needs=1, on=["a"], left=LONG_S), job("y", needs=1, on=["b"], left=LONG_S), gang()])
    first = look(view, "defragment")
    assert first.wake_s == view.now_s + 60
    assert look(after(view, first, at_s=view.now_s + 59), "defragment").considered == ()


# -- drain


def closed_world(**second):
    return world(
        [node("shut", gpus=4, taints=CLOSED), node("open", gpus=4, **second)],
        [job("j", needs=2, on=["shut", "shut"], left=LONG_S)],
    )


def test_a_node_that_takes_nobody_new_is_emptied():
    decision = look(closed_world(), "drain")
    assert nodes_of(decision, "j") == ["open", "open"]
    assert {move.because.why for move in decision.considered} == {Why.NODE_CLOSED}


def test_without_it_what_is_on_such_a_node_stays():
    assert look(closed_world(), "specon").steps == ()


def test_drain_never_stops_a_job_that_finds_no_room_elsewhere():
    decision = look(closed_world(cordoned=True), "drain")
    assert decision.steps == ()
    assert {move.because.why for move in decision.considered} == {Why.NO_TARGET}
    assert decision.wake_s == 130.0


@pytest.mark.parametrize("doubt", Doubt)
def test_a_doubt_about_a_node_is_no_reason_to_leave_it(doubt):
    nodes = [node("doubted", gpus=4, doubt=doubt), node("open", gpus=4)]
    decision = look(world(nodes, [job("j", needs=2, on=["doubted", "doubted"], left=LONG_S)]), "drain")
    assert (decision.considered, decision.steps) == ((), ())


def test_a_job_that_tolerates_the_taint_is_at_home_there():
    there = job("j", needs=1, on=["shut"], spec={"tolerations": (Toleration("node.kubernetes.io/unschedulable"),)})
    nodes = [node("shut", gpus=4, taints=CLOSED), node("open", gpus=4)]
    assert look(world(nodes, [there]), "drain").considered == ()


def test_what_is_being_drained_is_moved_by_placement_and_only_once():
    nodes = [node("cordoned", gpus=4, cordoned=True), node("open", gpus=4)]
    decision = look(world(nodes, [job("j", needs=2, on=["cordoned", "cordoned"], left=LONG_S)]), "drain")
    assert decision.considered == ()
    assert nodes_of(decision, "j") == ["open", "open"]
    assert decision.because_of(JobId("j")).why is Why.NODE_DRAINED


def test_a_job_that_ends_soon_is_left_to_end():
    soon = job("j", needs=1, on=["shut"], left=2.0)
    nodes = [node("shut", gpus=4, taints=CLOSED), node("open", gpus=4)]
    assert look(world(nodes, [soon]), "drain").considered[0].because.why is Why.NOT_WORTH_IT
