"""`srjf` and `elastic-srjf`: time left on a single worker decides."""

import pytest
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.snapshot import Snapshot
from sterna.policies.registry import policy


def sizes(name: str, view: Snapshot) -> dict[JobId, int]:
    return policy(name)(view).workers_by_job()


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        pytest.param(
            [job("a", needs=4, left=90), job("b", needs=2, left=10)], 4, {"b": 2},
            id="the shorter job goes first although it came later",
        ),
        pytest.param(
            [job("a", needs=8, left=10), job("b", needs=2, left=90)], 4, {"b": 2},
            id="a job too big for the cluster does not block those behind it",
        ),
        pytest.param(
            [job("b", needs=4, left=10), job("a", needs=4, left=10)], 4, {"a": 4},
            id="equal jobs fall back to the id, never to input order",
        ),
        pytest.param(
            [job("new", needs=4), job("known", needs=4, left=1e9, submitted_s=1)], 4, {"known": 4},
            id="a job of unknown length goes last",
        ),
        pytest.param(
            [job("wide", at_most=4, left=100, speedups=[1, 2, 3, 4]), job("narrow", left=90, submitted_s=1)], 1,
            {"narrow": 1},
            id="time is counted on one worker, however fast many would be",
        ),
    ],
)  # fmt: skip
def test_voda_13_srjf(jobs, gpus, expected):
    assert sizes("srjf", cluster(gpus=gpus, jobs=jobs)) == expected


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        pytest.param(
            [job("long", at_most=4, left=900), job("short", at_most=4, left=10, submitted_s=1)], 5,
            {"short": 3, "long": 2},
            id="spare room goes round in the same order",
        ),
        pytest.param(
            [job("rigid", needs=2, left=10), job("b", needs=1, left=20)], 8, {"rigid": 2, "b": 1},
            id="rigid jobs never grow past their maximum",
        ),
        pytest.param(
            [job("a", at_most=2, left=10), job("big", at_least=4, at_most=8, left=20)], 4, {"a": 2},
            id="a job that did not get its minimum gets nothing",
        ),
    ],
)  # fmt: skip
def test_voda_13_elastic_srjf(jobs, gpus, expected):
    assert sizes("elastic-srjf", cluster(gpus=gpus, jobs=jobs)) == expected


def test_progress_since_the_last_report_counts():
    running = job("a", left=100, on=["n1"])
    rival = job("b", left=80, submitted_s=1)
    assert sizes("srjf", cluster(gpus=1, jobs=[running, rival], now_s=10)) == {"b": 1}
    assert sizes("srjf", cluster(gpus=1, jobs=[running, rival], now_s=50)) == {"a": 1}
