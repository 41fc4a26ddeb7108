"""How often to save: what a table says, and what comes of it over hours of simulated training."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.training.state.interval import SaveInterval


def interval(*saves: tuple[float, float], min_s: float = 10.0, max_s: float = 600.0) -> float:
    paced = SaveInterval(min_s=min_s, max_s=max_s)
    for stall_s, save_s in saves:
        paced.saved(stall_s=stall_s, save_s=save_s)
    return paced.interval_s


@pytest.mark.parametrize(
    ("saves", "expected_s"),
    [
        pytest.param([], 10.0, id="before anything is known the first comes after the shortest interval"),
        pytest.param([(0.002, 0.5)], 10.0, id="saves that cost nothing are made as often as allowed"),
        pytest.param([(0.3, 2.0)], 30.0, id="a stall of 0.3 s is one percent of 30 s"),
        pytest.param([(20.0, 25.0)], 600.0, id="however long it stalls, no more than the longest interval is at risk"),
        pytest.param([(0.01, 1000.0)], 1500.0, id="a disk so slow that saves would queue up makes them rarer still"),
        pytest.param([(0.4, 1.0), (0.0, 1.0), (0.0, 1.0)], 10.0, id="a slow first one is forgotten"),
    ],
)
def test_the_interval_follows_what_saves_cost(saves, expected_s):
    assert interval(*saves) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("since_last_s", "step_s", "saving", "expected"),
    [
        pytest.param(9.9, 0.1, False, False, id="not yet"),
        pytest.param(10.0, 0.1, False, True, id="now"),
        pytest.param(999.0, 0.1, True, False, id="never while another is under way"),
        pytest.param(7.0, 700.0, False, True, id="steps of minutes: rather a little early than far too late"),
        pytest.param(4.0, 700.0, False, False, id="but not right after the last one"),
    ],
)
def test_due_at_a_boundary(since_last_s, step_s, saving, expected):
    assert SaveInterval().due(since_last_s=since_last_s, step_s=step_s, saving=saving) is expected


@pytest.mark.parametrize(
    "wrong", [{"stall_share": 0.0}, {"stall_share": 1.0}, {"min_s": -1.0}, {"min_s": 20.0, "max_s": 10.0}]
)
def test_bounds_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        SaveInterval(**wrong)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    step_s=st.floats(0.005, 30.0),
    stall_s=st.floats(0.0, 5.0),
    save_s=st.floats(0.01, 300.0),
    slowdown_s=st.floats(0.0, 1.0),
)
def test_training_stands_still_for_one_percent_at_most_and_little_is_ever_at_risk(step_s, stall_s, save_s, slowdown_s):
    """Simulated: every step takes step_s, every save stalls and is durable save_s later."""
    paced = SaveInterval()
    now_s, began_s, durable_s, saved_until_s = 0.0, 0.0, None, 0.0
    stalled_s = worst_loss_s = 0.0
    horizon_s = 40 * max(600.0, 2 * save_s)
    steps_at_once = max(1, int(1.0 / step_s))  # boundaries a second apart are near enough, and quicker to walk
    while now_s < horizon_s:
        now_s += step_s * steps_at_once
        if durable_s is not None and now_s >= durable_s:
            saved_until_s, durable_s = began_s, None
            paced.saved(stall_s=stall_s, save_s=save_s, slowdown_s=slowdown_s)
        worst_loss_s = max(worst_loss_s, now_s - saved_until_s)
        if paced.due(since_last_s=now_s - began_s, step_s=step_s, saving=durable_s is not None):
            assert durable_s is None
            began_s = now_s
            now_s += stall_s + slowdown_s
            stalled_s += stall_s + slowdown_s
            durable_s = began_s + save_s
    if (stall_s + slowdown_s) / 0.01 <= 600.0:  # else the longest interval is the stronger wish
        assert stalled_s <= 0.0101 * now_s + 2 * (stall_s + slowdown_s)  # the first, made before anything was known
    boundary_s = step_s * steps_at_once
    assert worst_loss_s <= max(600.0, 1.5 * save_s) + save_s + 2 * boundary_s + stall_s + slowdown_s + 1e-6
