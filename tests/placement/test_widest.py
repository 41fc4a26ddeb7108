"""The placing rule of Pollux' simulator."""

import pytest

from sterna.model.ids import JobId
from sterna.placement.widest import widest, widest_smallest_first
from tests.placement.asking import ask, where
from tests.worlds import cluster, job, node

NODES = [node(f"n{at}", gpus=4) for at in range(3)]


@pytest.mark.parametrize(
    ("place", "jobs", "target", "expected"),
    [
        pytest.param(
            widest,
            [job("a", needs=2), job("b", needs=2)],
            ask(a=2, b=2),
            {"a": ["n0", "n0"], "b": ["n1", "n1"]},
            id="always the widest node, the first of equals",
        ),
        pytest.param(
            widest,
            [job("a", needs=6), job("b", needs=5)],
            ask(a=6, b=5),
            {"a": ["n0"] * 4 + ["n1"] * 2, "b": ["n2"] * 4 + ["n1"]},
            id="workers are listed in the order in which nodes were taken",
        ),
        pytest.param(
            widest_smallest_first,
            [job("a", needs=6), job("b", needs=5)],
            ask(a=6, b=5),
            {"a": ["n2"] * 4 + ["n1"] * 2, "b": ["n0"] * 4 + ["n1"]},
            id="the smallest first",
        ),
        pytest.param(
            widest,
            [job("a", at_least=1, at_most=8, on=["n2", "n2"]), job("b", needs=2, on=["n0", "n1"])],
            ask(a=3, b=2),
            {"a": ["n2"] * 3, "b": ["n0", "n1"]},
            id="unchanged jobs keep their nodes, however scattered; changed ones start from nothing",
        ),
        pytest.param(
            widest,
            [job("a", at_least=1, at_most=2, on=["n2", "n2"]), job("b", needs=3, on=["n0"] * 3)],
            ask(a=1, b=3),
            {"a": ["n1"], "b": ["n0"] * 3},
            id="even a smaller job goes where most is free",
        ),
        pytest.param(widest, [job("a", needs=14)], ask(a=14), {}, id="what does not fit by count is left out"),
        pytest.param(
            widest,
            [job("a", needs=2, ps=1, ps_cpus=1)],
            ask(a=2),
            {"a": ["n0", "n0", "n0"]},
            id="a parameter server goes where its workers go",
        ),
    ],
)
def test_pollux_rule(place, jobs, target, expected):
    view = cluster(nodes=NODES, jobs=jobs)
    layout = place(view, target)
    assert where(layout) == expected
    for each in view.jobs:
        if each.id in layout.workers and len(each.workers) == len(layout.workers[each.id]):
            assert layout.workers[each.id] is each.workers


def test_unchanged_jobs_on_a_lost_node_are_placed_again():
    view = cluster(nodes=NODES, jobs=[job("a", needs=2, on=["gone", "n1"])])
    assert where(widest(view, ask(a=2))) == {JobId("a"): ["n0", "n0"]}
