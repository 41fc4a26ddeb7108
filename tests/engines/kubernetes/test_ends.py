"""Ends of jobs beside their statuses, and how often a status is written again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.kubernetes.loop.restore_pace import APART_S, AT_ONCE, Restores
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.world.finished_jobs import (
    REMEMBERED_MAX,
    Ended,
    ended_of,
    finished_data,
    finished_of,
    latest,
    standing_of,
)
from sterna.model.phases import FINISHED, Phase

ENDS = st.builds(Ended, st.sampled_from(sorted(FINISHED)), st.integers(0, 4_000_000_000).map(float))


@given(st.dictionaries(st.uuids().map(str), ENDS, max_size=5))
def test_ends_that_are_written_are_read_again(ends):
    assert finished_of(finished_data(ends)) == ends
    assert {uid: ended_of(standing_of(end)) for uid, end in ends.items()} == ends


@pytest.mark.parametrize("text", ["", "Succeeded", "Running 2026-01-01T00:00:00Z", "Failed yesterday"])
def test_what_no_operator_wrote_is_passed_over(text):
    assert finished_of({"uid": text}) == {}
    assert finished_of(None) == {}


def test_a_job_that_has_not_ended_is_not_remembered():
    assert ended_of(Standing()) is None


def test_the_latest_ends_are_remembered():
    ends = {str(at): Ended(Phase.FAILED, float(at)) for at in range(REMEMBERED_MAX + 7)}
    kept = latest(ends.items())
    assert len(kept) == REMEMBERED_MAX
    assert "6" not in kept
    assert "7" in kept


def test_a_status_is_written_again_a_few_times_at_once_and_then_seldom():
    pace = Restores()
    assert [pace.next_s("a", 100.0) for _ in range(AT_ONCE)] == [None] * AT_ONCE
    assert pace.next_s("a", 100.0) == 100.0 + APART_S
    assert pace.next_s("b", 100.0) is None
    assert pace.next_s("a", 100.0 + APART_S) is None
    assert pace.next_s("a", 100.0 + APART_S) == 100.0 + 2 * APART_S
