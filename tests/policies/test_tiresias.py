"""Tiresias as Voda means it: who sinks, who rises, who goes first, and when the answer changes by itself."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role, Worker
from sterna.model.phases import Phase
from sterna.model.target import PolicyMemory, Target
from sterna.model.why import Why
from sterna.policies.options import parse_options
from sterna.policies.tiresias import TiresiasOptions, tiresias

DAY_S = 24 * 3600.0


def remember(**queues: float) -> PolicyMemory:
    return PolicyMemory(jobs={JobId(name): {"queue": queue} for name, queue in queues.items()})


def apply(jobs: Sequence[Job], target: Target, now_s: float) -> list[Job]:
    """The jobs once the target has come true: what an engine's counters would say."""
    return [_held(job, target.workers_of(job.id), now_s) for job in jobs]


def _held(job: Job, workers: int, now_s: float) -> Job:
    if workers and not job.size:
        places = tuple(Worker(Role.WORKER, index, NodeId("n1")) for index in range(workers))
        first_s = now_s if job.first_started_s is None else job.first_started_s
        anew = {"started_s": now_s, "first_started_s": first_s, "waiting_since_s": None, "gpu_s_since_start": 0.0}
        return job.but(workers=places, phase=Phase.RUNNING, as_of_s=now_s, **anew)
    if job.size and not workers:
        since_start = job.attained_since_start(now_s)
        last_ran_s = now_s - (job.started_s or 0.0)
        stopped = {"waiting_since_s": now_s, "started_s": None, "last_ran_s": last_ran_s}
        return job.but(workers=(), phase=Phase.WAITING, as_of_s=now_s, gpu_s_since_start=since_start, **stopped)
    return job


@pytest.mark.parametrize(
    ("jobs", "gpus", "memory", "expected"),
    [
        pytest.param(
            [
                job("a", needs=4, first_started_s=10.0, spec={"priority": -1}),
                job("b", needs=2, first_started_s=20.0),
                job("c", needs=4, first_started_s=15.0),
            ],
            8,
            PolicyMemory(),
            {"c": 4, "b": 2},
            id="the first queue goes first, by first start, and the lower queue gets what is left",
        ),
        pytest.param(
            [job("new", needs=4), job("old", needs=4, submitted_s=50.0, first_started_s=60.0)],
            4,
            PolicyMemory(),
            {"old": 4},
            id="a job that never ran comes after one that did",
        ),
        pytest.param(
            [job("big", needs=8, first_started_s=1.0), job("small", needs=2, first_started_s=2.0)],
            4,
            PolicyMemory(),
            {"small": 2},
            id="a job that does not fit is passed over",
        ),
        pytest.param(
            [job("a", at_least=1, at_most=9, initial=4, step=2)],
            8,
            PolicyMemory(),
            {"a": 3},
            id="an initial size between two steps is rounded down to the job's grid",
        ),
        pytest.param(
            [job("a", needs=2, spec={"priority": 1}), job("b", needs=2, first_started_s=1.0)],
            2,
            PolicyMemory(),
            {"a": 2},
            id="a larger priority goes first within a queue",
        ),
        pytest.param(
            [job("low", needs=2, spec={"priority": -9}), job("sunk", needs=2, submitted_s=5.0)],
            2,
            remember(sunk=1.0),
            {"sunk": 2},
            id="a priority below the last queue is clamped to it and still goes behind the jobs there",
        ),
        pytest.param([job("b", needs=1), job("a", needs=1)], 1, PolicyMemory(), {"a": 1}, id="ties end in the id"),
        pytest.param([], 4, PolicyMemory(), {}, id="no jobs is an empty answer"),
    ],
)
def test_voda_14_queues_are_walked_in_order(jobs, gpus, memory, expected):
    target = tiresias(cluster(jobs=jobs, gpus=gpus, memory=memory), TiresiasOptions())
    assert target.workers_by_job() == expected


@pytest.mark.parametrize(
    ("the_job", "queue", "now_s", "expected"),
    [
        pytest.param(job("a", on=["n1"]), 0.0, 3599.0, 0.0, id="a GPU-second before the threshold it stays"),
        pytest.param(job("a", on=["n1"]), 0.0, 3601.0, 1.0, id="one GPU for 3601 s: it sinks"),
        pytest.param(job("a", needs=4, on=["n1"] * 4), 0.0, 901.0, 1.0, id="four GPUs use it up four times as fast"),
        pytest.param(job("a", on=["n1"]), 1.0, 9e9, 1.0, id="there is nothing below the last queue"),
        pytest.param(
            job("a", last_ran_s=3600.0, gpu_s_since_start=3600.0),
            1.0,
            8 * 3600.0 - 1,
            1.0,
            id="not yet 8 times its run",
        ),
        pytest.param(
            job("a", last_ran_s=3600.0, gpu_s_since_start=3600.0),
            1.0,
            8 * 3600.0,
            0.0,
            id="waited 8 times its last run: it rises, and the old run does not push it down again",
        ),
        pytest.param(job("a"), 1.0, 9e9, 1.0, id="a job that never ran has no last run to compare with"),
        pytest.param(
            job("a", on=["n1"], last_ran_s=1.0),
            1.0,
            100.0,
            1.0,
            id="a running job does not rise, however long it waited",
        ),
        pytest.param(
            job("a", last_ran_s=1.0, spec={"priority": -1}), 1.0, 9e9, 1.0, id="nobody rises above its own priority"
        ),
    ],
)
def test_voda_14_demotion_and_promotion(the_job, queue, now_s, expected):
    view = cluster(jobs=[the_job], gpus=4, now_s=now_s, memory=remember(a=queue))
    kept = tiresias(view, TiresiasOptions()).memory.jobs
    entered = float(max(0, -the_job.spec.priority))
    assert kept.get(JobId("a"), {"queue": entered})["queue"] == expected


def test_voda_14_no_flip_flop_over_24_h():
    jobs = [job(name, needs=1) for name in "abc"]
    memory, now_s, cycles = PolicyMemory(), 0.0, 0
    changes: dict[JobId, list[float]] = {each.id: [] for each in jobs}
    served = 0.0
    while now_s < DAY_S:
        cycles += 1
        before = memory.jobs
        target = tiresias(cluster(jobs=jobs, gpus=1, now_s=now_s, memory=memory), TiresiasOptions())
        memory = target.memory
        for each in jobs:
            if (each.id in before) != (each.id in memory.jobs):
                changes[each.id].append(now_s)
        jobs = apply(jobs, target, now_s)
        until_s = min(DAY_S, target.wake_s if target.wake_s is not None else now_s + 600.0)
        served += (until_s - now_s) * sum(each.size for each in jobs)
        now_s = until_s
    assert served == pytest.approx(DAY_S)  # the GPU was never idle
    assert all(changes.values())  # every job sank at least once
    for moments in changes.values():
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        assert all(gap >= 3600.0 - 1 for gap in gaps)  # a threshold of service, or a wait of 8 runs, lies between
    assert cycles < 100


@pytest.mark.parametrize(
    ("jobs", "gpus", "now_s", "memory", "expected"),
    [
        pytest.param([job("a", on=["n1"])], 1, 600.0, PolicyMemory(), 3600.0, id="a running job reaches its threshold"),
        pytest.param([job("a", needs=4)], 4, 100.0, PolicyMemory(), 1000.0, id="so does one that starts now"),
        pytest.param([job("a", on=["n1"])], 1, 9e3, remember(a=1.0), None, id="in the last queue nothing is due"),
        pytest.param(
            [job("a", on=["n1"]), job("b", last_ran_s=100.0, waiting_since_s=50.0)],
            1,
            60.0,
            remember(b=1.0),
            850.0,
            id="a waiting job rises",
        ),
        pytest.param(
            [job("a", on=["n1"], started_s=3000.0, gpu_s_since_start=9.0, as_of_s=3200.0), job("b", needs=1)],
            1,
            3200.0,
            remember(a=1.0),
            3200.0 + 8 * 200.0,
            id="a job that is pushed out now will rise after 8 times the run it had",
        ),
        pytest.param([job("a", needs=9)], 4, 0.0, PolicyMemory(), None, id="nothing runs, nothing is due"),
    ],
)
def test_the_target_says_when_it_changes_by_itself(jobs, gpus, now_s, memory, expected):
    assert tiresias(cluster(jobs=jobs, gpus=gpus, now_s=now_s, memory=memory), TiresiasOptions()).wake_s == expected


def test_at_the_moment_it_named_the_answer_has_changed_even_on_a_clock_since_1970():
    epoch_s = 1.7e9 + 0.123
    running = job("a", needs=3, on=["n1"] * 3, submitted_s=epoch_s, as_of_s=epoch_s)
    first = tiresias(cluster(jobs=[running], gpus=3, now_s=epoch_s), TiresiasOptions(thresholds_gpu_s=(1000.0,)))
    assert first.wake_s is not None
    view = cluster(jobs=[running], gpus=3, now_s=first.wake_s, memory=first.memory)
    assert tiresias(view, TiresiasOptions(thresholds_gpu_s=(1000.0,))).memory == remember(a=1.0)


def test_no_room_is_an_empty_answer():
    view = replace(cluster(jobs=[job("a", needs=1)], gpus=1), reserved=1000)
    assert tiresias(view, TiresiasOptions()) == Target({}, whole="initial")


def test_memory_forgets_the_finished_keeps_the_suspended_and_passes_on_what_is_not_ours():
    suspended = job("s", phase=Phase.SUSPENDED)
    memory = PolicyMemory({JobId("gone"): {"queue": 1.0}, JobId("s"): {"queue": 1.0}}, {"other": 7.0}, 42.0)
    kept = tiresias(cluster(jobs=[suspended, job("a", needs=1)], gpus=1, memory=memory), TiresiasOptions()).memory
    assert kept == PolicyMemory({JobId("s"): {"queue": 1.0}}, {"other": 7.0}, 42.0)


def test_a_job_in_the_lower_queue_is_told_so():
    jobs = [job("a", needs=1), job("b", needs=1), job("c", needs=1)]
    target = tiresias(cluster(jobs=jobs, gpus=1, memory=remember(b=1.0)), TiresiasOptions())
    assert [target.because_of(JobId(name)).why for name in "abc"] == [Why.NEXT_IN_ORDER, Why.LOWER_QUEUE, Why.NO_ROOM]


def test_more_queues_and_no_promotion_are_a_matter_of_options():
    options = parse_options(
        TiresiasOptions, {"thresholds-gpu-s": "10,20,40", "promote-knob": "0"}, of="policy tiresias"
    )
    sunk = tiresias(cluster(jobs=[job("a", on=["n1"])], gpus=1, now_s=25.0, memory=remember(a=1.0)), options)
    assert sunk.memory == remember(a=2.0)
    waits = job("a", last_ran_s=1.0)
    assert tiresias(cluster(jobs=[waits], gpus=1, now_s=9e9, memory=sunk.memory), options).memory == remember(a=2.0)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(-2, 2), st.floats(0, 100)), max_size=12),
    gpus=st.integers(1, 16),
    seed=st.integers(0, 9),
)
def test_whole_requests_within_the_room_whatever_the_order_of_the_input(sizes, gpus, seed):
    jobs = [
        job(f"j{number}", needs=needs, first_started_s=first_s, spec={"priority": priority})
        for number, (needs, priority, first_s) in enumerate(sizes)
    ]
    target = tiresias(cluster(jobs=jobs, gpus=gpus), TiresiasOptions())
    assert sum(target.workers_by_job().values()) <= gpus
    assert all(target.workers_of(each.id) in (0, each.spec.workers_initial) for each in jobs)
    assert all(grant.floor == grant.workers for grant in target.grants.values())
    random.Random(seed).shuffle(jobs)
    assert tiresias(cluster(jobs=jobs, gpus=gpus), TiresiasOptions()) == target
