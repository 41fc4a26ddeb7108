"""`fifo`: who goes first, who skips ahead, and who is never preempted."""

import pytest
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.snapshot import Snapshot
from sterna.model.why import Why
from sterna.policies.registry import policy


def sizes(view: Snapshot, name: str = "fifo", **settings: str) -> dict[JobId, int]:
    return policy(name, settings)(view).workers_by_job()


def test_voda_13_fifo_golden_vector():
    jobs = [job("A", needs=2, submitted_s=1), job("B", needs=4, submitted_s=2), job("C", needs=2, submitted_s=3)]
    assert sizes(cluster(gpus=5, jobs=jobs)) == {"A": 2, "C": 2}


@pytest.mark.parametrize(
    ("jobs", "gpus", "settings", "expected"),
    [
        pytest.param(
            [job("late", needs=2, submitted_s=2), job("early", needs=2, submitted_s=1)], 2, {}, {"early": 2},
            id="the earlier submission goes first",
        ),
        pytest.param(
            [job("b", needs=4), job("a", needs=4)], 4, {}, {"a": 4}, id="equal jobs fall back to the id"
        ),
        pytest.param(
            [job("a", at_least=1, at_most=8)], 8, {}, {"a": 1}, id="an elastic job gets its minimum"
        ),
        pytest.param(
            [job("a", at_least=1, at_most=8, initial=4)], 8, {"size": "initial"}, {"a": 4},
            id="or what it asked for",
        ),
        pytest.param(
            [job("a", at_least=1, at_most=8, step=3)], 8, {"size": "max"}, {"a": 7},
            id="its maximum is the last size that the steps reach",
        ),
        pytest.param(
            [job("a", needs=2, submitted_s=1), job("b", needs=4, submitted_s=2), job("c", needs=2, submitted_s=3)],
            5, {"strict": "true"}, {"a": 2},
            id="strict: the first that does not fit blocks all behind it",
        ),
        pytest.param(
            [job("a", needs=9, submitted_s=1), job("b", needs=4, submitted_s=2)], 4, {"strict": "true"}, {"b": 4},
            id="strict: a head that can never fit blocks nobody",
        ),
        pytest.param(
            [job("a", needs=2, submitted_s=1), job("b", needs=2, submitted_s=2, on=["n1"] * 2)], 2,
            {"order": "seat"}, {"b": 2},
            id="seat: whoever runs keeps its place although it came later",
        ),
        pytest.param(
            [job("a", needs=2, submitted_s=1), job("b", needs=2, submitted_s=2, on=["n1"] * 2)], 2, {}, {"a": 2},
            id="submission: the earlier job takes the place of the one that runs",
        ),
    ],
)  # fmt: skip
def test_fifo(jobs, gpus, settings, expected):
    assert sizes(cluster(gpus=gpus, jobs=jobs), **settings) == expected


def test_a_job_behind_a_strict_head_is_told_so():
    jobs = [job("a", needs=2, submitted_s=1), job("b", needs=4, submitted_s=2), job("c", needs=2, submitted_s=3)]
    target = policy("fifo", {"strict": "true"})(cluster(gpus=5, jobs=jobs))
    assert target.because_of(jobs[2].id).why is Why.BEHIND_HEAD


def test_fjf_is_fifo_by_seat_at_the_size_asked_for():
    jobs = [job("a", needs=2, submitted_s=1), job("b", needs=2, submitted_s=2, on=["n1"] * 2)]
    assert sizes(cluster(gpus=2, jobs=jobs), "fjf") == {"b": 2}
