"""`srtf`: time left at the size that is given decides."""

import pytest
from tests.worlds import cluster, job

from sterna.policies.registry import policy

WIDE = job("wide", at_most=4, initial=2, left=100, speedups=[1, 2, 3, 4])
NARROW = job("narrow", left=30, submitted_s=1)


@pytest.mark.parametrize(
    ("jobs", "gpus", "size", "expected"),
    [
        pytest.param([WIDE, NARROW], 4, "max", {"wide": 4}, id="25 s on four workers come before 30 s on one"),
        pytest.param([WIDE, NARROW], 2, "initial", {"narrow": 1}, id="at the size asked for, 50 s come after 30 s"),
        pytest.param([WIDE, NARROW], 1, "min", {"narrow": 1}, id="at the minimum, 100 s come after 30 s"),
        pytest.param([WIDE, NARROW], 3, "max", {"narrow": 1}, id="the whole size or nothing, and others skip ahead"),
        pytest.param(
            [job("b", needs=2, left=9), job("a", needs=2, left=9), job("c", needs=2, left=9, submitted_s=-1)], 4, "max",
            {"c": 2, "a": 2},
            id="ties go by submission, then by id",
        ),
        pytest.param([job("new"), job("old", left=1e9, submitted_s=1)], 1, "max", {"old": 1}, id="unknown goes last"),
    ],
)  # fmt: skip
def test_srtf(jobs, gpus, size, expected):
    assert policy("srtf", {"size": size})(cluster(gpus=gpus, jobs=jobs)).workers_by_job() == expected


def test_a_rigid_grant_is_never_cut():
    (grant,) = policy("srtf")(cluster(gpus=4, jobs=[WIDE])).grants.values()
    assert (grant.workers, grant.floor) == (4, 4)
