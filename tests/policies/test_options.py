"""Options from text: what is typed, what it becomes, and what a mistake is told."""

import pytest

from sterna.model.errors import InvalidRequest
from sterna.policies.fifo import FifoOptions, Order
from sterna.policies.las import LasOptions
from sterna.policies.options import NoOptions, parse_options, shown


@pytest.mark.parametrize(
    ("options", "settings", "expected"),
    [
        pytest.param(FifoOptions, {}, FifoOptions(), id="nothing typed: the documented defaults"),
        pytest.param(FifoOptions, {"strict": "yes"}, FifoOptions(strict=True), id="yes means true"),
        pytest.param(FifoOptions, {"order": "seat"}, FifoOptions(order=Order.SEAT), id="a choice by its name"),
        pytest.param(
            LasOptions, {"thresholds_gpu_s": "10, 20.5"}, LasOptions(thresholds_gpu_s=(10.0, 20.5)),
            id="numbers separated by commas, and underscores for dashes",
        ),
        pytest.param(LasOptions, {"promote-knob": "2"}, LasOptions(promote_knob=2.0), id="a number"),
    ],
)  # fmt: skip
def test_options_are_read_from_text(options, settings, expected):
    assert parse_options(options, settings, of="policy p") == expected


@pytest.mark.parametrize(
    ("options", "settings", "says"),
    [
        pytest.param(NoOptions, {"x": "1"}, "no options", id="a policy without options"),
        pytest.param(FifoOptions, {"ordre": "seat"}, "order, size, strict", id="an unknown option"),
        pytest.param(FifoOptions, {"order": "luck"}, "submission, seat", id="an unknown choice"),
        pytest.param(FifoOptions, {"strict": "maybe"}, "true or false", id="neither true nor false"),
        pytest.param(LasOptions, {"promote-knob": "nan"}, "not NaN", id="not a number at all"),
        pytest.param(LasOptions, {"promote-knob": "-1"}, "at least 0", id="below its bound"),
        pytest.param(LasOptions, {"thresholds-gpu-s": "5,0"}, "at least 1", id="one element below its bound"),
        pytest.param(LasOptions, {"thresholds-gpu-s": "a,b"}, "separated by commas", id="words for numbers"),
    ],
)
def test_a_mistake_is_told_what_would_do(options, settings, says):
    with pytest.raises(InvalidRequest, match=says):
        parse_options(options, settings, of="policy p")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, "true"), (False, "false"), ((1.0, 2.5), "1.0,2.5"), (Order.SEAT, "seat"), (8.0, "8.0")],
)
def test_values_are_shown_as_they_would_be_typed(value, expected):
    assert shown(value) == expected
