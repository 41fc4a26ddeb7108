"""The conditions of a job: tables for what users know, sequences of random news for the rest."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.model.conditions import (
    TERMINAL,
    Condition,
    Conditions,
    ConditionType,
    Status,
    ended,
    is_true,
    said,
    with_condition,
)

CREATED, RUNNING, RESTARTING = ConditionType.CREATED, ConditionType.RUNNING, ConditionType.RESTARTING
SUSPENDED, SUCCEEDED, FAILED = ConditionType.SUSPENDED, ConditionType.SUCCEEDED, ConditionType.FAILED


def news(kind: ConditionType, status: Status = Status.TRUE, *, now_s: float = 0.0, **more) -> Condition:
    more.setdefault("reason", f"Job{kind}")
    more.setdefault("message", "")
    return said(kind, status, now_s=now_s, **more)


def told(*all_news: Condition) -> Conditions:
    conditions: Conditions = ()
    for each in all_news:
        conditions = with_condition(conditions, each)
    return conditions


def shown(conditions: Conditions) -> list[str]:
    return [f"{condition.type}={condition.status}" for condition in conditions]


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        pytest.param([CREATED, RUNNING], ["Created=True", "Running=True"], id="the newest stands last"),
        pytest.param([RUNNING, RESTARTING], ["Restarting=True"], id="restarting evicts running"),
        pytest.param([RESTARTING, RUNNING], ["Running=True"], id="running evicts restarting"),
        pytest.param([RUNNING, SUCCEEDED], ["Running=False", "Succeeded=True"], id="a job that ended runs no more"),
        pytest.param([RESTARTING, FAILED], ["Restarting=False", "Failed=True"], id="nor does it restart"),
        pytest.param([SUCCEEDED, FAILED, RUNNING], ["Succeeded=True"], id="the first ending wins"),
        pytest.param([RUNNING, SUSPENDED], ["Running=False", "Suspended=True"], id="a suspended job does not run"),
        pytest.param(
            [CREATED, SUSPENDED, RUNNING], ["Created=True", "Suspended=False", "Running=True"], id="nor the other way"
        ),
        pytest.param([RUNNING, CREATED, RUNNING], ["Running=True", "Created=True"], id="old news move nothing"),
    ],
)
def test_dragon_15_what_becomes_of_the_list(story, expected):
    assert shown(told(*map(news, story))) == expected


def test_dragon_15_the_same_news_later_change_nothing_at_all():
    once = told(news(CREATED), news(RUNNING, now_s=1))
    assert with_condition(once, news(CREATED, now_s=9)) == once


def test_dragon_15_another_reason_keeps_the_transition_time_and_moves_to_the_end():
    first = told(news(RUNNING, now_s=1), news(CREATED, now_s=2))
    again = with_condition(first, news(RUNNING, now_s=9, reason="WorkersAdded"))
    assert shown(again) == ["Created=True", "Running=True"]
    assert (again[-1].updated_s, again[-1].transition_s) == (9, 1)


def test_dragon_15_another_status_takes_the_new_transition_time():
    conditions = told(news(RUNNING, now_s=1), news(RUNNING, Status.FALSE, now_s=5))
    assert [(c.status, c.transition_s) for c in conditions] == [(Status.FALSE, 5)]


def test_dragon_15_being_turned_false_is_a_transition_with_the_reason_of_what_did_it():
    running = told(news(RUNNING, now_s=1), news(SUCCEEDED, now_s=7, reason="WorkerZeroDone"))[0]
    assert running == Condition(RUNNING, Status.FALSE, "WorkerZeroDone", "", 7, 7)


def test_dragon_15_the_observed_generation_follows_the_spec_without_any_other_change():
    once = told(news(RUNNING, now_s=1, generation=1))
    twice = with_condition(once, news(RUNNING, now_s=5, generation=2))
    assert twice == (once[0]._replace(observed_generation=2),)
    assert with_condition(twice, news(RUNNING, now_s=6, generation=1)) == twice


ANY_NEWS = st.builds(
    lambda kind, status, reason, generation: (kind, status, reason, generation),
    st.sampled_from(ConditionType),
    st.sampled_from(Status),
    st.sampled_from(["A", "B"]),
    st.integers(0, 3),
)


@given(st.lists(ANY_NEWS, max_size=25))
def test_dragon_15_no_sequence_of_news_breaks_the_rules(stories):
    conditions: Conditions = ()
    history = [conditions]
    for second, (kind, status, reason, generation) in enumerate(stories):
        fresh = said(kind, status, reason=reason, message="", now_s=float(second), generation=generation)
        conditions = with_condition(conditions, fresh)
        history.append(conditions)
        types = [condition.type for condition in conditions]
        assert len(set(types)) == len(types)
        assert sum(is_true(conditions, kind) for kind in (RUNNING, RESTARTING, SUSPENDED)) <= 1
        assert sum(is_true(conditions, kind) for kind in TERMINAL) <= 1
        assert not (ended(conditions) and is_true(conditions, RUNNING))
        assert all(condition.transition_s <= condition.updated_s <= second for condition in conditions)
        assert with_condition(conditions, fresh) == conditions
    for before, after in pairwise(history):
        assert_one_step(before, after)


def assert_one_step(before: Conditions, after: Conditions) -> None:
    if ended(before):
        assert after == before
    old = {condition.type: condition for condition in before}
    for condition in after:
        was = old.get(condition.type)
        if was is not None:
            assert (condition.transition_s == was.transition_s) or condition.status is not was.status
            assert condition.observed_generation >= was.observed_generation or condition[:4] != was[:4]
    unchanged = [condition.type for condition in after if condition == old.get(condition.type)]
    assert unchanged == [condition.type for condition in before if condition.type in unchanged]
