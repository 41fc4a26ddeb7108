"""How long a job is kept from nodes that refused its workers."""

import pytest

from sterna.lifecycle.node_refusals import (
    FIRST_S,
    KEPT_MAX,
    MOST_S,
    Refusal,
    in_force,
    next_expiry_s,
    with_refusals,
    without_expired,
)
from sterna.model.ids import NodeId

A, B = NodeId("a"), NodeId("b")


@pytest.mark.parametrize(
    ("times", "pause_s"),
    [
        pytest.param(0, FIRST_S, id="the first refusal"),
        pytest.param(1, 2 * FIRST_S, id="the second in a row is kept twice as long"),
        pytest.param(4, 16 * FIRST_S, id="the fifth"),
        pytest.param(99, MOST_S, id="never longer than half an hour"),
    ],
)
def test_a_node_is_left_alone_for_longer_and_longer(times, pause_s):
    known = (Refusal(A, times, None),) if times else ()
    assert with_refusals(known, {A}, 100.0) == (Refusal(A, times + 1, 100.0 + pause_s),)


def test_a_node_whose_time_is_over_may_be_tried_again_and_its_refusals_are_still_counted():
    known = with_refusals((), {A, B}, 0.0)
    assert without_expired(known, FIRST_S - 1) is known
    over = without_expired(known, FIRST_S)
    assert over == (Refusal(A, 1, None), Refusal(B, 1, None))
    assert (in_force(known), in_force(over), next_expiry_s(known), next_expiry_s(over)) == (known, (), FIRST_S, None)


def test_no_more_nodes_are_remembered_than_a_status_can_hold():
    known: tuple[Refusal, ...] = ()
    for number in range(KEPT_MAX + 5):
        known = with_refusals(known, {NodeId(f"n{number}")}, float(number))
    assert len(known) == KEPT_MAX
    assert known[-1].node == f"n{KEPT_MAX + 4}"
