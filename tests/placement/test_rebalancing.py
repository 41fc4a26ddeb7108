"""How proposed moves become part of a layout."""

import pytest

from sterna.model.ids import JobId, NodeId
from sterna.model.layout import Layout
from sterna.model.why import Because, Why
from sterna.placement.rebalancing import Proposal, with_proposals
from tests.placement.asking import where, worker
from tests.worlds import cluster, job, node

BETTER = Because(Why.REBALANCED)
NODES = [node("a", gpus=2), node("b", gpus=2), node("c", gpus=1), node("shut", gpus=4, cordoned=True)]
JOBS = [job("j", needs=2, on=["a", "a"]), job("k", needs=1, on=["b"])]


def move(name: str, ordinal: int, to: str, *, on: str, benefit_s: float = 100.0, cost_s: float = 10.0) -> Proposal:
    return Proposal(JobId(name), worker(ordinal, on), NodeId(to), BETTER, benefit_s, cost_s)


@pytest.mark.parametrize(
    ("proposals", "moves_max", "expected"),
    [
        pytest.param([move("j", 1, "b", on="a")], 3, {"j": ["a", "b"], "k": ["b"]}, id="a move that pays and fits"),
        pytest.param([move("j", 1, "b", on="a", benefit_s=9)], 3, None, id="a move that costs more than it brings"),
        pytest.param([move("j", 1, "b", on="a", benefit_s=10)], 3, None, id="a move that merely pays for itself"),
        pytest.param([move("j", 1, "shut", on="a")], 3, None, id="a node that lets nobody in"),
        pytest.param([move("j", 1, "nowhere", on="a")], 3, None, id="a node that does not exist"),
        pytest.param([move("j", 1, "a", on="a")], 3, None, id="a move to where it is"),
        pytest.param([move("j", 1, "b", on="c")], 3, None, id="a worker that is not there any more"),
        pytest.param([move("ghost", 0, "b", on="a")], 3, None, id="a job that is not there any more"),
        pytest.param([move("j", 1, "b", on="a")], 0, None, id="no moves allowed"),
        pytest.param(
            [move("j", 0, "c", on="a"), move("j", 1, "c", on="a", benefit_s=200)],
            3,
            {"j": ["a", "c"], "k": ["b"]},
            id="the better of two that want one place",
        ),
        pytest.param(
            [move("j", 0, "b", on="a"), move("j", 1, "c", on="a", benefit_s=200)],
            1,
            {"j": ["a", "c"], "k": ["b"]},
            id="the best only, where one move is allowed",
        ),
        pytest.param(
            [move("k", 0, "a", on="b", benefit_s=50), move("j", 0, "c", on="a")],
            3,
            {"j": ["c", "a"], "k": ["a"]},
            id="one move makes room for the next",
        ),
        pytest.param(
            [move("j", 1, "b", on="a"), move("j", 1, "c", on="a", benefit_s=90)],
            3,
            {"j": ["a", "b"], "k": ["b"]},
            id="a worker moves once",
        ),
    ],
)
def test_proposals(proposals, moves_max, expected):
    view = cluster(nodes=NODES, jobs=JOBS)
    before = Layout({each.id: each.workers for each in view.jobs})
    for order in (proposals, proposals[::-1]):
        after = with_proposals(view, before, order, moves_max=moves_max)
        assert where(after) == (expected or where(before))
        changed = {name for name in after.workers if after.workers[name] != before.workers[name]}
        assert {name for name, because in after.becauses.items() if because == BETTER} == changed
