"""What can be set about judging, and what a wrong setting is told."""

import math
from dataclasses import fields

import pytest

from sterna.model.errors import InvalidRequest
from sterna.model.judging import Judge, Merge, Mode, Rule


def test_the_documented_defaults():
    judge = Judge()
    assert (judge.threshold, judge.check_interval_s) == (0.1, 10.0)
    assert (judge.mode, judge.rule) == (Mode.NORMALISED, Rule.SPECON)
    assert judge == Judge.of({})


def test_every_option_can_be_set_by_text():
    settings = {
        "threshold": "0.25",
        "check-interval-s": "5",
        "mode": "relative",
        "rule": "loglinear",
        "merge": "latest",
        "median-of": "3",
        "over-checks": "4",
        "confirmations": "2",
        "settle_checks": "1",
        "window": "20",
        "per_cpu": "yes",
    }
    assert {name.replace("-", "_") for name in settings} == {entry.name for entry in fields(Judge)}
    assert Judge.of(settings) == Judge(
        0.25, 5.0, Mode.RELATIVE, Rule.LOGLINEAR, Merge.LATEST, 3, 4, 2, 1, window=20, per_cpu=True
    )


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        pytest.param("treshold", "0.1", "one of: .*threshold", id="a name that does not exist"),
        pytest.param("threshold", "a lot", "judge: threshold: 'a lot' .* a number", id="words for a number"),
        pytest.param("threshold", "-0.1", "at least 0", id="a threshold below nothing"),
        pytest.param("threshold", "nan", "not NaN", id="a threshold that is none"),
        pytest.param("mode", "rough", "one of: raw, normalised, relative", id="a mode that does not exist"),
        pytest.param("rule", "gut", "one of: specon, loglinear, compat", id="a rule that does not exist"),
        pytest.param("window", "2", "at least 3", id="two points are no fit"),
        pytest.param("window", "100000", "at most 100", id="a record must stay small"),
        pytest.param("median-of", "2.5", "a whole number", id="the median of two and a half"),
        pytest.param("median-of", "0", "at least 1", id="the median of nothing"),
        pytest.param("per-cpu", "maybe", "true or false", id="neither yes nor no"),
    ],
)
def test_a_wrong_setting_says_what_would_do(name, text, told):
    with pytest.raises(InvalidRequest, match=told):
        Judge.of({name: text})


@pytest.mark.parametrize("settings", [{"threshold": -1.0}, {"threshold": math.nan}, {"window": 2}, {"over_checks": 26}])
def test_a_judge_made_in_code_is_held_to_the_same_bounds(settings):
    with pytest.raises(InvalidRequest, match="judge: "):
        Judge(**settings)


def test_every_option_says_what_it_does():
    assert all(entry.metadata["doc"] for entry in fields(Judge))
