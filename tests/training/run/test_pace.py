"""What a save in the background costs the steps beside it: measured, told from chance, and paid for by saving less."""

import pytest

from sterna.training.progress import Progress


def slowdown(monkeypatch: pytest.MonkeyPatch, alone_s: list[float], beside_s: list[float]) -> float:
    """Of a run whose steps take so long, first alone and then beside a save."""
    now_s = 0.0
    monkeypatch.setattr("sterna.training.progress.time.monotonic", lambda: now_s)
    progress = Progress()
    progress.began_step()
    for took_s in alone_s:
        now_s += took_s
        progress.counted_step()
    progress.beside_save()
    for took_s in beside_s:
        now_s += took_s
        progress.counted_step()
    return progress.slowed_down_s()


@pytest.mark.parametrize(
    ("alone_s", "beside_s", "expected"),
    [
        pytest.param([1.0] * 20, [1.5, 1.5, 1.0], 1.0, id="what they took longer, in all"),
        pytest.param([1.0] * 20, [1.0, 1.0], 0.0, id="steps that are not held up"),
        pytest.param([1.0] * 20, [0.8], 0.0, id="a save makes nothing faster"),
        pytest.param([0.5, 1.5] * 20, [1.5, 1.2], 0.0, id="no more than steps differ anyway"),
        pytest.param([1.0] * 20, [], 0.0, id="done before a step was"),
        pytest.param([], [2.0], 0.0, id="nothing to compare with"),
    ],
)
def test_how_much_a_save_slows_training_down(monkeypatch, alone_s, beside_s, expected):
    assert slowdown(monkeypatch, alone_s, beside_s) == pytest.approx(expected)


def test_the_steps_beside_a_save_are_no_measure_for_those_alone(monkeypatch):
    now_s = 0.0
    monkeypatch.setattr("sterna.training.progress.time.monotonic", lambda: now_s)
    progress = Progress()
    progress.began_step()
    for beside in (False, True) * 10:
        if beside:
            progress.beside_save()
        for _ in range(10):
            now_s += 3.0 if beside else 1.0
            progress.counted_step()
        if beside:
            assert progress.slowed_down_s() == pytest.approx(20.0)
