"""Time that nobody can move by setting a clock."""

import asyncio
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.local.process.clock import Anchor, Timeline, anchored
from tests.engines.local.lab import config, fresh_home, running, swept, toy

TEN_MINUTES_S = 600.0


class FakeClock:
    def __init__(self, wall_s: float = 1_700_000_000.0, mono_s: float = 50.0) -> None:
        self.wall_s, self.mono_s = wall_s, mono_s

    def wall(self) -> float:
        return self.wall_s

    def mono(self) -> float:
        return self.mono_s


class JumpingClock:
    """The machine's monotonic clock, and a wall clock that is ten minutes off in either direction at each look."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def wall(self) -> float:
        return time.time() + self._chance.uniform(-TEN_MINUTES_S, TEN_MINUTES_S)

    def mono(self) -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC)


passing = st.lists(
    st.tuples(
        st.floats(0, 1000),  # what really passes
        st.floats(-TEN_MINUTES_S, TEN_MINUTES_S),  # what somebody does to the wall clock
        st.booleans(),  # whether the engine is started again
    ),
    max_size=20,
)


@given(passing)
def test_r8_a_timeline_shows_what_passed_whatever_is_done_to_the_wall_clock(steps):
    clock = FakeClock()
    anchor = anchored(clock, boot="b", previous=None, latest_s=0.0)
    begun, passed = Timeline(clock, anchor).now(), 0.0
    for real_s, jump_s, restart in steps:
        clock.mono_s += real_s
        clock.wall_s += real_s + jump_s
        passed += real_s
        if restart:
            anchor = anchored(clock, boot="b", previous=anchor, latest_s=0.0)
        assert Timeline(clock, anchor).now() - begun == pytest.approx(passed, abs=1e-3)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e5))
def test_r8_a_machine_that_was_booted_again_never_goes_back_in_time(jump_s, mono_s):
    clock = FakeClock()
    anchor = anchored(clock, boot="one", previous=None, latest_s=0.0)
    latest_s = Timeline(clock, anchor).now() + 100.0
    after = FakeClock(clock.wall_s + jump_s, mono_s)
    fresh = anchored(after, boot="two", previous=anchor, latest_s=latest_s)
    assert Timeline(after, fresh).now() == max(latest_s, after.wall_s)


def test_moments_and_the_monotonic_clock_translate_both_ways():
    line = Timeline(FakeClock(), Anchor("b", 1000.0, 50.0))
    assert line.moment_of(60.0) == 1010.0
    assert line.mono_of(1010.0) == 60.0


def test_r8_a_wall_clock_that_jumps_ends_no_job_and_shortens_no_grace():
    async def story() -> None:
        home = fresh_home()
        policy = "runPolicy: {activeDeadlineSeconds: 300, ttlSecondsAfterFinished: 300}"
        try:
            async with running(config(home, clock=JumpingClock(1)), stop_jobs=False) as engine:
                await engine.submit(toy("a", steps=60, spec=policy))
                await engine.until_step("a", 5)
            async with running(config(home, clock=JumpingClock(2))) as engine:
                job = await engine.until_phase("a", "Succeeded", "Failed")
                assert (job["phase"], job["restarts"]) == ("Succeeded", 0)
                assert 0 < job["totalSeconds"] < 60
                moments = [event["at"] for event in await engine.scheduler.events()]
                assert moments == sorted(moments)
                assert [found["name"] for found in await engine.scheduler.jobs()] == ["a"]
        finally:
            await swept(home)

    asyncio.run(story())
