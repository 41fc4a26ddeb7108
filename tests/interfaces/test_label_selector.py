"""`-l`, as kubectl reads it."""

import pytest

from sterna.interfaces.cli.label_selector import label_requirements
from sterna.model.errors import InvalidRequest

LABELS = {"app": "mnist", "tier": "dev", "example.com/team": "vision"}


@pytest.mark.parametrize(
    ("selector", "meets"),
    [
        pytest.param("", True, id="nothing is asked for"),
        pytest.param("app=mnist", True, id="equal"),
        pytest.param("app==mnist,tier=dev", True, id="two that both hold, the longer sign"),
        pytest.param("app=mnist,tier=prod", False, id="two of which one does not"),
        pytest.param("tier!=prod", True, id="another value"),
        pytest.param("gone!=x", True, id="unequal holds where the label is missing"),
        pytest.param("gone=", False, id="an empty value is not a missing label"),
        pytest.param("tier in (dev, test)", True, id="one of several"),
        pytest.param("tier notin (dev,test),app", False, id="none of several"),
        pytest.param("example.com/team", True, id="a key with a prefix is there"),
        pytest.param("!gone, app", True, id="a key is not there"),
        pytest.param("!app", False, id="a key that must not be there is"),
        pytest.param("inner=1", False, id="a key that begins like an operator"),
    ],
)
def test_jobs_are_chosen_by_labels(selector, meets):
    assert all(each.holds(LABELS) for each in label_requirements(selector)) is meets


@pytest.mark.parametrize("selector", ["a=b=c", "=x", "a in (b", "a in b", ",", "a,,b", "a >"])
def test_a_selector_that_makes_no_sense_is_refused_whole(selector):
    with pytest.raises(InvalidRequest) as caught:
        label_requirements(selector)
    assert repr(selector) in str(caught.value)
