"""A week of a local engine in an hour; a quarter of a minute of it in CI, another one each time."""

import os
import random

import pytest

from tests.e2e.up import running
from tests.soak.false_clock import FalseClock
from tests.soak.local_week import LocalWeek
from tests.soak.small_disk import small_disk

WEEK_S = float(os.environ.get("STERNA_WEEK_S") or 15.0)
OPTIONS = ("--nodes", "3", "--gpus-per-node", "4", "--rate-limit", "0.2s", "--monitor")


@pytest.mark.slow
def test_r1_r5_r8_a_week_of_kills_full_disks_and_jumping_clocks_loses_no_verdict(tmp_path):
    seed = int(os.environ.get("STERNA_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201
    clock = FalseClock(tmp_path)
    with (
        small_disk(tmp_path / "disk", mib=64) as disk,
        running(disk.root / "home", *OPTIONS, environment=clock.environment) as engine,
    ):
        week = LocalWeek(engine, tmp_path, disk, clock, seed)
        week.live(WEEK_S)
        week.leave_nothing()
    print(f"{week.jobs} jobs; {week.met}")  # noqa: T201
