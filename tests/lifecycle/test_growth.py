"""How a job is judged, and what is told when its growth changes."""

import pytest

from sterna.lifecycle.growth_news import JUDGE, growth_in_words, is_news, judge_of, judged_growth
from sterna.model.errors import InvalidRequest
from sterna.model.growth import Category, Growth
from sterna.model.judging import Judge
from sterna.model.workload import Contract, Workload
from tests.engines.contracts.jobs import job

WATCHED, CONVERGED = Growth(Category.WATCHING, 0.05), Growth(Category.CONVERGED, 0.0123)


@pytest.mark.parametrize(
    ("growth", "judged"),
    [
        pytest.param(Growth(since_s=5.0), False, id="one evaluation shows no growth"),
        pytest.param(Growth(score=0.0), True, id="two evaluations that are the same"),
        pytest.param(Growth(Category.CONVERGED), True, id="judged before, by other options: the category stays"),
    ],
)
def test_a_job_is_judged_once_there_is_a_score_or_another_category(growth, judged):
    assert judged_growth(growth) == (growth if judged else None)


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        pytest.param(None, None, False, id="nothing was judged"),
        pytest.param(None, Growth(score=0.4), False, id="that a job makes progress at first is no news"),
        pytest.param(None, WATCHED, True, id="it grows slowly from the first"),
        pytest.param(WATCHED, WATCHED._replace(score=0.04), False, id="another score is none"),
        pytest.param(CONVERGED, Growth(score=0.4), True, id="it grows again"),
    ],
)
def test_another_category_is_news(before, now, news):
    assert is_news(before, now) == news


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(
            {"metric": "loss", "value": 0.51234, "evaluations": 7, "threshold": 0.05},
            "loss hardly changes any more: it is 0.5123 after 7 evaluations, its score is 0.0123,"
            " the threshold is 0.05, it was Watching before",
            id="all that it was decided by",
        ),
        pytest.param(
            {},
            "its evaluation value hardly changes any more: its score is 0.0123, it was Watching before",
            id="the value stayed with its monitor",
        ),
    ],
)
def test_the_event_is_in_the_same_words_in_every_engine(known, expected):
    assert growth_in_words(CONVERGED, before=WATCHED, **known) == expected


def test_a_score_that_begins_anew_is_unknown():
    words = growth_in_words(Growth(), before=CONVERGED)
    assert words == "its evaluation value grows again: its score is unknown, it was Converged before"


def judged_by(text: str) -> Workload:
    return job("ElasticJob", Contract.DISCOVERY, annotations=((JUDGE, text),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", {"threshold": "0.2"}, id="nothing of its own"),
        pytest.param("mode=raw, confirmations=3", {"threshold": "0.2", "mode": "raw", "confirmations": "3"}, id="more"),
        pytest.param(" threshold = 0.3 ,", {"threshold": "0.3"}, id="its own goes before the usual"),
    ],
)
def test_a_job_may_say_how_it_is_judged(text, expected):
    assert judge_of(judged_by(text), {"threshold": "0.2"}) == Judge.of(expected)


@pytest.mark.parametrize("text", ["threshold", "threshhold=1", "threshold=often"])
def test_what_cannot_be_meant_is_refused(text):
    with pytest.raises(InvalidRequest):
        judge_of(judged_by(text), {})
