"""What every policy promises beside its own rule: work that is bounded by the room, and no wake-up in the past."""

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import scipy.optimize  # noqa: F401  (its import is no part of anybody's work below)
from tests.planner.lives import POLICIES, Case, decided, named, placements_of
from tests.random_worlds import random_world
from tests.worlds import cluster, job, node

from sterna.model.curves import SpeedupCurve
from sterna.model.ids import JobId
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory
from sterna.policies.registry import policy

MILLION = 1_000_000
KNOBS: list[Case] = [
    *POLICIES,
    ("las", {"promote-knob": "0.5"}),
    ("las", {"promote-knob": "2", "order": "insertion"}),
    ("las", {"promote-knob": "2", "service": "since-start"}),
    ("las", {"promote-knob": "1", "demote": "jump"}),
    ("tiresias", {"promote-knob": "0.5"}),
    ("elastic-tiresias", {"promote-knob": "0.5", "thresholds-gpu-s": "100,2000"}),
]


def calls_made_by(function: Callable[[], object]) -> int:
    """Counted and not timed, so that a slow machine does not matter."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("gpus", "cpus"), [(0, 1), (1, 1), (0, 0)], ids=["CPUs and no GPU", "a GPU and a CPU", "nothing"]
)
@pytest.mark.parametrize("linear", [False, True], ids=["flat beyond 4", "linear"])
@pytest.mark.parametrize("case", POLICIES, ids=named)
def test_a_job_that_may_grow_to_a_million_workers_costs_what_there_is_room_for(case, linear, gpus, cpus):
    """afs-l once held a tournament for each worker: 8.9 s for a job without GPUs."""
    big = job("big", at_most=MILLION, gpus_each=gpus, cpus_each=cpus, left=1e9, speedups=[1.0, 1.9, 2.7, 3.4])
    if linear:
        big = big.but(curve=SpeedupCurve.linear(MILLION))
    mate = job("mate", at_most=8, cpus_each=1, left=1e6, submitted_s=1.0)
    view = cluster(nodes=[node("n", gpus=8, cpus=16)], jobs=[big, mate], now_s=10.0)
    chosen = policy(*case)
    assert calls_made_by(lambda: chosen(view)) < 5_000
    if cpus:  # workers that take nothing at all do fit a million times
        for where in placements_of(case):
            assert calls_made_by(partial(decided, view, case, where)) < 50_000, where


def foreign_memory(chance: random.Random, view: Snapshot) -> PolicyMemory:
    """What any policy may have left behind, of any age."""
    keys = ("queue", "place", "forgiven", "looked_s", "waited_s")
    entries: dict[JobId, dict[str, float]] = {}
    for known in view.jobs:
        if chance.random() < 0.7:
            picked = chance.sample(keys, chance.randint(0, len(keys)))
            entries[known.id] = {key: float(chance.choice([0, 1, 2, 7, 90, 4000, view.now_s])) for key in picked}
    return PolicyMemory(entries, {}, chance.choice([None, 0.0, view.now_s]))


def aged(chance: random.Random, view: Snapshot) -> Snapshot:
    """Jobs that wait have run before, for some time and some service."""
    jobs = [
        known.but(last_ran_s=chance.choice([0.0, 3.0, 800.0]), gpu_s=float(chance.randrange(20_000)))
        if not known.workers
        else known
        for known in view.jobs
    ]
    return replace(view, jobs=tuple(jobs), now_s=chance.choice([view.now_s, 9_000.0, 1.7e9]))


@pytest.mark.parametrize("case", KNOBS, ids=named)
def test_no_policy_asks_to_be_woken_in_the_past_whatever_policy_ran_before_it(case):
    for seed in range(60):
        chance = random.Random(seed)
        view = aged(chance, random_world(seed))
        before = chance.choice(KNOBS)
        memories = [foreign_memory(chance, view), decided(view, before).memory]
        for memory in memories:
            seen = replace(view, memory=memory)
            wake_s = policy(*case)(seen).wake_s
            assert wake_s is None or wake_s > seen.now_s, f"seed {seed} after {named(before)}"
