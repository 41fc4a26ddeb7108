"""Where SharePods go, and who makes room for them."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.kubernetes.apiserver.objects import Meta
from sterna.engines.kubernetes.kubeshare.share_seats import ShareSeat, promise_for, seat_for
from sterna.engines.kubernetes.kubeshare.sharepods import Share, SharePod, guests_of, new_gpu_id, open_cards
from sterna.model.nodes import Node
from sterna.model.plan import Decision
from sterna.model.resources import WHOLE_GPU_MILLI, Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.packed import packed
from sterna.planner.decide import decide
from sterna.policies.registry import policy
from tests.worlds import GIB, cluster, job, node

CARDS = {"a": {"aaaaa": Share(500, 8 * GIB), "bbbbb": Share(300, 16 * GIB)}, "b": {"ccccc": Share(400, 1 * GIB)}}


def share(milli: int, gib: int = 0, *, uid: str = "u", cpus: int = 0, at: str = "", gpu_id: str = "") -> SharePod:
    request, meta = Resources(cpu_milli=cpus * 1000), Meta(namespace="ns", name=uid, uid=uid)
    return SharePod(meta=meta, request=request, share=Share(milli, gib * GIB), node=at, gpu_id=gpu_id)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(share(300), ("a", "bbbbb"), id="the fullest card that has the share"),
        pytest.param(share(400), ("b", "ccccc"), id="of any node"),
        pytest.param(share(400, 4), ("a", "aaaaa"), id="and the memory"),
        pytest.param(share(0), ("a", "bbbbb"), id="no share of time is still a place on a card"),
        pytest.param(share(300, cpus=40), ("b", "ccccc"), id="its node must have the CPUs"),
    ],
)
def test_dragon_31_best_fit_over_the_cards_that_are_open(pod: SharePod, expected: tuple[str, str]):
    view = cluster(nodes=[node("a", gpus=2, cpus=32, gpu_gib=16), node("b", gpus=2, cpus=64, gpu_gib=16)])
    assert seat_for(pod, view, CARDS) == ShareSeat(*expected)


@pytest.mark.parametrize(
    ("pod", "seat"),
    [
        pytest.param(share(600), "b", id="a free card"),
        pytest.param(share(600, 17), None, id="no card has the memory"),
        pytest.param(share(600, cpus=65), None, id="no node has the CPUs"),
    ],
)
def test_dragon_31_else_a_card_is_opened_where_one_is_free(pod: SharePod, seat: str | None):
    full = job("full", needs=2, on=["a", "a"])
    view = cluster(nodes=[node("a", gpus=2, gpu_gib=16), node("b", gpus=2, gpu_gib=16)], jobs=[full])
    found = seat_for(pod, view, {"b": {"ccccc": Share(400, GIB)}})
    assert (None if found is None else found.node) == seat
    assert found is None or (len(found.gpu_id) == 5 and found.gpu_id != "ccccc")


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 12), st.integers(0, 8)), max_size=12))
def test_dragon_31_however_many_come_no_card_and_no_node_is_overbooked(asked: list[tuple[int, int, int]]):
    bare = [node("a", gpus=2, cpus=16, gpu_gib=16), node("b", gpus=1, cpus=16, gpu_gib=16)]
    placed: dict[str, list[SharePod]] = {"a": [], "b": []}
    for number, (milli, gib, cpus) in enumerate(asked):
        nodes = [_filled(each, placed[each.id]) for each in bare]
        cards = {str(each.id): open_cards(each, placed[each.id]) for each in nodes}
        seat = seat_for(share(milli, gib, uid=str(number), cpus=cpus), cluster(nodes=nodes), cards)
        if seat is not None:
            placed[seat.node].append(share(milli, gib, uid=str(number), cpus=cpus, at=seat.node, gpu_id=seat.gpu_id))
    for each in bare:
        left = open_cards(each, placed[each.id])
        assert len(left) <= each.allocatable.whole_gpus
        assert all(milli >= 0 and memory >= 0 for milli, memory in left.values())
        assert sum(pod.request.cpu_milli for pod in placed[each.id]) <= each.allocatable.cpu_milli


@pytest.mark.parametrize("name", ["elastic-fifo", "afs-l", "max-min", "elastic-tiresias"])
def test_dragon_31_room_is_promised_where_jobs_can_spare_a_worker(name: str):
    rigid, elastic = job("rigid", needs=2, on=["a", "a"]), job("elastic", at_most=2, on=["b", "b"])
    view = cluster(nodes=[node("a", gpus=2), node("b", gpus=2)], jobs=[rigid, elastic])
    found = promise_for(share(500), view, {}, _deciding(name))
    assert found is not None
    assert found[0] == "b"
    assert found[1].request.gpu_milli == WHOLE_GPU_MILLI


def test_dragon_31_nothing_is_promised_where_whole_jobs_would_have_to_go():
    view = cluster(gpus=2, jobs=[job("first", needs=2, on=["n1", "n1"])])
    assert promise_for(share(500), view, {}, _deciding("elastic-fifo")) is None


def test_a_new_card_has_a_name_that_no_other_card_of_the_node_has_and_always_the_same():
    first = new_gpu_id("uid", [])
    second = new_gpu_id("uid", [first])
    assert len({first, second, new_gpu_id("uid", [first, second])}) == 3
    assert new_gpu_id("uid", [first]) == second


def _filled(bare: Node, there: list[SharePod]) -> Node:
    guests = {key: guest for pod in there for key, guest in guests_of(replace(pod, node=bare.id)).items()}
    return replace(bare, guests=tuple(guests.values()))


def _deciding(name: str) -> Callable[[Snapshot], Decision]:
    size = policy(name, {})

    def deciding(view: Snapshot) -> Decision:
        return decide(view, size, packed)

    return deciding
