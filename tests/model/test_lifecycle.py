"""The table of a job's life, walked."""

import itertools

import pytest

from sterna.model.errors import InvariantBroken
from sterna.model.phases import FINISHED, TRANSITIONS, Phase, Trigger, after


def reachable(start: Phase) -> set[Phase]:
    found, open_ = {start}, [start]
    while open_:
        phase = open_.pop()
        following = {to for (came_from, _), to in TRANSITIONS.items() if came_from is phase} - found
        found |= following
        open_ += following
    return found


def test_every_phase_is_reachable_from_waiting():
    assert reachable(Phase.WAITING) == set(Phase)


@pytest.mark.parametrize("phase", sorted(set(Phase) - FINISHED))
def test_every_unfinished_job_can_still_succeed_or_fail(phase):
    assert reachable(phase) >= FINISHED


@pytest.mark.parametrize("phase", sorted(FINISHED))
def test_nothing_leads_out_of_an_ending(phase):
    assert reachable(phase) == {phase}
    for trigger in Trigger:
        with pytest.raises(InvariantBroken):
            after(phase, trigger)


@pytest.mark.parametrize(("phase", "trigger"), sorted(itertools.product(Phase, Trigger)))
def test_a_pair_is_in_the_table_or_a_bug(phase, trigger):
    if (phase, trigger) in TRANSITIONS:
        assert after(phase, trigger) is TRANSITIONS[phase, trigger]
    else:
        with pytest.raises(InvariantBroken, match=f"a job that is {phase} cannot be {trigger}"):
            after(phase, trigger)


def test_every_trigger_is_used():
    assert {trigger for _, trigger in TRANSITIONS} == set(Trigger)
