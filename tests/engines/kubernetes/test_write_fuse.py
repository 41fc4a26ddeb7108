"""No object is written without end: a budget that fills up again, and pauses once it is used up. On a clock in hand."""

import asyncio
from bisect import bisect_left
from typing import Any

import pytest

from sterna.engines.kubernetes.apiserver.fused_api import FusedApi
from sterna.engines.kubernetes.apiserver.objects import KubeObject
from sterna.engines.kubernetes.apiserver.port import (
    ELASTIC_JOBS,
    EVENTS,
    LEASES,
    PODS,
    SERVICES,
    TOKEN_REVIEWS,
    TooOften,
)
from sterna.engines.kubernetes.apiserver.write_fuse import (
    BURST,
    OBJECTS_MAX,
    PAUSE_MAX_S,
    REFILL_S,
    WriteFuse,
    Written,
)

JOB = Written(ELASTIC_JOBS, "ns", "job", "status")


class HandClock:
    now_s = 0.0

    def wall(self) -> float:
        return self.now_s

    def mono(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Recording:
    """An API that answers everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def __getattr__(self, verb: str) -> Any:
        async def asked(*given: Any, **named: Any) -> KubeObject:
            self.asked.append((verb, given))
            return KubeObject()

        return asked


def fought(fuse: WriteFuse, clock: HandClock, seconds: float, *, each_s: float = 0.01) -> list[float]:
    """Something undoes each write at once, and it is written again as soon as it may be: the moments of the writes."""
    moments, until_s = [], clock.now_s + seconds
    while clock.now_s < until_s:
        try:
            fuse.spend(JOB)
            moments.append(clock.now_s)
            clock.now_s += each_s
        except TooOften as error:
            clock.now_s += max(0.001, error.retry_after_s)
    return moments


def most_in_a_minute(moments: list[float]) -> int:
    return max(bisect_left(moments, begin_s + 60.0) - number for number, begin_s in enumerate(moments))


@pytest.mark.parametrize("each_s", [0.001, 0.01, 0.1, 0.9], ids=lambda each_s: f"a write takes {each_s:g} s")
def test_6_a_fight_is_bounded_in_its_first_minute_and_for_hours(each_s):
    clock = HandClock()
    moments = fought(WriteFuse(clock), clock, 2 * 3600.0, each_s=each_s)
    assert most_in_a_minute(moments) <= BURST + 60.0 / REFILL_S + 1
    assert len(moments) <= BURST + 2 * 3600.0 / REFILL_S + 1
    assert moments[-1] > 2 * 3600.0 - 2 * PAUSE_MAX_S  # and it is never given up


def test_6_the_fuse_says_so_once_until_it_is_whole_again(caplog):
    clock = HandClock()
    fuse = WriteFuse(clock)
    with caplog.at_level("WARNING"):
        fought(fuse, clock, 20.0)
        assert [record.getMessage() for record in caplog.records] == ["object is written too often"]
        assert fuse.blown == 1
        assert fuse.held_back >= 2
        clock.now_s += BURST * REFILL_S
        fuse.spend(JOB)
        assert fuse.blown == 1
        fought(fuse, clock, 20.0)
    assert fuse.blown == 2
    assert len(caplog.records) == 2


def test_6_work_as_it_goes_never_meets_it():
    clock = HandClock()
    fuse = WriteFuse(clock)
    for _ in range(60):  # ten times as much as a job of 40 workers that is scaled as often as it goes
        for _ in range(40):
            fuse.spend(JOB)
        clock.now_s += 60.0
    assert (fuse.blown, fuse.held_back) == (0, 0)


def test_6_objects_do_not_share_a_budget_and_neither_do_the_parts_of_one():
    fuse = WriteFuse(HandClock())
    for _ in range(BURST):
        fuse.spend(JOB)
    with pytest.raises(TooOften, match="ElasticJob ns/job \\(status\\)"):
        fuse.spend(JOB)
    for other in (JOB._replace(name="other"), JOB._replace(namespace="other"), JOB._replace(part="deletion")):
        fuse.spend(other)


def test_6_what_is_remembered_is_bounded_and_what_rests_is_forgotten():
    clock = HandClock()
    fuse = WriteFuse(clock)
    for number in range(OBJECTS_MAX + 500):
        fuse.spend(JOB._replace(name=f"job-{number}"))
    assert len(fuse) == OBJECTS_MAX
    clock.now_s += 3600.0
    for number in range(OBJECTS_MAX):
        fuse.spend(JOB._replace(name=f"again-{number % 100}"))
    assert len(fuse) <= 102


def test_6_a_clock_that_goes_back_frees_nothing_and_breaks_nothing():
    clock = HandClock()
    clock.now_s = 1000.0
    fuse = WriteFuse(clock)
    fuse.spend(JOB)
    clock.now_s = 0.0
    fuse.spend(JOB)


WRITES: dict[str, Any] = {
    "a create": lambda api: api.create(PODS, {"metadata": {"name": "a"}}, namespace="ns", shape=KubeObject),
    "a patch": lambda api: api.patch(SERVICES, "a", {}, namespace="ns", shape=KubeObject),
    "a status": lambda api: api.patch(ELASTIC_JOBS, "a", {}, namespace="ns", subresource="status", shape=KubeObject),
    "a replacement": lambda api: api.replace(SERVICES, "a", {}, namespace="ns", shape=KubeObject),
    "a deletion": lambda api: api.delete(PODS, "a", namespace="ns", uid="u"),
    "a binding": lambda api: api.bind("a", namespace="ns", node="n"),
}
UNCOUNTED: dict[str, Any] = {
    "an event has a budget of its own": lambda api: api.patch(EVENTS, "a", {}, namespace="ns", shape=KubeObject),
    "a lease is renewed whatever happens": lambda api: api.patch(LEASES, "a", {}, namespace="ns", shape=KubeObject),
    "a review makes nothing": lambda api: api.create(TOKEN_REVIEWS, {}, shape=KubeObject),
    "a try makes nothing": lambda api: api.create(PODS, {}, namespace="ns", shape=KubeObject, dry_run=True),
    "a reading is no write": lambda api: api.get(PODS, "a", namespace="ns", shape=KubeObject),
}


async def _often(write: Any, times: int) -> tuple[Recording, int]:
    server: Any = Recording()
    api, refused = FusedApi(server, WriteFuse(HandClock())), 0
    for _ in range(times):
        try:
            await write(api)
        except TooOften:
            refused += 1
    return server, refused


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_6_every_write_passes_the_fuse_and_what_it_refuses_is_not_sent(write):
    server, refused = asyncio.run(_often(write, BURST + 10))
    assert (len(server.asked), refused) == (BURST, 10)


@pytest.mark.parametrize("ask", UNCOUNTED.values(), ids=UNCOUNTED)
def test_6_what_is_not_counted(ask):
    server, refused = asyncio.run(_often(ask, BURST + 10))
    assert (len(server.asked), refused) == (BURST + 10, 0)
