"""Least attained service: when jobs move down, in what order queues are walked, and what is remembered of them."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.phases import Phase
from sterna.model.target import PolicyMemory
from sterna.model.why import Why
from sterna.policies.las import Demote, LasOptions, Order, Service, least_attained_service
from sterna.policies.options import parse_options

POLLUX = LasOptions(thresholds_gpu_s=(57_600.0,), order=Order.INSERTION)
AFS = LasOptions(thresholds_gpu_s=(180_000.0,), order=Order.FIRST_START, service=Service.SINCE_START)
JUMP = LasOptions(demote=Demote.JUMP)


def seats(*queues: str) -> PolicyMemory:
    """`seats("ab", "c")`: a then b in the first queue, c in the second."""
    return PolicyMemory(
        {
            JobId(name): {"queue": float(number), "place": float(place)}
            for number, names in enumerate(queues)
            for place, name in enumerate(names)
        }
    )


def order_of(memory: PolicyMemory) -> list[str]:
    """The inverse: who is in each queue, from its head."""
    queues: list[list[tuple[float, str]]] = [[], [], []]
    for name, entry in memory.jobs.items():
        queues[int(entry["queue"])].append((entry["place"], name))
    return ["".join(name for _, name in sorted(queue)) for queue in queues]


def held(name: str, gpus: int, served: float, **more: Any) -> Job:
    """A job that runs on `gpus` and has had `served` GPU-seconds by second 1000."""
    more.setdefault("gpu_s_since_start", served)
    return job(name, needs=gpus, on=["n1"] * gpus, gpu_s=served, ran_s=served / gpus, as_of_s=1000.0, **more)


@pytest.mark.parametrize(
    ("jobs", "before", "options", "after"),
    [
        pytest.param([held("a", 1, 3249)], seats("a"), LasOptions(), ["a", "", ""], id="below its threshold it stays"),
        pytest.param([held("a", 2, 3250)], seats("a"), LasOptions(), ["", "a", ""], id="at it, it moves down"),
        pytest.param([held("a", 2, 7200)], seats("", "a"), LasOptions(), ["", "", "a"], id="and again at the next"),
        pytest.param(
            [held("a", 2, 9e9)], seats("", "", "a"), LasOptions(), ["", "", "a"], id="the last queue has no end"
        ),
        pytest.param(
            [held("a", 2, 9000)], seats("a"), LasOptions(), ["", "", "a"], id="past two thresholds, two queues"
        ),
        pytest.param([held("a", 2, 9000)], seats("a"), JUMP, ["", "a", ""], id="the jump moves one queue per look"),
        pytest.param(
            [job("a", needs=2, gpu_s=5000.0)], seats(), JUMP, ["a", "", ""], id="jump: a waiting job is not tested"
        ),
        pytest.param(
            [job("a", needs=2, gpu_s=5000.0)], seats(), LasOptions(), ["", "a", ""], id="a lost memory is made up for"
        ),
        pytest.param(
            [held("a", 1, 3250), job("b", needs=1), job("c", needs=1, gpu_s=4000.0)],
            seats("ab", "c"),
            LasOptions(),
            ["b", "ca", ""],
            id="whoever moves down goes to the tail",
        ),
        pytest.param([held("a", 2, 57_600)], seats("a"), POLLUX, ["", "a", ""], id="Pollux: 16 GPU-hours"),
        pytest.param(
            [held("a", 2, 400_000, gpu_s_since_start=179_999.0)],
            seats("a"),
            AFS,
            ["a", "", ""],
            id="AFS: since its start",
        ),
    ],
)
def test_attained_service_decides_the_queue(jobs, before, options, after):
    view = cluster(jobs=jobs, gpus=9, now_s=1000.0, memory=before)
    assert order_of(least_attained_service(view, options).memory) == after


@pytest.mark.parametrize(
    ("before", "options", "expected", "after"),
    [
        pytest.param(
            seats("abc"), LasOptions(), {"a": 2, "c": 1}, ["acb", "", ""], id="the one passed over goes behind"
        ),
        pytest.param(seats("abc"), POLLUX, {"a": 2, "c": 1}, ["abc", "", ""], id="Pollux: places are kept"),
        pytest.param(seats("cb", "a"), LasOptions(), {"c": 1, "b": 2}, ["cb", "a", ""], id="the first queue first"),
        pytest.param(seats("b"), LasOptions(), {"b": 2, "c": 1}, ["bca", "", ""], id="newcomers line up by arrival"),
        pytest.param(seats("cba"), AFS, {"a": 2, "c": 1}, None, id="AFS: by first start, never started last"),
    ],
)
def test_queues_are_walked_from_the_head(before, options, expected, after):
    jobs = [job("a", needs=2, first_started_s=5.0), job("b", needs=2), job("c", needs=1, submitted_s=1.0)]
    target = least_attained_service(cluster(jobs=jobs, gpus=3, now_s=9.0, memory=before), options)
    assert target.workers_by_job() == expected
    assert after is None or order_of(target.memory) == after


@pytest.mark.parametrize(
    ("jobs", "options", "expected"),
    [
        pytest.param([held("a", 4, 1250)], LasOptions(), 1500.0, id="exact: when the rest is used up"),
        pytest.param([held("a", 4, 3250)], LasOptions(), 1987.5, id="exact: the second threshold counts from 0 too"),
        pytest.param([held("a", 4, 1250)], JUMP, 1734.0, id="jump: floor((3250 - 312.5 s) / 4) from now"),
        pytest.param([held("a", 1, 3249.5)], JUMP, 1001.0, id="jump: never the same moment again"),
        pytest.param([job("a", needs=2)], LasOptions(), 2625.0, id="a job that starts now counts from now"),
        pytest.param([job("a", needs=2, gpu_s=1250.0)], LasOptions(), 2000.0, id="or from what it had before"),
        pytest.param([job("a", needs=2, gpu_s_since_start=9e4)], AFS, 91_000.0, id="AFS: but not since its start"),
        pytest.param([held("a", 4, 9e9)], LasOptions(), None, id="in the last queue nothing is due"),
    ],
)
def test_the_target_says_when_to_look_again(jobs, options, expected):
    assert least_attained_service(cluster(jobs=jobs, gpus=4, now_s=1000.0), options).wake_s == expected


def test_promotion_forgives_the_service_so_far():
    options = LasOptions(promote_knob=8.0)
    waits = job("a", needs=2, gpu_s=4000.0, ran_s=2000.0, waiting_since_s=100.0)
    blocker = job("b", needs=2, on=["n1"] * 2, gpu_s=1.0)
    too_early = least_attained_service(cluster(jobs=[waits, blocker], gpus=2, memory=seats("b", "a")), options)
    assert too_early.wake_s == pytest.approx((3250 - 1) / 2)  # the other's threshold comes before 100 + 8 x 2000
    view = cluster(jobs=[waits, blocker], gpus=2, now_s=16_100.0, memory=seats("", "a", "b"))
    risen = least_attained_service(view, options)
    assert order_of(risen.memory) == ["a", "", "b"]
    assert risen.workers_by_job() == {"a": 2}
    assert risen.wake_s == 16_100.0 + 3250 / 2  # its count begins anew
    running = job("a", needs=2, on=["n1"] * 2, gpu_s=4000.0, as_of_s=16_100.0)
    later = least_attained_service(cluster(jobs=[running], gpus=2, now_s=17_724.0, memory=risen.memory), options)
    assert order_of(later.memory) == ["a", "", ""]
    later = least_attained_service(cluster(jobs=[running], gpus=2, now_s=17_725.0, memory=later.memory), options)
    assert order_of(later.memory) == ["", "a", ""]


def test_without_the_knob_nobody_rises():
    waits = job("a", needs=2, gpu_s=4000.0, waiting_since_s=0.0)
    view = cluster(jobs=[waits], gpus=2, now_s=9e9, memory=seats("", "a"))
    assert order_of(least_attained_service(view, LasOptions()).memory) == ["", "a", ""]


def test_memory_forgets_the_finished_keeps_the_suspended_and_passes_on_what_is_not_ours():
    memory = PolicyMemory(seats("gs", "a").jobs, {"other": 7.0}, 42.0)
    jobs = [job("s", needs=1, phase=Phase.SUSPENDED), job("a", needs=1)]
    kept = least_attained_service(cluster(jobs=jobs, gpus=1, memory=memory), LasOptions()).memory
    assert order_of(kept) == ["s", "a", ""]
    assert (kept.values, kept.last_action_s) == ({"other": 7.0}, 42.0)


def test_a_job_in_a_lower_queue_is_told_so():
    jobs = [job("a", needs=2), job("b", needs=2), job("c", needs=2)]
    target = least_attained_service(cluster(jobs=jobs, gpus=2, memory=seats("ab", "c")), LasOptions())
    assert [target.because_of(JobId(name)).why for name in "abc"] == [Why.NEXT_IN_ORDER, Why.NO_ROOM, Why.LOWER_QUEUE]


@pytest.mark.parametrize("text", ["7200,3250", "10,10"])
def test_thresholds_must_ascend(text):
    with pytest.raises(InvalidRequest, match="ascending"):
        parse_options(LasOptions, {"thresholds-gpu-s": text}, of="policy las")


@settings(max_examples=80, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.floats(0, 9000)), max_size=10),
    gpus=st.integers(1, 12),
    options=st.sampled_from([LasOptions(), JUMP, POLLUX, AFS, LasOptions(promote_knob=2.0)]),
    seed=st.integers(0, 9),
)
def test_whole_requests_within_the_room_and_one_answer_for_every_order_of_the_input(shapes, gpus, options, seed):
    jobs = [
        held(f"j{number}", gpus, served) if runs else job(f"j{number}", needs=gpus, gpu_s=served)
        for number, (gpus, runs, served) in enumerate(shapes)
    ]
    target = least_attained_service(cluster(jobs=jobs, gpus=gpus, now_s=1000.0), options)
    assert sum(target.workers_by_job().values()) <= gpus
    assert all(target.workers_of(each.id) in (0, each.spec.workers_initial) for each in jobs)
    assert set(target.memory.jobs) == {each.id for each in jobs}
    assert target.wake_s is None or target.wake_s > 1000.0
    random.Random(seed).shuffle(jobs)
    assert least_attained_service(cluster(jobs=jobs, gpus=gpus, now_s=1000.0), options) == target
