"""Accounting: what is free, how much fits, and which cards are taken."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.model.nodes import Device, Guest
from sterna.model.resources import Resources
from sterna.placement.frame import frame_of
from sterna.placement.room import Room
from tests.placement.asking import worker
from tests.worlds import GIB, cluster, job, node

HALF = Resources(gpu_milli=500)


def share(milli: int, gib: int = 0) -> Resources:
    return Resources(gpu_milli=milli, gpu_bytes=gib * GIB)


def room_on(*nodes: Any) -> Room:
    return Room.empty(frame_of(cluster(nodes=nodes).cluster))


@pytest.mark.parametrize(
    ("requests", "cards"),
    [
        pytest.param([HALF, HALF], ["0", "0"], id="two halves share one card"),
        pytest.param([HALF, HALF, HALF], ["0", "0", "1"], id="a third half opens a new card"),
        pytest.param([share(334)] * 3, ["0", "0", "1"], id="three thirds, rounded up, take two cards"),
        pytest.param([share(300, 10), share(300, 10)], ["0", "1"], id="card memory runs out before the share does"),
        pytest.param([HALF, Resources(gpu_milli=1000), HALF], ["0", "1", "0"], id="a whole card beside a shared one"),
        pytest.param(
            [share(600), share(600), share(400)], ["0", "1", "0"], id="the first card with enough left is used"
        ),
    ],
)
def test_dragon_29_fractional_gpus_reuse_a_card_then_open_one(requests, cards):
    room = room_on(node("n1", gpus=3, gpu_gib=16))
    assert [room.take(0, request)[0] for request in requests] == cards


@pytest.mark.parametrize(
    ("request_", "slots"),
    [
        pytest.param(share(500, 17), 0, id="more memory than a card has never fits"),
        pytest.param(share(500, 8), 4, id="two to a card by memory and share"),
        pytest.param(share(100, 5), 6, id="three to a card by memory"),
        pytest.param(share(1), 2000, id="a thousandth each"),
        pytest.param(Resources(gpu_milli=2000), 1, id="two whole cards"),
        pytest.param(Resources(gpu_milli=3000), 0, id="more whole cards than there are"),
        pytest.param(Resources(1 << 70), 0, id="an absurd request is merely too big"),
    ],
)
def test_dragon_29_slots_count_whole_workers(request_, slots):
    room = room_on(node("n1", gpus=2, gpu_gib=16))
    assert room.slots_at(0, request_) == slots
    assert room.slots(request_).tolist() == [slots]


def test_dragon_29_cards_of_different_memory_are_told_apart():
    cards = (Device("0", 8 * GIB), Device("1", 16 * GIB))  # type: ignore[arg-type]
    room = room_on(replace(node("n1", gpus=2), devices=cards))
    assert room.slots_at(0, share(500, 12)) == 1
    assert room.take(0, share(500, 12)) == ("1",)
    assert room.slots_at(0, share(500, 12)) == 0


def test_cards_are_numbered_as_people_count():
    room = room_on(node("n1", gpus=12))
    taken = [room.take(0, Resources(gpu_milli=1000))[0] for _ in range(12)]
    assert taken == [str(number) for number in range(12)]


def test_guests_name_their_cards_or_are_merely_counted():
    guests = (
        Guest("named", Resources(gpu_milli=1000), devices=("0",)),  # type: ignore[arg-type]
        Guest("sharing", HALF, devices=("1",)),  # type: ignore[arg-type]
        Guest("counted", Resources(gpu_milli=1000)),
    )
    room = room_on(node("n1", gpus=4, guests=guests))
    assert room.gpus == [1]
    assert room.take(0, HALF) == ("1",)
    assert room.take(0, Resources(gpu_milli=1000)) == ("2",)
    assert room.slots_at(0, share(1)) == 0


def test_a_share_given_back_closes_its_card():
    room = room_on(node("n1", gpus=1, gpu_gib=16))
    before = room.slots_at(0, Resources(gpu_milli=1000))
    first, second = room.take(0, share(500, 4)), room.take(0, share(500, 4))
    room.give(0, share(500, 4), first)
    assert room.gpus == [0]
    room.give(0, share(500, 4), second)
    assert room.slots_at(0, Resources(gpu_milli=1000)) == before


def test_dragon_27_daemons_and_leaving_workers_reduce_room():
    daemon = Guest("daemon", Resources(1000, GIB))
    leaving = job("a", needs=2, cpus_each=4, on=["n1"], leaving=(worker(1, "n1", "1"),))
    view = cluster(nodes=[node("n1", gpus=4, cpus=16, memory_gib=8, guests=(daemon,))], jobs=[leaving])
    assert (Room.of(view).cpu, Room.of(view).gpus) == ([11_000], [3])
    assert (Room.of(view, leaving=True).cpu, Room.of(view, leaving=True).gpus) == ([7_000], [2])
    assert Room.of(view).memory == [7 * GIB]


def test_dragon_27_workers_on_a_lost_node_take_no_room():
    view = cluster(nodes=[node("n1", gpus=4)], jobs=[job("a", needs=2, on=["n1", "gone"])])
    assert Room.of(view).gpus == [3]


@pytest.mark.parametrize("leaves", ["first", "second"])
@pytest.mark.parametrize("milli", [1000, 400])
def test_a_card_that_two_say_they_hold_is_overfull_until_one_leaves(milli, leaves):
    room = room_on(node("n1", gpus=2))
    claims = {"first": Resources(gpu_milli=1000), "second": Resources(gpu_milli=milli)}
    for request in claims.values():
        room.occupy(0, request, ("0",))  # type: ignore[arg-type]
    assert room.overfull() == [0]
    assert room.gpus == [1]
    room.give(0, claims.pop(leaves), ("0",))  # type: ignore[arg-type]
    assert room.overfull() == []
    for request in claims.values():
        room.give(0, request, ("0",))  # type: ignore[arg-type]
    assert room.slots_at(0, Resources(gpu_milli=1000)) == 2


def test_overbooked_guests_leave_nothing_rather_than_less():
    guest = Guest("greedy", Resources(9_000, 0, 9_000))
    room = room_on(node("n1", gpus=2, cpus=4, guests=(guest,)))
    assert (room.cpu, room.gpus, room.overfull()) == ([0], [0], [])


amounts = st.builds(
    Resources,
    st.integers(0, 4000),
    st.integers(0, 4).map(lambda gib: gib * GIB),
    st.sampled_from([0, 0, 1000, 2000]),
    st.just(0),
)


@settings(max_examples=60, deadline=None)
@given(
    guests=st.lists(st.tuples(st.integers(0, 2), amounts), max_size=6),
    held=st.lists(st.tuples(amounts, st.lists(st.integers(0, 2), min_size=1, max_size=4)), max_size=6),
)
def test_dragon_27_room_is_what_a_plain_sum_says(guests, held):
    """Every guest and every worker, leaving ones included, is subtracted from what the node has, once."""
    sizes = [(32, 64, 8), (16, 32, 4), (8, 16, 0)]
    nodes = [
        node(
            f"n{at}",
            cpus=cpus,
            memory_gib=gib,
            gpus=gpus,
            guests=tuple(Guest(f"g{number}", request) for number, (to, request) in enumerate(guests) if to == at),
        )
        for at, (cpus, gib, gpus) in enumerate(sizes)
    ]
    jobs = []
    for number, (request, places) in enumerate(held):
        workers = [worker(ordinal, f"n{at}") for ordinal, at in enumerate(places)]
        half = len(workers) // 2
        each = job(f"j{number}", needs=len(workers), holds=workers[half:], leaving=tuple(workers[:half]))
        jobs.append(each.but(spec=replace(each.spec, request=request)))
    room = Room.of(cluster(nodes=nodes, jobs=jobs), leaving=True)
    for at, (cpus, gib, gpus) in enumerate(sizes):
        here = [request for to, request in guests if to == at]
        ours = [request for request, places in held for to in places if to == at]
        has = (cpus * 1000, gib * GIB, gpus * 1000)
        left = [max(0, has[what] - sum(r[what] for r in here)) - sum(r[what] for r in ours) for what in range(3)]
        assert [room.cpu[at], room.memory[at], room.gpus[at] * 1000] == left


@settings(max_examples=60, deadline=None)
@given(
    moves=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([HALF, share(300, 5), share(334), Resources(500, GIB, 1000)])),
        max_size=40,
    ),
    undo=st.randoms(use_true_random=False),
)
def test_taking_and_giving_back_in_any_order_leaves_no_trace(moves, undo):
    """And vectors, which follow lazily, always say what each node says."""
    room = room_on(*(node(f"n{at}", gpus=at + 1, cpus=8, gpu_gib=16) for at in range(3)))
    fresh = room.copy()
    kinds = {request for _, request in moves}
    taken = []
    for at, request in moves:
        if room.slots_at(at, request):
            taken.append((at, request, room.take(at, request)))
        for kind in kinds:
            assert room.slots(kind).tolist() == [room.slots_at(node_at, kind) for node_at in range(3)]
    assert room.overfull() == []
    undo.shuffle(taken)
    for at, request, devices in taken:
        room.give(at, request, devices)
    assert (room.cpu, room.memory, room.gpus) == (fresh.cpu, fresh.memory, fresh.gpus)
    for kind in kinds:
        assert room.slots(kind).tolist() == fresh.slots(kind).tolist()
