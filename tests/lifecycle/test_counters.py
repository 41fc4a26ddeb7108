"""Counters that grow while a job holds workers, and when failures are answered by another try."""

from typing import Any

import pytest

from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.lifecycle.counters import holding, service_rate, settled, suspended
from sterna.lifecycle.retry import back_off_s, failures_now, is_tried_again
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.resources import Resources
from sterna.model.workload import RestartPolicy

ONE_GPU = JobSpec(id=JobId("a"), submitted_s=0.0, request=Resources(gpu_milli=1000), workers_max=4)
HALF = JobSpec(id=JobId("a"), submitted_s=0.0, request=Resources(gpu_milli=500), workers_max=4)
NO_GPU = JobSpec(id=JobId("a"), submitted_s=0.0, request=Resources(cpu_milli=1000), workers_max=4)
PS = Worker(Role.PS, 0, NodeId("n1"))


def workers(count: int) -> tuple[Worker, ...]:
    return tuple(Worker(Role.WORKER, ordinal, NodeId("n1")) for ordinal in range(count))


def standing(*held: Worker, **values: Any) -> Standing:
    return Standing(seats=tuple(Seat(worker, "abcde") for worker in held), **values)


@pytest.mark.parametrize(("spec", "rate"), [(ONE_GPU, 3.0), (HALF, 1.5), (NO_GPU, 3.0)])
def test_gpus_are_served_or_workers_where_there_are_none_and_fixed_roles_count_for_nothing(spec, rate):
    assert service_rate(spec, (PS, *workers(3))) == rate
    counted = settled(standing(PS, *workers(3), as_of_s=10.0, gpu_s=5.0, ran_s=1.0), spec, 14.0)
    assert counted == {"as_of_s": 14.0, "gpu_s": 5.0 + 4 * rate, "gpu_s_since_start": 4 * rate, "ran_s": 5.0}


def test_nothing_grows_while_nothing_is_held_or_when_the_clock_went_back():
    assert settled(standing(as_of_s=10.0, ran_s=1.0), ONE_GPU, 99.0)["ran_s"] == 1.0
    assert settled(standing(*workers(1), as_of_s=10.0, ran_s=1.0), ONE_GPU, 5.0)["ran_s"] == 1.0


def test_a_start_a_resize_and_a_stop():
    begins = holding(standing(as_of_s=0.0), ONE_GPU, workers(2), 10.0, restart_s=3.0, comes_back=True)
    assert (begins["started_s"], begins["first_started_s"], begins["resumes_s"]) == (10.0, 10.0, 13.0)
    assert begins["waiting_since_s"] is None
    runs = standing(*workers(2), as_of_s=10.0, started_s=10.0, first_started_s=10.0)
    lets_go = holding(runs, ONE_GPU, (), 30.0, restart_s=0.0, comes_back=True)
    assert (lets_go["seat_s"], lets_go["started_s"], lets_go["last_ran_s"], lets_go["gpu_s"]) == (
        10.0,
        None,
        20.0,
        40.0,
    )
    stops = holding(runs, ONE_GPU, (), 30.0, restart_s=0.0, comes_back=False)
    assert (stops["seat_s"], stops["waiting_since_s"]) == (None, 30.0)
    back = standing(as_of_s=30.0, seat_s=10.0, first_started_s=10.0, gpu_s_since_start=40.0)
    again = holding(back, ONE_GPU, workers(4), 35.0, restart_s=0.0, comes_back=True)
    assert (again["started_s"], again["gpu_s_since_start"]) == (10.0, 40.0)  # its time in the seat went on


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        (RestartPolicy.NEVER, 137, False),
        (RestartPolicy.ON_FAILURE, 1, True),
        (RestartPolicy.ALWAYS, 1, True),
        (RestartPolicy.EXIT_CODE, 137, True),
        (RestartPolicy.EXIT_CODE, 1, False),
        (RestartPolicy.EXIT_CODE, None, True),
    ],
)
def test_what_is_tried_again(policy, code, again):
    assert is_tried_again(policy, code) == again


def test_failures_long_ago_are_forgiven_and_many_take_longer():
    assert failures_now(3, None, 0.0) == 4
    assert failures_now(3, 100.0, 699.0) == 4
    assert failures_now(3, 100.0, 700.0) == 1
    assert [back_off_s(count) for count in (1, 2, 3, 10)] == [1.0, 2.0, 4.0, 300.0]


def test_a_suspension_ends_the_time_in_the_seat_and_the_deadline_begins_anew():
    started = holding(standing(as_of_s=5.0), ONE_GPU, workers(1), 10.0, restart_s=0.0, comes_back=False)
    assert started["active_s"] == 10.0
    values = suspended(standing(*workers(1), active_s=10.0, started_s=10.0, as_of_s=10.0), ONE_GPU, 40.0)
    assert (values["active_s"], values["waiting_since_s"], values["seat_s"], values["started_s"]) == (None,) * 4
    assert values["gpu_s"] == 30.0
    again = holding(
        standing(as_of_s=40.0, first_started_s=10.0), ONE_GPU, workers(1), 90.0, restart_s=0.0, comes_back=False
    )
    assert (again["active_s"], again["first_started_s"]) == (90.0, 10.0)


def test_a_preemption_does_not_give_a_job_more_time():
    held = standing(as_of_s=40.0, first_started_s=10.0, active_s=10.0)
    assert holding(held, ONE_GPU, workers(1), 90.0, restart_s=0.0, comes_back=False)["active_s"] == 10.0
