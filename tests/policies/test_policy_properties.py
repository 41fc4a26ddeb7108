"""What every policy promises, in random worlds: bounds, room, and one answer for one world."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.jobs import Job
from sterna.model.phases import Phase
from sterna.policies.registry import ENTRIES, policy
from sterna.policies.sharing import price

Variants = list[tuple[str, dict[str, str]]]
WISHES = {"dragon"}  # its grants are wishes that placement settles; `tests/planner` looks at what comes of them
VARIANTS: Variants = [(entry.name, {}) for entry in ENTRIES if entry.name not in WISHES] + [
    ("fifo", {"order": "seat", "size": "max"}),
    ("fifo", {"strict": "true", "size": "initial"}),
    ("elastic-fifo", {"variant": "afs"}),
    ("srtf", {"size": "min"}),
    ("srsf", {"size": "initial"}),
    ("afs-l", {"variant": "voda"}),
    ("tiresias", {"promotion": "voda"}),
    ("elastic-tiresias", {"promotion": "voda"}),
]
ELASTIC = [(name, set_to) for name, set_to in VARIANTS if policy(name).entry.elastic and name != "optimus"]


def labels(variants: Variants) -> list[str]:
    return [" ".join([name, *(f"{key}={value}" for key, value in set_to.items())]) for name, set_to in variants]


ALL = pytest.mark.parametrize(("name", "set_to"), VARIANTS, ids=labels(VARIANTS))
GROWING = pytest.mark.parametrize(("name", "set_to"), ELASTIC, ids=labels(ELASTIC))


@st.composite
def jobs_of_all_kinds(draw: st.DrawFn) -> list[Job]:
    jobs: list[Job] = []
    phases: list[dict[str, Any]] = [{}, {}, {}, {"phase": Phase.SUSPENDED}]
    for at in range(draw(st.integers(0, 8))):
        least = draw(st.integers(1, 4))
        most = least + draw(st.sampled_from([0, 0, 1, 3, 7]))
        jobs.append(
            job(
                f"j{at}",
                at_least=least,
                at_most=most,
                initial=draw(st.integers(least, most)),
                step=draw(st.sampled_from([1, 1, 2, 3])),
                gpus_each=draw(st.sampled_from([0, 0.5, 1, 1, 1, 2])),
                submitted_s=float(draw(st.integers(0, 2))),
                left=draw(st.none() | st.sampled_from([0.0, 5.0, 5.0, 70.0, 1e6])),
                speedups=[count ** draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])) for count in range(1, most + 1)],
                on=["n1"] * draw(st.sampled_from([0, 0, least])),
                **draw(st.sampled_from(phases)),
            )
        )
    return jobs


@ALL
@settings(max_examples=25, deadline=None)
@given(jobs=jobs_of_all_kinds(), gpus=st.integers(0, 20), reserved=st.integers(0, 9000))
def test_voda_13_sizes_keep_their_bounds_and_the_room_is_never_oversold(name, set_to, jobs, gpus, reserved):
    view = replace(cluster(gpus=gpus, jobs=jobs, now_s=10.0), reserved=reserved)
    by_id = {each.id: each for each in view.jobs}
    target = policy(name, set_to)(view)
    for job_id, grant in target.grants.items():
        spec = by_id[job_id].spec
        assert grant.workers == spec.allowed_size(grant.workers) > 0
        assert spec.workers_min <= grant.floor <= grant.workers
        assert by_id[job_id].wants_workers
    spent = sum(price(by_id[job_id], grant.workers, view.currency) for job_id, grant in target.grants.items())
    assert spent <= view.capacity


@GROWING
@settings(max_examples=25, deadline=None)
@given(
    maxima=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    lefts=st.lists(st.sampled_from([5.0, 70.0, 1e6]), min_size=8, max_size=8),
    gpus=st.integers(1, 30),
)
def test_voda_13_no_gpu_stays_idle_while_a_job_could_use_it(name, set_to, maxima, lefts, gpus):
    jobs = [job(f"j{at}", at_most=most, left=lefts[at], submitted_s=at) for at, most in enumerate(maxima)]
    given_out = policy(name, set_to)(cluster(gpus=gpus, jobs=jobs)).workers_by_job()
    assert sum(given_out.values()) == min(gpus, sum(maxima))


@ALL
def test_voda_18_a_hundred_shuffles_of_the_input_give_one_answer(name, set_to):
    jobs = [
        job(
            f"j{at:02}",
            at_least=1 + at % 2,
            at_most=4,
            submitted_s=float(at % 3),
            left=[10.0, 10.0, 30.0, None][at % 4],
        )
        for at in range(12)
    ]
    answers = set()
    for seed in range(100):
        random.Random(seed).shuffle(jobs)
        target = policy(name, set_to)(cluster(gpus=14, jobs=jobs))
        answers.add(tuple(target.grants.items()))
    assert len(answers) == 1


@ALL
@settings(max_examples=8, deadline=None)
@given(jobs=jobs_of_all_kinds())
def test_no_jobs_and_no_room_are_answers_too(name, set_to, jobs):
    decide = policy(name, set_to)
    assert decide(cluster(gpus=4)).grants == {}
    view = cluster(gpus=4, jobs=[each for each in jobs if each.spec.request.gpu_milli], now_s=10.0)
    assert decide(replace(view, reserved=10**9)).workers_by_job() == {}
