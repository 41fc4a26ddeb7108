"""`max-min`: equal shares in first-come order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.snapshot import Snapshot
from sterna.policies.registry import policy


def sizes(view: Snapshot) -> dict[JobId, int]:
    return policy("max-min")(view).workers_by_job()


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        pytest.param(
            [job("a", at_most=8), job("b", at_most=2)], 8, {"a": 6, "b": 2}, id="what one leaves others get"
        ),
        pytest.param(
            [job(name, at_most=8) for name in "abc"], 8, {"a": 3, "b": 3, "c": 2}, id="the first get the odd ones"
        ),
        pytest.param(
            [job("a", at_most=8), job("b", at_most=8, submitted_s=1, on=["n1"])], 3, {"a": 1, "b": 2},
            id="whoever runs sits before whoever waits",
        ),
        pytest.param(
            [job("a", at_most=4), job("b", at_least=4, at_most=8)], 4, {"a": 4},
            id="a job whose minimum does not fit gets nothing",
        ),
    ],
)  # fmt: skip
def test_max_min(jobs, gpus, expected):
    assert sizes(cluster(gpus=gpus, jobs=jobs)) == expected


@settings(max_examples=60, deadline=None)
@given(maxima=st.lists(st.integers(1, 9), min_size=1, max_size=9), gpus=st.integers(1, 30))
def test_p9_max_min_deals_single_gpus_round_robin(maxima, gpus):
    view = cluster(gpus=gpus, jobs=[job(f"j{at}", at_most=most, submitted_s=at) for at, most in enumerate(maxima)])
    dealt = [0] * len(maxima)
    left = gpus
    while left and dealt != maxima:
        for seat, most in enumerate(maxima):
            if left and dealt[seat] < most:
                dealt[seat] += 1
                left -= 1
    assert sizes(view) == {f"j{seat}": workers for seat, workers in enumerate(dealt) if workers}
