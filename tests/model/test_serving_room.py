"""How much room is kept for serving pods that wait."""

import pytest

from sterna.model.nodes import Guest, GuestKind
from sterna.model.resources import Resources
from sterna.model.serving_room import room_for_serving
from sterna.placement.packed import packed
from sterna.planner.decide import decide
from sterna.policies.registry import policy
from tests.worlds import cluster, job, node


def pod(*, gpus: int = 0, cpus: int = 0) -> Guest:
    return Guest("serve", Resources(cpus * 1000, 0, gpus * 1000), GuestKind.SERVING)


@pytest.mark.parametrize(
    ("waiting", "kept"),
    [
        pytest.param([], 0, id="no pod waits"),
        pytest.param([pod(gpus=1), pod(gpus=2)], 3000, id="all that wait, together"),
        pytest.param([pod(gpus=5)], 0, id="a pod that no node could ever hold idles nothing"),
        pytest.param([pod(gpus=1, cpus=99)], 0, id="nor one that lacks another resource"),
    ],
)
def test_room_is_kept_for(waiting, kept):
    assert room_for_serving(cluster(nodes=[node("n1", gpus=4), node("n2", gpus=4)], jobs=[]).cluster, waiting) == kept


def test_room_is_kept_in_one_pool_and_not_in_all():
    nodes = [node("a1", gpus=4, accelerator="a100"), node("t1", gpus=4, accelerator="t4"), node("c1", cpus=8)]
    jobs = [job("a", at_most=4, spec={"accelerator": "a100"}), job("t", at_most=4, spec={"accelerator": "t4"})]
    view = cluster(nodes=nodes, jobs=jobs, serving=[pod(gpus=1)])
    decision = decide(view, policy("elastic-fifo"), packed)
    assert sorted(len(workers) for workers in decision.layout.workers.values()) == [3, 4]
