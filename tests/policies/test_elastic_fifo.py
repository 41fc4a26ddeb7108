"""`elastic-fifo`: minimums first, then either turn by turn (Voda) or each its fill (AFS)."""

import pytest
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.snapshot import Snapshot
from sterna.policies.registry import policy


def sizes(view: Snapshot, **settings: str) -> dict[JobId, int]:
    return policy("elastic-fifo", settings)(view).workers_by_job()


def test_voda_13_elastic_fifo_golden_vector():
    jobs = [job(name, at_most=4, submitted_s=at) for at, name in enumerate("abc")]
    assert sizes(cluster(gpus=8, jobs=jobs)) == {"a": 3, "b": 3, "c": 2}


@pytest.mark.parametrize(
    ("jobs", "gpus", "variant", "expected"),
    [
        pytest.param(
            [job("a", at_most=4), job("big", at_least=4, at_most=8, submitted_s=1)], 4, "voda", {"a": 4},
            id="a job that did not get its minimum gets no remainder of it",
        ),
        pytest.param(
            [job("rigid", needs=2), job("b", at_most=8, submitted_s=1)], 8, "voda", {"rigid": 2, "b": 6},
            id="a rigid job takes no part in the second phase",
        ),
        pytest.param(
            [job("a", at_most=7, step=3), job("b", at_most=8, submitted_s=1)], 7, "voda", {"a": 4, "b": 3},
            id="growth goes by the step",
        ),
        pytest.param(
            [job("a", at_most=6), job("b", at_most=6, submitted_s=1), job("c", at_most=6, submitted_s=2)], 8, "afs",
            {"a": 6, "b": 2},
            id="afs: each in turn takes its maximum or what is left",
        ),
        pytest.param(
            [job("a", at_most=4), job("b", at_most=4, submitted_s=1, on=["n1"])], 5, "afs", {"a": 1, "b": 4},
            id="afs: whoever runs goes first",
        ),
        pytest.param(
            [job("a", at_most=3), job("b", at_least=2, at_most=4, submitted_s=1), job("c", at_most=2, submitted_s=2)],
            4, "afs", {"a": 3, "c": 1},
            id="afs: a job whose minimum does not fit is passed over",
        ),
    ],
)  # fmt: skip
def test_elastic_fifo(jobs, gpus, variant, expected):
    assert sizes(cluster(gpus=gpus, jobs=jobs), variant=variant) == expected


@pytest.mark.parametrize("variant", ["voda", "afs"])
def test_a_grant_may_be_cut_to_the_minimum_where_nodes_are_fragmented(variant):
    target = policy("elastic-fifo", {"variant": variant})(cluster(gpus=8, jobs=[job("a", at_least=2, at_most=8)]))
    (grant,) = target.grants.values()
    assert (grant.workers, grant.floor) == (8, 2)
