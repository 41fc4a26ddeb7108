"""A week of a cluster in an hour; a short piece of it in CI, another one each time."""

import os
import random

import pytest

from tests.e2e.kubernetes.stage import Stage
from tests.soak.cluster_week import ClusterWeek

WEEK_S = float(os.environ.get("STERNA_WEEK_S") or 15.0)


@pytest.mark.slow
def test_r1_r3_r5_a_week_of_dying_operators_kubelets_and_api_servers_loses_no_verdict(stage: Stage):
    seed = int(os.environ.get("STERNA_SEED") or random.randrange(2**32))
    print(f"seed {seed}")
    week = ClusterWeek(stage, seed)
    week.live(WEEK_S)
    print(f"{week.jobs} jobs; {week.met}")
