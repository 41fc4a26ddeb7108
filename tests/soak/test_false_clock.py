"""The clock that jumps, before anything is concluded from it."""

import subprocess
import sys
import time

import pytest

from tests.soak.false_clock import FalseClock

PROGRAM = """
import datetime, sys, time
for line in sys.stdin:
    began_s = time.monotonic()
    time.sleep(0.01)
    print(time.time(), datetime.datetime.now().timestamp(), time.monotonic(), time.monotonic() - began_s, flush=True)
"""


@pytest.mark.parametrize("offset_s", [0.0, -86_400.0, 86_400.0, -0.5])
def test_only_the_wall_clock_of_those_who_load_it_jumps_and_they_sleep_as_ever(tmp_path, offset_s):
    clock = FalseClock(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clock.environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        clock.step_to(offset_s)
        earliest_s, earliest_mono_s = time.time(), time.monotonic()
        process.stdin.write("now\n")
        process.stdin.flush()
        wall_s, date_s, mono_s, slept_s = map(float, process.stdout.readline().split())
        for seen_s in (wall_s, date_s):
            assert earliest_s <= seen_s - offset_s + 0.001 <= time.time() + 0.002
        assert earliest_mono_s <= mono_s <= time.monotonic()
        assert slept_s >= 0.01
