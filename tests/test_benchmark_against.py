"""When a commit counts as slower than another one: beyond 5 % and beyond what the pairs differ among themselves."""

import pytest
from benchmarks.against import BENCHMARKS, WHOLE, verdicts


def measured(*seconds: float) -> list[dict[str, float]]:
    return [{"a": one} for one in seconds]


@pytest.mark.parametrize(
    ("then", "now", "slower"),
    [
        pytest.param((1.0, 1.0, 1.0), (1.04, 1.04, 1.04), False, id="4 % is allowed"),
        pytest.param((1.0, 1.0, 1.0), (1.06, 1.06, 1.06), True, id="6 % without noise is slower"),
        pytest.param((1.0, 2.0, 4.0), (1.1, 2.2, 4.4), True, id="a machine that slows down slows down both of a pair"),
        pytest.param((1.0, 1.0, 1.0, 1.0), (0.9, 1.3, 1.0, 1.2), False, id="10 % within the noise is not slower"),
        pytest.param((1.0, 1.0, 1.0), (1.0, 9.0, 1.0), False, id="one bad pair does not matter"),
        pytest.param((1.0,), (1.2,), False, id="a single pair does not show its noise, so it proves nothing"),
        pytest.param((1.0, 1.0, 1.0), (1.14, 1.13, 1.0), False, id="two equal ones of three are no proof either"),
        pytest.param((1.0, 1.0, 1.0), (0.5, 0.5, 0.5), False, id="faster is not slower"),
    ],
)
def test_slower(then, now, slower):
    assert {verdict.slower for verdict in verdicts("x", measured(*then), measured(*now))} == {slower}


def test_the_whole_is_the_geometric_mean_of_the_measures():
    then = [{"a": 1.0, "b": 1.0}] * 3
    now = [{"a": 2.0, "b": 0.5}] * 3
    ratios = {verdict.measure: verdict.ratio for verdict in verdicts("x", then, now)}
    assert ratios == pytest.approx({WHOLE: 1.0, "a": 2.0, "b": 0.5})


def test_a_measure_that_one_commit_does_not_have_is_left_out():
    found = verdicts("x", [{"a": 1.0, "old": 1.0}], [{"a": 1.0, "new": 1.0}])
    assert [verdict.measure for verdict in found] == [WHOLE, "a"]


def test_less_is_better_in_every_measure():
    rows = [{"policy": "fifo", "nodes": 10, "running": 1, "queued": 2, "full_p50_ms": 3.0, "event_p50_ms": 1.0}]
    assert BENCHMARKS["decision"].measures({"rows": rows}) == {"fifo 10x3 full": 3.0, "fifo 10x3 event": 1.0}
    assert BENCHMARKS["simulator"].measures({"rows": [{"case": "c", "simulate_s": 2.0}]}) == {"c": 2.0}
    placed = BENCHMARKS["kubernetes"].measures({"sterna_per_s": 100.0, "first_decision_s": 2.0})
    assert placed == {"a pod placed": 0.01, "first decision": 2.0}
