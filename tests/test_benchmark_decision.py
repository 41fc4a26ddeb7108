"""The benchmark of decisions fails when its stated limits are exceeded by more than half."""

import pytest
from benchmarks import decision

LIMITS = {"full_p50_ms": 1.0, "full_p99_ms": 250.0, "event_p50_ms": 1.0, "event_p99_ms": 50.0}


def row(shape: tuple[int, int, int] = decision.HELD_TO, **times_ms: float) -> decision.Row:
    nodes, running, queued = shape
    return decision.Row("fifo", nodes, running, queued, **{**LIMITS, **times_ms})


@pytest.mark.parametrize(
    ("found", "says"),
    [
        pytest.param(row(), [], id="at its limits"),
        pytest.param(row(full_p99_ms=375.0, event_p99_ms=75.0), [], id="above them by half"),
        pytest.param(row(full_p99_ms=376.0), ["full cycle"], id="a full cycle that takes longer still"),
        pytest.param(row(event_p99_ms=76.0), ["one-event"], id="a cycle after one event that does"),
        pytest.param(row((5_000, 2_000, 10_000), full_p99_ms=9_999.0), [], id="a shape without a limit"),
    ],
)
def test_dragon_50_limits_that_are_exceeded_by_more_than_half_are_told(found, says):
    lines = decision.exceeded([found])
    assert len(lines) == len(says)
    assert all(words in line for words, line in zip(says, lines, strict=True))


def test_dragon_50_a_measurement_of_one_policy_ends_with_an_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(decision, "HELD_TO", (10, 5, 20))
    monkeypatch.setattr("sys.argv", ["decision", "--quick", "--policies", "fifo", "--repeats", "1"])
    assert decision.main() == 0
    monkeypatch.setattr(decision, "ONE_EVENT_P99_MS", 1e-9)
    assert decision.main() == 1
    assert "exceeds its limit" in capsys.readouterr().out
