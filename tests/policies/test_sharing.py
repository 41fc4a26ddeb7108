"""Ways of sharing out that several policies have in common."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.phases import Phase
from sterna.model.resources import Currency
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant
from sterna.policies.sharing import (
    contenders,
    fill_in_order,
    price,
    smallest_size,
    spread_spare_room,
    whole_or_nothing,
)


@st.composite
def orders(draw: st.DrawFn) -> list[Job]:
    count = draw(st.integers(1, 8))
    jobs: list[Job] = []
    for at in range(count):
        least = draw(st.integers(1, 3))
        jobs.append(
            job(
                f"j{at}",
                at_least=least,
                at_most=least + draw(st.integers(0, 9)),
                step=draw(st.integers(1, 3)),
                gpus_each=draw(st.sampled_from([0, 0.5, 1, 1, 2])),
            )
        )
    return jobs


def with_room(jobs: list[Job], room: int) -> Snapshot:
    """A snapshot with so many milli-GPU to share out."""
    return replace(cluster(gpus=40, jobs=jobs), reserved=40_000 - room)


def dealt_one_step_at_a_time(order: list[Job], grants: dict[JobId, Grant], room: int) -> tuple[dict[JobId, int], int]:
    held = {name: grant.workers for name, grant in grants.items()}
    moved = True
    while moved:
        moved = False
        for each in order:
            spec = each.spec
            cost = spec.request.gpu_milli * spec.workers_step
            if spec.id in held and held[spec.id] + spec.workers_step <= spec.workers_max and cost <= room:
                held[spec.id] += spec.workers_step
                room -= cost
                moved = True
    return held, room


@settings(max_examples=150, deadline=None)
@given(order=orders(), room=st.integers(0, 40_000))
def test_spreading_in_bulk_equals_dealing_one_step_at_a_time(order, room):
    grants, left = whole_or_nothing(with_room(order, room), smallest_size)
    expected = dealt_one_step_at_a_time(order, grants, left)
    left = spread_spare_room([job for job in order if job.id in grants], grants, left, Currency.GPU)
    assert ({name: grant.workers for name, grant in grants.items()}, left) == expected


@settings(max_examples=100, deadline=None)
@given(order=orders(), room=st.integers(0, 40_000))
def test_filling_in_order_takes_the_largest_size_that_fits_each_time(order, room):
    grants = fill_in_order(with_room(order, room), np.arange(len(order)))
    for each in order:
        spec = each.spec
        grid = range(spec.workers_min, spec.workers_max + 1, spec.workers_step)
        best = max((size for size in grid if price(each, size, Currency.GPU) <= room), default=0)
        assert (grants[spec.id].workers if spec.id in grants else 0) == best
        room -= price(each, best, Currency.GPU)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        pytest.param(0, 0, id="nothing costs nothing, parameter servers included"),
        pytest.param(1, 5000, id="the first worker brings the parameter servers along"),
        pytest.param(3, 7000, id="further ones do not pay for them again"),
    ],
)
def test_fixed_roles_are_paid_once(workers, expected):
    with_ps = job("a", at_most=4, gpus_each=0, cpus_each=1, ps=2, ps_cpus=2)
    assert price(with_ps, workers, Currency.CPU) == expected


def test_suspended_jobs_take_no_part():
    view = cluster(gpus=4, jobs=[job("a"), job("b", phase=Phase.SUSPENDED)])
    assert [each.id for each in contenders(view)] == ["a"]
