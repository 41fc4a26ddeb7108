"""`optimus`: the next worker goes where the time left falls most."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.snapshot import Snapshot
from sterna.policies.registry import policy


def sizes(view: Snapshot) -> dict[JobId, int]:
    return policy("optimus")(view).workers_by_job()


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        pytest.param(
            [job("short", at_most=4, left=10), job("long", at_most=4, left=100)], 4, {"short": 1, "long": 3},
            id="a long job saves more by the same speed-up",
        ),
        pytest.param([job(name, at_most=4, left=10) for name in "abc"], 2, {"a": 1, "b": 1}, id="first workers first"),
        pytest.param(
            [job("a", at_most=4, left=10), job("b", at_most=4, left=10)], 3, {"a": 2, "b": 1},
            id="ties: the earlier job",
        ),
        pytest.param(
            [job("a", at_most=4, left=10, speedups=[1, 2, 2, 2])], 8, {"a": 2}, id="it stops when nobody gains"
        ),
        pytest.param(
            [job("new", at_most=4), job("old", at_most=3, left=10, submitted_s=1)], 6, {"new": 3, "old": 3},
            id="a job of unknown length takes what jobs of known length leave",
        ),
        pytest.param(
            [job("a", at_least=4, at_most=8, left=10), job("b", at_most=8, left=9)], 3, {"b": 3},
            id="a job whose minimum does not fit is passed over",
        ),
    ],
)  # fmt: skip
def test_optimus(jobs, gpus, expected):
    assert sizes(cluster(gpus=gpus, jobs=jobs)) == expected


@settings(max_examples=60, deadline=None)
@given(
    worlds=st.lists(st.tuples(st.integers(1, 6), st.floats(1, 1e4), st.floats(0.1, 1)), min_size=1, max_size=7),
    gpus=st.integers(1, 24),
)
def test_p8_optimus_equals_a_scan_of_all_jobs_for_every_worker(worlds, gpus):
    jobs = [
        job(f"j{at}", at_most=most, left=left, speedups=[count**bend for count in range(1, most + 1)], submitted_s=at)
        for at, (most, left, bend) in enumerate(worlds)
    ]
    held = [0] * len(jobs)
    for _ in range(gpus):
        best, saved = -1, 0.0
        for seat, each in enumerate(jobs):
            if held[seat] < each.spec.workers_max:
                saving = each.remaining_s(held[seat], 0) - each.remaining_s(held[seat] + 1, 0)
                if saving > saved:
                    best, saved = seat, saving
        if best < 0:
            break
        held[best] += 1
    view = cluster(gpus=gpus, jobs=jobs)
    assert sizes(view) == {f"j{seat}": workers for seat, workers in enumerate(held) if workers}
