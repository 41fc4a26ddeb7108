"""A run that was stopped and started again ends with the same bits as one that was not."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from tests.training.run.gang import Gang
from tests.training.run.programs import torch_alone

STEPS = 48  # two epochs of 24


def straight(tmp_path: Path, kind: str) -> Any:
    (result,) = Gang.started(tmp_path / "straight", torch_alone, 2, kind).results()
    assert (result["step"], result["restored"]) == (STEPS, None)
    return result


@pytest.mark.parametrize("kind", ["shuffled", "own generator", "workers", "sampler", "shards"])
def test_voda_46_three_migrations_in_two_epochs_change_not_one_bit(tmp_path, kind):
    needs("torch")
    moments = sorted(random.Random(kind).sample(range(1, STEPS), 3))
    for incarnation, moment in enumerate(moments):
        (result,) = Gang.started(tmp_path, torch_alone, 2, kind, moment, incarnation=incarnation).results()
        assert result["restored"] == (moments[incarnation - 1] if incarnation else None)
        assert (result["step"], result["stopped"]) == (moment, True)
    (result,) = Gang.started(tmp_path, torch_alone, 2, kind, incarnation=3).results()
    assert result["restored"] == moments[-1]
    assert result["step"] == STEPS
    assert result["losses"] == STEPS
    assert result["hash"] == straight(tmp_path, kind)["hash"], f"stopped after {moments} steps"


def test_without_the_state_of_chance_it_would_not_be_exact(tmp_path):
    """So that the test above is known to notice."""
    needs("torch")
    Gang.started(tmp_path, torch_alone, 2, "shards", 11, False).results()
    (result,) = Gang.started(tmp_path, torch_alone, 2, "shards", None, False, incarnation=1).results()
    assert (result["restored"], result["step"]) == (11, STEPS)
    assert result["hash"] != straight(tmp_path, "shards")["hash"]
