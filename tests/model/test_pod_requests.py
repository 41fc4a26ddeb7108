"""What a pod takes, from what its parts ask for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.model.pod_requests import InitContainer, PodLevel, beyond, larger, pod_request, smaller
from sterna.model.resources import NOTHING, Resources

amounts = st.builds(Resources, *(st.integers(0, 9),) * 4)
starting = st.builds(InitContainer, amounts, st.booleans())


def cpus(number: int) -> Resources:
    return Resources(number * 1000)


def first(number: int) -> InitContainer:
    return InitContainer(cpus(number))


def sidecar(number: int) -> InitContainer:
    return InitContainer(cpus(number), stays=True)


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        pytest.param([1, 2], [], 3, id="containers run together"),
        pytest.param([1], [first(2), first(3)], 3, id="init containers run one after the other, before the others"),
        pytest.param([4], [first(2), first(3)], 4, id="init containers that ask for less cost nothing"),
        pytest.param([1], [sidecar(2)], 3, id="a sidecar runs beside the containers"),
        pytest.param([1], [sidecar(2), first(3)], 5, id="a sidecar runs beside the init containers after it"),
        pytest.param([1], [first(3), sidecar(2)], 3, id="and not beside those before it"),
        pytest.param([0], [sidecar(1), first(5), sidecar(2)], 6, id="the most at any time counts, not the sum"),
        pytest.param([], [], 0, id="a pod without containers takes nothing"),
    ],
)
def test_containers_of_a_pod(containers: list[int], init: list[InitContainer], expected: int):
    assert pod_request(map(cpus, containers), init) == cpus(expected)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(({"cpu": 5}, {}), Resources(5000, 7, 1000), id="a request of the whole goes before the sum"),
        pytest.param(({"cpu": 1}, {}), Resources(1000, 7, 1000), id="also where it is less"),
        pytest.param(({"memory": 9}, {}), Resources(2000, 9, 1000), id="in each resource by itself"),
        pytest.param(({}, {"cpu": 8}), Resources(2000, 7, 1000), id="a limit does not, where a container asks"),
        pytest.param(({"nvidia.com/gpu": 4}, {}), Resources(2000, 7, 1000), id="a pod asks for no GPUs as a whole"),
        pytest.param(({}, {}), Resources(2000, 7, 1000), id="nothing said, nothing changed"),
    ],
)
def test_a_pod_may_ask_as_a_whole(level: tuple[Any, Any], expected: Resources):
    assert pod_request([Resources(2000, 7, 1000)], as_a_whole=PodLevel(*level)) == expected


def test_a_limit_of_the_whole_stands_in_where_no_container_asks():
    assert pod_request([NOTHING], as_a_whole=PodLevel({}, {"cpu": 8, "memory": 3})) == Resources(8000, 3)


def test_overhead_comes_on_top_of_everything():
    level = PodLevel({"cpu": 5}, {})
    assert pod_request([cpus(1)], [first(9)], as_a_whole=level, overhead=Resources(250, 4)) == Resources(5250, 4)


@given(containers=st.lists(amounts), init=st.lists(starting), overhead=amounts)
def test_a_pod_has_room_for_what_runs_at_any_moment(
    containers: list[Resources], init: list[InitContainer], overhead: Resources
):
    """The same told as a story: each moment of a pod's life, and the most of all."""
    moments, stayed = [], NOTHING
    for container in init:
        moments.append(stayed.plus(container.request))
        if container.stays:
            stayed = stayed.plus(container.request)
    for request in containers:
        stayed = stayed.plus(request)
    moments.append(stayed)
    expected = NOTHING
    for moment in moments:
        expected = larger(expected, moment.plus(overhead))
    assert pod_request(containers, init, overhead=overhead) == expected


@given(request=amounts, counted=amounts)
def test_what_is_counted_and_what_is_beyond_it_are_at_least_what_is_taken(request: Resources, counted: Resources):
    assert smaller(request, counted).plus(beyond(request, counted)) == request
    assert min(beyond(request, counted)) >= 0
