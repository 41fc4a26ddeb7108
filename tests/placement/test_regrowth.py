"""Who is recognised in a layout: workers that are where they were keep their numbers, and the first is never lost."""

import pytest

from sterna.model.ids import DeviceId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.placement.regrowth import recognised
from tests.worlds import job


def on_card(ordinal: int, card: str, node: str = "n") -> Worker:
    return Worker(Role.WORKER, ordinal, NodeId(node), (DeviceId(card),))


HELD = (on_card(0, "0"), on_card(1, "1"), on_card(3, "2"))


@pytest.mark.parametrize(
    ("laid", "expected"),
    [
        pytest.param(HELD, HELD, id="as it was"),
        pytest.param((on_card(0, "0"), on_card(2, "1")), HELD[:2], id="renumbered in its place"),
        pytest.param((on_card(0, "0"), on_card(1, "2")), (HELD[0], HELD[2]), id="another's number"),
        pytest.param(
            (on_card(0, "0"), on_card(1, "9"), on_card(2, "1")),
            (HELD[0], HELD[1], on_card(2, "9")),
            id="a newcomer had the number of one that stays",
        ),
        pytest.param((on_card(0, "1"),), (on_card(0, "1"),), id="the first is moved, not let go"),
        pytest.param((on_card(0, "0", "m"), on_card(1, "1")), (on_card(0, "0", "m"), HELD[1]), id="the first moves"),
    ],
)
def test_who_is_where_it_was_keeps_its_number(laid, expected):
    assert recognised(job("a", at_most=4, holds=HELD), laid) == expected
