"""Messages survive the trip; anything that is not one is nothing new."""

import json
import math
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.protocol import CommittedCheckpoint, Order, Orders, Status, WorkerPhase
from sterna.protocol.messages import AMOUNT_MAX, COUNT_MAX, METRICS_MAX, NUMBER_MAX, TEXT_MAX

amounts = st.floats(-AMOUNT_MAX, AMOUNT_MAX)
measured = st.floats(-NUMBER_MAX, NUMBER_MAX)
moments = st.floats(0, 1e10)  # shown as dates, and calendars end
wholes = st.integers(min_value=0, max_value=2**62)

orders = st.builds(
    Orders, seq=wholes, order=st.sampled_from(Order), reason=st.text(max_size=80), deadline_mono_s=st.none() | amounts
)
checkpoints = st.builds(
    CommittedCheckpoint,
    generation=wholes,
    step=wholes,
    bytes=wholes,
    digest=st.text(string.hexdigits, max_size=64),
    stall_s=amounts,
    at_mono_s=moments,
)
statuses = st.builds(
    Status,
    pid=wholes,
    phase=st.sampled_from(WorkerPhase),
    ack=wholes,
    step=wholes,
    epoch=wholes,
    units_done=amounts,
    units_total=st.none() | amounts,
    step_s=st.none() | amounts,
    metrics=st.dictionaries(st.text(max_size=12), measured, max_size=5),
    restored_step=st.none() | wholes,
    first_step_mono_s=st.none() | moments,
    last_step_mono_s=st.none() | moments,
    save_s=st.none() | amounts,
    load_s=st.none() | amounts,
    checkpoint=st.none() | checkpoints,
    samples=st.none() | wholes,
    problem=st.none() | st.text(max_size=80),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(orders)
def test_orders_survive_the_trip(message):
    assert Orders.from_json(message.to_json()) == message


@given(statuses)
def test_a_status_survives_the_trip(message):
    assert Status.from_json(message.to_json()) == message


def test_a_diverged_metric_arrives_as_the_number_it_was():
    sent = Status(pid=1, phase=WorkerPhase.TRAINING, metrics={"loss": math.nan, "up": math.inf, "down": -math.inf})
    assert "NaN" not in sent.to_json()  # other languages' readers refuse it
    received = Status.from_json(sent.to_json())
    assert received is not None
    assert math.isnan(received.metrics["loss"])
    assert received.metrics["up"] == math.inf
    assert received.metrics["down"] == -math.inf


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="an empty file"),
        pytest.param('{"seq": 1, "order": "ru', id="a truncated file"),
        pytest.param("[]", id="not an object"),
        pytest.param('{"order": "run"}', id="no sequence number"),
        pytest.param('{"seq": true, "order": "run"}', id="a truth value is not a number"),
        pytest.param('{"seq": "1", "order": "run"}', id="a text is not a number"),
        pytest.param('{"seq": 1, "order": "dance"}', id="an order nobody knows"),
        pytest.param('{"seq": 1, "order": ["run"]}', id="an order that is a list"),
        pytest.param('{"seq": 1, "order": "run", "deadline_mono_s": NaN}', id="a deadline that is no number"),
        pytest.param('{"seq": 1, "order": "run", "deadline_mono_s": 1' + "0" * 400 + "}", id="an endless deadline"),
        pytest.param("[" * 100_000, id="nested beyond reason"),
        pytest.param(b"\xff\xfe\x00", id="not even text"),
    ],
)
def test_what_is_not_an_order_is_nothing_new(text):
    assert Orders.from_json(text) is None


@given(st.dictionaries(st.sampled_from([*Status.__slots__, "other"]), json_values))
def test_no_content_whatever_makes_a_reader_raise(body):
    text = json.dumps(body)
    for kind in (Orders, Status):
        result = kind.from_json(text)
        assert result is None or isinstance(result, kind)


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param({"step": COUNT_MAX + 1}, id="a count that is kept in no 64 bits"),
        pytest.param({"step": 10**400}, id="a count of four hundred digits"),
        pytest.param({"pid": -1}, id="everybody's process"),
        pytest.param({"ack": -1}, id="an order before the first"),
        pytest.param({"units_done": 1e31}, id="more than can be added to"),
        pytest.param({"units_total": 10**400}, id="no float at all"),
        pytest.param({"metrics": {str(number): 0.0 for number in range(METRICS_MAX + 1)}}, id="too many metrics"),
    ],
)
def test_a_status_out_of_bounds_is_nothing_new(hostile):
    body = {"pid": 1, "phase": "training", "step": 3}
    assert Status.from_json(json.dumps(body)) is not None
    assert Status.from_json(json.dumps({**body, **hostile})) is None


def test_a_diverged_metric_is_told_as_such_and_a_long_text_by_its_beginning():
    body = {"pid": 1, "phase": "training", "metrics": {"loss": 1e300, "gain": -1e300}, "problem": "x" * 10_000}
    status = Status.from_json(json.dumps(body))
    assert status is not None
    assert status.metrics == {"loss": math.inf, "gain": -math.inf}
    assert status.problem == "x" * TEXT_MAX
