"""How often a job may be moved, and what a move is worth."""

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Disruption, Role, Worker
from sterna.model.why import Because, Why
from sterna.placement.rebalancers.budget import BudgetOptions, Ledger
from sterna.placement.rebalancers.cost import CostMode, CostOptions, pause_s, time_left_s
from sterna.placement.rebalancers.forecast import ends_s, fair_shares
from sterna.placement.rebalancers.scene import Unit
from tests.placement.rebalancers.worlds import task

BUDGET = BudgetOptions()


def unit(*nodes: str, **more) -> Unit:
    made = task("j", *nodes, **more)
    return Unit(made, made.workers)


def kept_by(ledger: Ledger) -> dict[JobId, Mapping[str, float]]:
    return ledger.kept(BUDGET)


def why_not(ledger: Ledger, unit: Unit) -> Because:
    because = ledger.why_not(unit, BUDGET)
    assert because is not None
    return because


def test_what_a_ledger_keeps_says_the_same_in_the_next_cycle():
    first = Ledger([unit("a").job], {}, 1000.0)
    first.note(unit("a"))
    second = Ledger([unit("b").job], kept_by(first), 1002.0)
    assert why_not(second, unit("b")).why is Why.RESTING
    assert not second.may_go(unit("b"), NodeId("a"), BUDGET)
    assert second.may_go(unit("b"), NodeId("c"), BUDGET)
    third = Ledger([unit("b").job], kept_by(second), 1600.0)
    assert third.why_not(unit("b"), BUDGET) is None
    assert third.may_go(unit("b"), NodeId("a"), BUDGET)


def test_moves_of_one_hour_are_counted_by_job():
    memory: dict[JobId, Mapping[str, float]] = {}
    for turn in range(6):
        ledger = Ledger([unit("a").job], memory, 1000.0 + turn)
        worker = Worker(Role.WORKER, turn, NodeId("a"))
        assert ledger.why_not(Unit(unit("a").job, (worker,)), BUDGET) is None
        ledger.note(Unit(unit("a").job, (worker,)))
        memory = kept_by(ledger)
    fresh = Unit(unit("a").job, (Worker(Role.WORKER, 9, NodeId("a")),))
    assert why_not(Ledger([fresh.job], memory, 1010.0), fresh).numbers[0] == ("moves_in_the_last_hour", 6)
    assert Ledger([fresh.job], memory, 4601.5).why_not(fresh, BUDGET) is None


def test_moves_that_somebody_asked_for_count_as_well():
    moved = tuple(Disruption(900.0 + each, "migration", 1.0) for each in range(6))
    often = unit("a", disruptions=(*moved, Disruption(950.0, "resize", 1.0)))
    assert why_not(Ledger([], {}, 1000.0), often).why is Why.RESTING
    assert Ledger([], {}, 10_000.0).why_not(often, BUDGET) is None


def test_jobs_that_are_gone_are_forgotten():
    ledger = Ledger([unit("a").job], {}, 1.0)
    ledger.note(unit("a"))
    assert set(kept_by(ledger)) == {"j"}
    assert Ledger([], kept_by(ledger), 2.0).kept(BUDGET) == {}


def test_a_move_of_a_whole_job_is_one_disruption():
    ledger = Ledger([unit("a", "a", "a").job], {}, 5.0)
    ledger.note(unit("a", "a", "a"))
    assert [key for key in kept_by(ledger)[JobId("j")] if "/hour/" in key] == ["rebalancing/hour/0"]


@pytest.mark.parametrize(
    ("mode", "checkpoint_s", "restart_s", "expected"),
    [
        pytest.param(CostMode.FULL, 4.0, 6.0, 10.0, id="as measured"),
        pytest.param(CostMode.FULL, 0.0, 0.0, 5.0, id="nobody measured it"),
        pytest.param(CostMode.OFF, 4.0, 6.0, 0.0, id="no cost model"),
    ],
)
def test_the_pause_of_a_move(mode, checkpoint_s, restart_s, expected):
    job = task("j", "a", checkpoint_s=checkpoint_s, restart_s=restart_s)
    assert pause_s(job, CostOptions(mode=mode)) == expected


def test_time_left_reaches_no_further_than_the_horizon():
    assert time_left_s(task("j", "a", left=50.0), 0.0, CostOptions()) == 50.0
    assert time_left_s(task("j", "a", left=5000.0), 0.0, CostOptions()) == 600.0
    assert time_left_s(task("j", "a", left=None), 0.0, CostOptions(horizon_s=90.0)) == 90.0


@pytest.mark.parametrize(
    ("demands", "times_s", "expected"),
    [
        pytest.param([4, 4], [10, 10], [20, 20], id="two that want it all take twice as long"),
        pytest.param([4, 4], [10, 30], [20, 40], id="the longer one is alone once the other has ended"),
        pytest.param([1, 4], [10, 10], [10, 12.5], id="the modest one is not slowed"),
        pytest.param([1, 1, 1], [10, 20, 30], [10, 20, 30], id="enough for everybody"),
        pytest.param([0, 4], [10, 10], [10, 10], id="who uses nothing is in nobody's way"),
        pytest.param([4, 4], [0, 10], [0, 10], id="who has ended is in nobody's way"),
        pytest.param([], [], [], id="nobody"),
    ],
)
def test_when_workers_that_share_four_cpus_end(demands, times_s, expected):
    assert ends_s(4, demands, times_s) == pytest.approx(expected)


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 8), st.floats(0, 1e3)), max_size=10),
)
def test_ends_are_those_of_a_node_watched_step_by_step(capacity, workers):
    demands, times_s = [demand for demand, _ in workers], [time_s for _, time_s in workers]
    assert ends_s(capacity, demands, times_s) == pytest.approx(watched(capacity, demands, times_s), rel=1e-6, abs=1e-6)


def watched(capacity: float, demands: Sequence[float], times_s: Sequence[float]) -> list[float]:
    """Whoever ends next ends, shares are given out anew, and so on."""
    ends, left_s, now_s = list(times_s), dict(enumerate(times_s)), 0.0
    there = [at for at, demand in enumerate(demands) if demand and times_s[at]]
    while there:
        shares = fair_shares(capacity, [demands[at] for at in there])
        paces = {at: share / demands[at] for at, share in zip(there, shares, strict=True)}
        first = min(there, key=lambda at: left_s[at] / paces[at])
        step_s = left_s[first] / paces[first]
        now_s += step_s
        for at in there:
            left_s[at] -= paces[at] * step_s
        ends[first] = now_s
        there.remove(first)
    return ends


def test_on_a_node_without_cpu_nothing_ends():
    assert ends_s(0, [1, 1], [1, 2]) == [math.inf, math.inf]


@given(st.integers(0, 10_000), st.lists(st.integers(0, 5_000), max_size=8))
def test_shares_are_fair(capacity, demands):
    shares = fair_shares(capacity, demands)
    assert sum(shares) <= min(capacity, sum(demands)) + 1e-6
    assert sum(shares) >= min(capacity, sum(demands)) - 1e-6
    for share, demand in zip(shares, demands, strict=True):
        assert 0 <= share <= demand
        if share < demand - 1e-6:  # whoever is short has no less than anybody else
            assert share >= max(shares) - 1e-6
