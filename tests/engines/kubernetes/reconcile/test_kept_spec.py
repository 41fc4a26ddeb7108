"""The last valid spec of a job, as it is kept and read again."""

import base64
import json
import random
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.kubernetes.status.kept_spec import KEPT_MAX, KeptSpec, kept_read, kept_spec, kept_text
from sterna.engines.kubernetes.world.valid_spec import ValidSpec, followed
from sterna.model.workload import Contract, RunPolicy
from tests.engines.kubernetes.reconcile.world import workload

TEXTS = st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
SPECS = st.builds(KeptSpec, st.dictionaries(st.text(max_size=9), VALUES, max_size=4), TEXTS, TEXTS)


@given(SPECS)
def test_what_is_kept_is_read_again(spec):
    text = kept_text(spec)
    assert kept_read(text) == spec
    assert kept_text(spec, known=text) == text
    assert kept_text(kept_read(text) or spec) == text


def test_a_text_that_says_the_same_is_left_as_it_is_however_it_was_packed():
    spec = kept_spec({"workers": {"max": 2}}, {}, {})
    other = base64.b64encode(zlib.compress(json.dumps(spec._asdict()).encode(), 0)).decode()
    assert other != kept_text(spec)
    assert kept_text(spec, known=other) == other
    assert kept_text(spec, known="AAAA") == kept_text(spec)


def test_labels_and_annotations_that_mean_nothing_here_are_not_kept():
    """Among them is the whole object once more, as kubectl notes it."""
    ours, theirs = {"sterna.dev/priority": "3"}, {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}
    assert kept_spec({}, {**ours, "team": "x"}, {**ours, **theirs}) == KeptSpec({}, ours, ours)


def test_what_is_too_large_is_not_kept():
    noise = random.Random(7).randbytes(KEPT_MAX).hex()
    assert kept_text(kept_spec({"noise": noise}, {}, {})) == ""
    assert kept_read("A" * (KEPT_MAX + 4)) is None


def packed(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text)).decode()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("?", id="no base64"),
        pytest.param("AAAA", id="no zlib"),
        pytest.param(packed(b"{"), id="no JSON"),
        pytest.param(packed(b"\xff"), id="no UTF-8"),
        pytest.param(packed(b"[]"), id="a list"),
        pytest.param(packed(b"[" * 100_000), id="deeply nested"),
        pytest.param(packed(b'{"spec": 1, "labels": {}, "annotations": {}}'), id="a number for a spec"),
        pytest.param(packed(b'{"spec": {}, "labels": {"a": 1}, "annotations": {}}'), id="a number for a label"),
        pytest.param(packed(b'{"spec": {}, "labels": {}}'), id="half of it"),
        pytest.param(packed(b'{"spec": "' + b"a" * (4 << 20) + b'"}'), id="a bomb"),
    ],
)
def test_a_text_that_no_operator_wrote_is_no_spec(text):
    assert kept_read(text) is None


@pytest.mark.parametrize(
    ("valid", "edit", "suspended"),
    [
        pytest.param(False, {"runPolicy": {"suspend": True}}, True, id="an invalid edit suspends"),
        pytest.param(True, {"runPolicy": {"suspend": False}}, False, id="an invalid edit resumes"),
        pytest.param(True, {"runPolicy": {}}, True, id="an invalid edit that says nothing resumes nothing"),
        pytest.param(True, {"runPolicy": None}, True, id="nor does one without a policy"),
        pytest.param(False, {"runPolicy": {"suspend": "true"}}, False, id="a text is no answer"),
        pytest.param(False, {"runPolicy": [{"suspend": True}]}, False, id="nor is a list"),
    ],
)
def test_suspend_is_followed_whatever_else_an_edit_says(valid, edit, suspended):
    found = workload(Contract.RESTART, run_policy=RunPolicy(suspend=valid, backoff_limit=3))
    policy = followed(ValidSpec(found, msgspec.Raw(b"{}"), ""), edit).run_policy
    assert policy == RunPolicy(suspend=suspended, backoff_limit=3)
