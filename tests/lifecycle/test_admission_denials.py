"""How a job waits that admission does not let in: words, patience, pauses, and what is remembered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.lifecycle.admission_denials import (
    ASKED_WITHIN_S,
    FIRST_S,
    MOST_S,
    PATIENCE_S,
    WORDS_MAX,
    Answer,
    Denial,
    asked,
    cleaned,
    forgiven,
    given_back,
    in_words,
    is_due,
    let_in,
    may_ask,
    next_moment_s,
    refused,
    size_let_in,
)
from sterna.model.jobs import JobSpec
from tests.worlds import job


def spec_of(low: int, high: int, *, step: int = 1, ps: int = 0) -> JobSpec:
    return job("x", at_least=low, at_most=high, step=step, ps=ps).spec


@given(st.text())
def test_what_a_server_says_becomes_one_line_of_bounded_length_that_is_never_empty(text):
    words = cleaned(text)
    assert words
    assert len(words) <= WORDS_MAX
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in words)
    assert cleaned(words) == words


def test_a_job_that_is_refused_is_tried_for_a_while_and_the_first_words_stay():
    first = refused(None, "used: 1", 100.0, generation=3)
    assert (first.words, first.since_s, first.generation, first.tries) == ("used: 1", 100.0, 3, True)
    again = refused(first, "used: 2", 110.0, generation=3)
    assert again is first
    assert not is_due(again, 100.0 + PATIENCE_S - 1, PATIENCE_S)
    assert is_due(again, 100.0 + PATIENCE_S, PATIENCE_S)
    assert next_moment_s(again, PATIENCE_S) == 100.0 + PATIENCE_S
    assert not let_in(again).tries


@pytest.mark.parametrize(
    ("times", "most_s"),
    [
        pytest.param(0, FIRST_S, id="the first time"),
        pytest.param(1, 2 * FIRST_S, id="the second in a row waits twice as long"),
        pytest.param(3, 8 * FIRST_S, id="the fourth"),
        pytest.param(99, MOST_S, id="never longer than ten minutes"),
    ],
)
def test_pauses_double_and_jobs_that_were_denied_together_come_back_one_by_one(times, most_s):
    known = Denial("no", times=times, since_s=0.0)
    pauses = {given_back(known, 1000.0, size=0, identity=f"uid-{n}").until_s for n in range(20)}
    assert len(pauses) == 20
    assert all(until_s is not None and 0.75 * most_s <= until_s - 1000.0 <= most_s for until_s in pauses)
    twice = [given_back(known, 1000.0, size=0, identity="uid-1") for _ in range(2)]
    assert twice[0] == twice[1], "the same job waits the same time: nothing is left to chance"


def test_it_is_asked_again_when_its_time_is_over_or_its_owner_edits_it():
    known = given_back(refused(None, "no", 0.0, generation=1), 30.0, size=1, identity="uid")
    assert known.until_s is not None
    assert not may_ask(known, known.until_s - 1, generation=1)
    assert may_ask(known, known.until_s, generation=1)
    assert may_ask(known, 31.0, generation=2)
    assert not may_ask(None, 31.0, generation=2)


def test_a_job_that_would_be_let_in_asks_for_more_and_any_other_waits_longer():
    known = Denial("no", times=1, until_s=100.0, size=2, generation=1)
    free = asked(known, Answer(True), 100.0, generation=1, identity="uid")
    assert (free.in_force, free.times, may_ask(free, 999.0, generation=2)) == (False, 1, False)
    longer = asked(known, Answer(False, "still"), 100.0, generation=4, identity="uid")
    assert (longer.words, longer.times, longer.size, longer.in_force) == ("still", 2, 2, True)
    assert not may_ask(longer, 101.0, generation=4), "the edit was answered"
    assert refused(free, "still", 99.0, generation=1).times == 1, "what was before is still counted"


def test_what_takes_no_room_is_asked_within_two_minutes_however_often_the_answer_was_no():
    known = Denial("no", times=99, until_s=100.0, generation=1)
    later = asked(known, Answer(False, "still"), 100.0, generation=1, identity="uid")
    assert later.until_s is not None
    assert 100.0 < later.until_s <= 100.0 + ASKED_WITHIN_S


def test_the_past_is_forgotten_once_more_workers_train_than_were_let_in():
    over = Denial("no", times=2, size=2)
    assert forgiven(over, 2) is over
    assert forgiven(over, 3) is None
    held = over._replace(until_s=9.0)
    assert forgiven(held, 3) is held
    assert forgiven(None, 3) is None


@pytest.mark.parametrize(
    ("spec", "held", "got_in", "size"),
    [
        pytest.param(spec_of(3, 3), 3, 1, 0, id="a gang of a fixed size has no smaller one"),
        pytest.param(spec_of(1, 4), 4, 2, 2, id="as many as were let in"),
        pytest.param(spec_of(2, 8, step=2), 8, 7, 6, id="on its grid"),
        pytest.param(spec_of(1, 4, ps=1), 4, 3, 2, id="fixed roles take their part"),
        pytest.param(spec_of(1, 4, ps=1), 4, 1, 0, id="only the fixed ones came in"),
        pytest.param(spec_of(1, 4, ps=2), 2, 3, 1, id="a fixed one was refused, so it is tried with fewer"),
    ],
)
def test_the_size_that_is_let_in_is_one_that_the_job_may_have_and_below_the_one_refused(spec, held, got_in, size):
    assert size_let_in(spec, held=held, let_in=got_in) == size


@pytest.mark.parametrize(
    ("size", "kept", "words"),
    [
        pytest.param(0, 0, "1 of 3 pods were let in, it gives its room back and is tried again later: no", id="waits"),
        pytest.param(1, 1, "1 of 3 pods were let in, it goes on with 1 worker: no", id="goes on"),
        pytest.param(2, 0, "1 of 3 pods were let in, it starts anew with 2 workers: no", id="starts anew"),
    ],
)
def test_the_event_says_what_becomes_of_the_job(size, kept, words):
    assert in_words(Denial("no", size=size), let_in=1, held=3, kept=kept) == words
