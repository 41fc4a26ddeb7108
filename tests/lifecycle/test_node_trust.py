"""How far a node is trusted, by how its readiness went."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.lifecycle.node_trust import NodePast, NodeSign, Trust, TrustRules, Verdict, flapping_in_words, seen, verdict
from sterna.model.nodes import Doubt

RULES = TrustRules(lost_after_s=30.0, flaps=3, flaps_within_s=600.0, steady_s=300.0)
UP, DOWN, OFF = NodeSign(ready=True), NodeSign(ready=False), NodeSign(ready=False, leaves=True)

Sight = tuple[float, NodeSign]  # when, and what was seen


def past_of(sights: list[Sight], rules: TrustRules = RULES) -> NodePast:
    past = None
    for at_s, sign in sights:
        past = seen(past, sign, at_s, rules)
    assert past is not None
    return past


def flaps(times: int, *, every_s: float = 10.0) -> list[Sight]:
    """Down for a second, so often, from 1000 on."""
    falls = [1000.0 + number * every_s for number in range(times)]
    return [(0.0, UP), *(sight for fall_s in falls for sight in ((fall_s, DOWN), (fall_s + 1, UP)))]


TRUSTED, LOST = Verdict(Trust.TRUSTED), Verdict(Trust.LOST)


@pytest.mark.parametrize(
    ("sights", "now_s", "found"),
    [
        pytest.param([(0.0, UP)], 5.0, TRUSTED, id="a node that was never away"),
        pytest.param(
            [(0.0, UP), (100.0, DOWN)],
            100.0,
            Verdict(Trust.DOUBTED, Doubt.NOT_READY, 130.0),
            id="a node that has just become not ready",
        ),
        pytest.param(
            [(0.0, UP), (100.0, DOWN), (120.0, DOWN)],
            129.9,
            Verdict(Trust.DOUBTED, Doubt.NOT_READY, 130.0),
            id="not ready for almost as long as it may be, however often that is seen",
        ),
        pytest.param([(0.0, UP), (100.0, DOWN)], 130.0, LOST, id="not ready for longer"),
        pytest.param([(0.0, UP), (100.0, OFF)], 100.0, LOST, id="a node that says that it goes away"),
        pytest.param([(0.0, UP), (100.0, DOWN), (101.0, OFF)], 101.0, LOST, id="one that is found to be off later"),
        pytest.param([(0.0, UP), (100.0, DOWN), (101.0, UP)], 101.0, TRUSTED, id="a node that is back"),
        pytest.param([(0.0, UP), (100.0, DOWN), (200.0, UP)], 200.0, TRUSTED, id="a node that was lost and is back"),
        pytest.param(flaps(2), 1012.0, TRUSTED, id="twice is no flapping"),
        pytest.param(
            flaps(3),
            1022.0,
            Verdict(Trust.DOUBTED, Doubt.FLAPPING, 1321.0),
            id="three times is: nothing new before it has been steady",
        ),
        pytest.param(flaps(3), 1321.0, TRUSTED, id="steady for long enough"),
        pytest.param(
            flaps(10),
            1092.0,
            Verdict(Trust.DOUBTED, Doubt.FLAPPING, 1391.0),
            id="ten times: from the last change on",
        ),
        pytest.param(flaps(3, every_s=400.0), 1802.0, TRUSTED, id="three times in a longer while is no flapping"),
        pytest.param(
            [*flaps(2), (1020.0, DOWN)],
            1021.0,
            Verdict(Trust.DOUBTED, Doubt.FLAPPING, 1050.0),
            id="not ready for the third time, and not lost yet",
        ),
        pytest.param([*flaps(2), (1020.0, DOWN)], 1050.0, LOST, id="a node that flaps can be lost as any other"),
        pytest.param(
            [*flaps(3), (1400.0, DOWN), (1401.0, UP)],
            1401.0,
            Verdict(Trust.DOUBTED, Doubt.FLAPPING, 1701.0),
            id="once more after it was steady, within the same ten minutes",
        ),
    ],
)
def test_verdicts(sights, now_s, found):
    assert verdict(past_of(sights), now_s, RULES) == found


@pytest.mark.parametrize(
    ("told_s", "lost_s"),
    [
        pytest.param(None, 1030.0, id="no moment is told: all of the delay"),
        pytest.param(995.0, 1025.0, id="a few seconds ago by the other clock: so much sooner"),
        pytest.param(900.0, 1015.0, id="long ago: half of the delay is left"),
        pytest.param(-1e9, 1015.0, id="by a clock that is years behind: no less than that"),
        pytest.param(1e9, 1030.0, id="by a clock that is years ahead: no more than that"),
    ],
)
def test_r8_what_another_clock_tells_counts_for_half_of_the_delay_at_most(told_s, lost_s):
    past = past_of([(1000.0, NodeSign(ready=False, told_s=told_s))])
    assert verdict(past, 1000.0, RULES) == Verdict(Trust.DOUBTED, Doubt.NOT_READY, lost_s)
    later = seen(past, NodeSign(ready=False, told_s=0.0), 1001.0, RULES)
    assert later is past, "what is told later changes nothing"


def test_without_a_delay_a_silent_node_is_lost_at_once():
    at_once = RULES._replace(lost_after_s=0.0)
    assert verdict(past_of([(0.0, UP), (1.0, DOWN)], at_once), 1.0, at_once) == LOST
    assert verdict(past_of([(5.0, NodeSign(ready=False, told_s=0.0))], at_once), 5.0, at_once) == LOST


def test_flapping_is_told_with_its_numbers():
    words = flapping_in_words(past_of(flaps(4)), RULES)
    assert words.startswith("it became not ready 4 times within 10 minutes: it is given nothing new before")


steps = st.lists(st.tuples(st.floats(0.0, 200.0), st.sampled_from([UP, DOWN, DOWN, OFF])), min_size=1, max_size=40)


@given(steps, st.floats(0.0, 2000.0))
def test_every_doubt_ends_by_itself_and_no_node_is_lost_before_its_time(gaps, later_s):
    now_s, past, silent_since_s = 0.0, None, None
    for gap_s, sign in gaps:
        now_s += gap_s
        past = seen(past, sign, now_s, RULES)
        if sign.ready:
            silent_since_s = None
        elif silent_since_s is None:
            silent_since_s = now_s
    assert past is not None
    assert len(past.falls) <= 32
    found = verdict(past, now_s, RULES)
    if silent_since_s is None:
        assert found.trust is not Trust.LOST
    else:
        is_due = past.sign.leaves or now_s >= silent_since_s + RULES.lost_after_s
        assert (found.trust is Trust.LOST) is is_due
    assert (found.doubt is not None) is (found.trust is Trust.DOUBTED) is (found.until_s is not None)
    if found.until_s is not None:
        assert now_s < found.until_s <= now_s + RULES.steady_s
        before_s = min(now_s + later_s, (now_s + found.until_s) / 2)
        assert verdict(past, before_s, RULES) == found, "nothing changes before the moment that is told"
        after = verdict(past, found.until_s, RULES)
        assert after == (TRUSTED if past.sign.ready else LOST)
