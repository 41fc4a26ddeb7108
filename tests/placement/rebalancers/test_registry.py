"""Rebalancers by name, and their options from text."""

import pytest

from sterna.model.errors import InvalidRequest
from sterna.placement.rebalancers.cost import CostMode
from sterna.placement.rebalancers.registry import REBALANCERS, rebalancing


def test_settings_reach_whom_they_name():
    made = rebalancing(["specon", "imbalance"], {"specon.round-s": "5", "threshold": "2", "cost.mode": "off"})
    assert made.names == ("specon", "imbalance")
    assert [options.round_s for entry, options in made.chosen if entry.name == "specon"] == [5.0]
    assert [options.threshold for entry, options in made.chosen if entry.name == "imbalance"] == [2.0]
    assert made.cost.mode is CostMode.OFF


def test_each_stands_once_in_the_order_in_which_they_are_named():
    assert rebalancing(["drain", "specon", "drain"]).names == ("drain", "specon")


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        pytest.param(["spekon"], {}, "did you mean specon?", id="a name that is nearly one"),
        pytest.param(["x"], {}, "one of: specon, imbalance, defragment, drain", id="a name that is none"),
        pytest.param([], {}, "one or more of: specon", id="no name at all"),
        pytest.param(["specon"], {"rounds": "3"}, "specon.round-s", id="an option that nobody has"),
        pytest.param(["specon"], {"specon.rounds": "3"}, "one of: contention", id="an option that this one has not"),
        pytest.param(["specon"], {"imbalance.gap": "1"}, "specon.round-s", id="an option of one that is not in play"),
        pytest.param(["specon", "defragment"], {"round-s": "3"}, "specon.round-s or defragment.round-s", id="of two"),
        pytest.param(["specon"], {"round-s": "0"}, "at least 0.1", id="a value out of bounds"),
        pytest.param(["specon"], {"cost.horizon-s": "inf"}, "at most", id="a value that no JSON could say"),
        pytest.param(["specon"], {"cost.mode": "some"}, "one of: full, growth, off", id="a choice that is none"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(names, settings, message):
    with pytest.raises(InvalidRequest) as error:
        rebalancing(names, settings)
    assert message in str(error.value)


def test_every_rebalancer_says_what_it_does_in_one_line():
    for entry in REBALANCERS:
        assert entry.summary
        assert "\n" not in entry.summary
