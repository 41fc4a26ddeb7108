"""All ranks of a launch begin with the same checkpoint, however skewed they come, or none of them trains."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from sterna.training.migrator.session import identity
from tests.needs import needs, seeds
from tests.training.migrator.workshop import PATIENCE_S, said_by

needs("torch")

SEED = int(os.environ.get("STERNA_SEED", "20260"))


def run(directory: Path, *launches: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What every rank of every launch said."""
    arguments = [str(directory), *map(json.dumps, launches)]
    said = said_by(directory, "ranks_of_a_launch.py", *arguments, patience_s=PATIENCE_S * len(launches))
    return [json.loads(line) for line in said.splitlines() if line.startswith(("[{", "[null"))]


@pytest.mark.parametrize("api", ["a", "b"])
def test_voda_44_ranks_with_skewed_starts_begin_with_the_same_parameters_at_the_same_step(tmp_path, api):
    chance = random.Random(SEED)
    plans = [{"ranks": 2, "api": api, "steps": 2, "skew_s": [0.0, 0.2]}]
    for _ in range(len(seeds(3))):
        ranks = chance.choice([2, 3, 4])
        skew_s = [round(chance.choice([0.0, chance.uniform(0, 0.5)]), 2) for _ in range(ranks)]
        plans.append({"ranks": ranks, "api": api, "steps": 2, "skew_s": skew_s})
    step, ended_with = 0, None
    for number, (plan, answers) in enumerate(zip(plans, run(tmp_path, *plans), strict=True)):
        message = f"seed {SEED}, launch {number}, {plan}: {answers}"
        assert {answer["resumed"] for answer in answers} == {number > 0}, message
        assert {answer["began_at"] for answer in answers} == {step}, message
        assert len({answer["began_with"] for answer in answers}) == 1, message
        assert ended_with is None or answers[0]["began_with"] == ended_with, message
        assert len({answer["ended_with"] for answer in answers}) == 1, message
        step, ended_with = step + 2, answers[0]["ended_with"]


def test_voda_44_replicas_that_nobody_synchronises_begin_alike(tmp_path):
    """Without a process group, and so without its broadcast: whoever misses the checkpoint stays different (M1)."""
    plan = {"ranks": 3, "api": "a", "steps": 0, "alone": True}
    first, second = run(tmp_path, {**plan, "skew_s": [0, 0, 0]}, {**plan, "skew_s": [0, 0.4, 0.1]})
    assert len({answer["began_with"] for answer in first}) == 3, "they are different from the start"
    assert {(answer["resumed"], answer["began_with"]) for answer in second} == {(True, first[0]["ended_with"])}


def test_voda_44_a_checkpoint_of_several_processes_is_loaded_by_one_and_back(tmp_path):
    many = {"ranks": 2, "api": "a", "steps": 1, "skew_s": [0, 0]}
    one = {"ranks": 1, "api": "a", "steps": 1, "skew_s": [0], "alone": True}
    first, second, third = run(tmp_path, many, one, many)
    assert (second[0]["began_at"], second[0]["began_with"]) == (1, first[0]["ended_with"])
    assert {(answer["began_at"], answer["began_with"]) for answer in third} == {(2, second[0]["ended_with"])}


def test_voda_44_if_one_rank_does_not_come_nobody_trains_and_the_next_launch_resumes(tmp_path):
    whole = {"ranks": 2, "api": "a", "steps": 1, "skew_s": [0, 0]}
    lame = {**whole, "ranks": 3, "skew_s": [0, 0, 0], "dies": 2, "alone": True, "meet_s": 2}
    first, second, third = run(tmp_path, whole, lame, whole)
    assert [answer and answer.get("failed") for answer in second] == ["NotEverybodyCame", "NotEverybodyCame", None]
    assert "every rank must ask migrator.resume" in second[0]["why"]
    assert {(answer["resumed"], answer["began_with"]) for answer in third} == {(True, first[0]["ended_with"])}


@pytest.mark.parametrize(
    ("said", "environment", "expected"),
    [
        pytest.param(None, {}, (0, 1), id="a program on its own"),
        pytest.param(None, {"RANK": "2", "WORLD_SIZE": "4"}, (2, 4), id="as the operator or torchrun says"),
        pytest.param(3, {"RANK": "1", "WORLD_SIZE": "2"}, (3, 4), id="the program knows better"),
        pytest.param(0, {}, (0, 1), id="the program says that it is the first"),
    ],
)
def test_voda_44_which_rank_this_is(said, environment, expected):
    who = identity(said, environment)
    assert (who.rank, who.world_size) == expected
