"""Tiresias with Voda's own promotion: looks every five seconds, counters that are not reset, defects and all."""

from dataclasses import replace

import pytest
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.target import PolicyMemory
from sterna.policies.options import parse_options
from sterna.policies.registry import policy
from sterna.policies.tiresias import Promotion, TiresiasOptions, tiresias

VODA = TiresiasOptions(thresholds_gpu_s=(100.0,), promote_knob=4.0, promotion=Promotion.VODA)


def seen(queue: float, looked_s: float, waited_s: float = 0.0) -> PolicyMemory:
    return PolicyMemory({JobId("a"): {"queue": queue, "looked_s": looked_s, "waited_s": waited_s}})


@pytest.mark.parametrize(
    ("the_job", "memory", "now_s", "expected"),
    [
        pytest.param(job("a", on=["n1"]), seen(0, 90.0), 104.0, 0, id="past its threshold, and nobody looked yet"),
        pytest.param(job("a", on=["n1"]), seen(0, 90.0), 105.0, 1, id="the next look finds it"),
        pytest.param(job("a", on=["n1"] * 2), seen(0, 0.0), 50.0, 0, id="just its threshold is not more than that"),
        pytest.param(
            job("a", on=["n1"]), seen(1, 100.0, waited_s=420.0), 105.0, 0, id="a running job rises by an old wait"
        ),
        pytest.param(
            job("a", on=["n1"]), seen(0, 105.0, waited_s=500.0), 110.0, 1, id="and sinks again by what it used"
        ),
        pytest.param(
            job("a", on=["n1"]), seen(0, 100.0, waited_s=450.0), 130.0, 1, id="to and fro until the run is long enough"
        ),
        pytest.param(
            job("a", last_ran_s=10.0, gpu_s_since_start=110.0), seen(1, 0.0), 39.0, 1, id="not yet 4 times its run"
        ),
        pytest.param(job("a", last_ran_s=10.0, gpu_s_since_start=110.0), seen(1, 0.0), 40.0, 0, id="4 times: it rises"),
        pytest.param(
            job("a", last_ran_s=10.0, gpu_s_since_start=110.0),
            seen(1, 0.0),
            45.0,
            1,
            id="and sinks at the next look although it holds nothing",
        ),
        pytest.param(
            job("a", last_ran_s=10.0, gpu_s_since_start=90.0), seen(1, 0.0), 9e4, 0, id="a short run leaves it there"
        ),
        pytest.param(job("a", spec={"priority": -1}), PolicyMemory(), 4.0, 1, id="a low priority lasts"),
        pytest.param(job("a", spec={"priority": -1}), PolicyMemory(), 5.0, 0, id="until the first look"),
        pytest.param(job("a"), seen(7, 0.0), 1.0, 1, id="a queue that is no more is the last one"),
    ],
)
def test_looks_move_a_job(the_job, memory, now_s, expected):
    target = tiresias(cluster(jobs=[the_job], gpus=4, now_s=now_s, memory=memory), VODA)
    assert target.memory.jobs[JobId("a")]["queue"] == expected


@pytest.mark.parametrize(
    ("the_job", "gpus", "memory", "now_s", "expected"),
    [
        pytest.param(job("a", needs=2), 2, PolicyMemory(), 3.0, 55.0, id="it starts, and is found past its threshold"),
        pytest.param(job("a", on=["n1"]), 1, seen(0, 30.0), 32.0, 105.0, id="it runs on"),
        pytest.param(job("a", on=["n1"]), 1, seen(1, 100.0, waited_s=999.0), 101.0, 105.0, id="it rises by its wait"),
        pytest.param(job("a", on=["n1"]), 1, seen(1, 100.0), 101.0, None, id="it stays where it is"),
        pytest.param(
            job("a", last_ran_s=10.0, gpu_s_since_start=110.0), 0, seen(1, 0.0), 3.0, 40.0, id="it will have waited"
        ),
        pytest.param(
            job("a", last_ran_s=10.0, gpu_s_since_start=110.0), 0, seen(1, 40.0), 42.0, 45.0, id="it goes to and fro"
        ),
        pytest.param(job("a", on=["n1"], started_s=7.0), 0, seen(1, 100.0), 107.0, 510.0, id="stopped, it waits"),
        pytest.param(job("a", needs=2), 0, PolicyMemory(), 3.0, None, id="nothing ever happened to it"),
    ],
)
def test_the_target_names_the_look_that_changes_it(the_job, gpus, memory, now_s, expected):
    view = cluster(jobs=[the_job], gpus=2, now_s=now_s, memory=memory)
    assert tiresias(replace(view, reserved=2000 - gpus * 1000), VODA).wake_s == expected


def test_a_start_remembers_the_wait_before_it():
    view = cluster(jobs=[job("a", needs=1, submitted_s=10.0)], gpus=1, now_s=72.0)
    assert tiresias(view, VODA).memory.jobs[JobId("a")] == {"queue": 0.0, "looked_s": 72.0, "waited_s": 62.0}


def test_it_is_an_option_of_both_policies():
    for name in ("tiresias", "elastic-tiresias"):
        assert policy(name, {"promotion": "voda"}).options.promotion is Promotion.VODA
    assert parse_options(TiresiasOptions, {}, of="tiresias").promotion is Promotion.WAITING
