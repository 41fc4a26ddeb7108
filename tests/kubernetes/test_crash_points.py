"""The operator dies before and after its writes, anywhere in a day, and the evening is the same."""

import random

import pytest

from tests.kubernetes.day import Evening, live_through
from tests.kubernetes.lab import Lab
from tests.needs import seeds

WRITES = 90  # about as many as a day has; a point beyond its end is one at which nobody dies
DEATHS_A_DAY = 8
DAYS = 5  # of 8 deaths: 40 points. All of them: STERNA_SEEDS=22 or more


def points_of(day: int) -> list[tuple[int, bool]]:
    """Every write, before and after, falls into one of the days."""
    everything = [(write, after) for write in range(1, WRITES + 1) for after in (False, True)]
    random.Random(4).shuffle(everything)
    days = len(everything) // DEATHS_A_DAY
    return sorted(everything[day % days :: days])


def test_a_day_has_pods_that_stay_and_pods_that_go(lab: Lab):
    evening, writes = lived(lab, [])
    assert evening == EXPECTED
    assert WRITES * 0.7 < writes < WRITES * 1.3


@pytest.mark.parametrize("day", seeds(DAYS))
def test_r1_dragon_46_voda_27_an_operator_that_dies_at_any_write_loses_no_pod_and_makes_none_twice(lab: Lab, day: int):
    points = points_of(day)
    evening, _ = lived(lab, points)
    assert evening == EXPECTED, f"it died at {points}"


def lived(lab: Lab, points: list[tuple[int, bool]]) -> tuple[Evening, int]:
    lab.nodes.add(3, gpus=2)
    running = lab.start(policy="elastic-fifo", dies=points)
    evening = live_through(lab)
    running.kill()
    return evening, running.writes


EXPECTED = Evening(
    pods=("hosts-launcher-0", "hosts-worker-0", *(f"late-worker-{i}" for i in range(4))),
    states=(("TFJob/served", "Succeeded"), ("MPIJob/hosts", "Running"), ("ElasticJob/late", "Running")),
    made=(
        *((f"gang-worker-{i}", 3) for i in range(2)),  # once started, once after a failure, once moved by the drain
        *(("hosts-launcher-0", 2), ("hosts-worker-0", 2)),  # suspended once
        *((f"late-worker-{i}", 1) for i in range(4)),
        ("served-ps-0", 1),
        *((f"served-worker-{i}", 1) for i in range(4)),
    ),
)
