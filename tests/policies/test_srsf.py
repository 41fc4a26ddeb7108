"""`srsf` and `elastic-srsf`: time left times GPUs decides."""

import pytest
from tests.worlds import cluster, job

from sterna.policies.registry import policy


@pytest.mark.parametrize(
    ("name", "jobs", "gpus", "expected"),
    [
        pytest.param(
            "srsf", [job("wide", needs=4, left=10, speedups=[1]), job("long", needs=1, left=30, submitted_s=1)], 4,
            {"long": 1},
            id="30 GPU-seconds come before 40, although they take longer",
        ),
        pytest.param(
            "srtf", [job("wide", needs=4, left=10, speedups=[1]), job("long", needs=1, left=30, submitted_s=1)], 4,
            {"wide": 4},
            id="by time alone it is the other way round",
        ),
        pytest.param(
            "srsf", [job("pair", needs=1, gpus_each=2, left=10), job("one", needs=1, left=15, submitted_s=1)], 2,
            {"one": 1},
            id="GPUs count, not workers",
        ),
        pytest.param(
            "srsf", [job("new", needs=1), job("old", needs=1, left=1e9, submitted_s=1)], 1, {"old": 1},
            id="unknown goes last",
        ),
        pytest.param(
            "elastic-srsf",
            [job("a", at_most=6, left=50), job("b", at_most=6, left=40, submitted_s=1), job("c", at_most=6, left=60)],
            8, {"b": 6, "a": 2},
            id="elastic: each in turn takes its maximum or what is left",
        ),
        pytest.param(
            "elastic-srsf",
            [job("a", at_most=3, left=1), job("b", at_least=2, at_most=9, left=5), job("c", at_most=9, left=9)],
            4, {"a": 3, "c": 1},
            id="elastic: a job whose minimum does not fit is passed over",
        ),
    ],
)  # fmt: skip
def test_srsf(name, jobs, gpus, expected):
    assert policy(name)(cluster(gpus=gpus, jobs=jobs)).workers_by_job() == expected
