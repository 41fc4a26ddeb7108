"""Hostile documents are refused with a reason: no crash, no hang, no growth beyond what their size allows."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.model.errors import InvalidRequest
from sterna.wire.document_limits import BODY_BYTES_MAX, MIB, read_document
from sterna.wire.snapshot_file import load_snapshot

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)

HOSTILE = [
    pytest.param("[" * 100_000, id="brackets without end"),
    pytest.param("[" * 65 + "]" * 65, id="one level too deep"),
    pytest.param('{"a":' * 500_000, id="objects without end"),
    pytest.param("- " * 70 + "x", id="YAML one level too deep"),
    pytest.param("x: " + "[" * 500_000, id="YAML brackets without end"),
    pytest.param("? " * 300_000, id="YAML keys of keys without end"),
    pytest.param("[" + "0," * 500_000 + "0]", id="more values than memory is given for"),
    pytest.param("x: [" + "0," * 500_000 + "0]", id="the same in YAML"),
    pytest.param("[" + "{}," * 340_000 + "{}]", id="a great many empty objects"),
    pytest.param(LAUGHS, id="a billion laughs"),
    pytest.param("a: &a [*a]", id="a list that contains itself"),
    pytest.param("a: *nobody", id="an alias of nothing"),
    pytest.param("a: &a 1\n" + "".join(f"b{n}: *a\n" for n in range(101)), id="too many aliases"),
    pytest.param('{"a": NaN}', id="not a number"),
    pytest.param('{"a": [1, -Infinity]}', id="an infinite number"),
    pytest.param('{"a": 1e999}', id="a number that overflows"),
    pytest.param("a: .nan", id="YAML not a number"),
    pytest.param("a: -.inf", id="YAML infinite"),
    pytest.param("a: 1e999", id="YAML overflow"),
    pytest.param('{"a": ' + "9" * 5000 + "}", id="five thousand digits"),
    pytest.param('{"a": 9223372036854775808}', id="an integer above 63 bits"),
    pytest.param("a: " + "9" * 5000, id="YAML five thousand digits"),
    pytest.param('{"a": 1, "a": 2}', id="a key twice"),
    pytest.param("a: 1\na: 2", id="a YAML key twice"),
    pytest.param('{"a": "\\ud800"}', id="half a character"),
    pytest.param('{"\\ud800": 1}', id="half a character in a key"),
    pytest.param(b"\xff\xfe{}", id="bytes that are no UTF-8"),
    pytest.param("\ud800", id="text that is no UTF-8"),
    pytest.param('{"a": 1} {"b": 2}', id="two documents"),
    pytest.param("a: 1\n---\nb: 2", id="two YAML documents"),
    pytest.param("a: !!python/object/apply:os.system [x]", id="a YAML tag that would run something"),
    pytest.param("!!binary aGk=", id="a YAML tag for bytes"),
    pytest.param("{[1]: 2}", id="what is no JSON"),
    pytest.param("a: [1, 2", id="YAML that is cut short"),
    pytest.param("a:\n\t- b", id="YAML with tabs"),
    pytest.param("? [a]\n: 1", id="a YAML key that is a list"),
    pytest.param("a: \x00", id="a null byte"),
    pytest.param("%YAML 9.9\n---\na: 1", id="a YAML of the future"),
    pytest.param("x" * (BODY_BYTES_MAX + 1), id="a body that is too long"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_r10_hostile_text_is_refused_in_few_words(text):
    with pytest.raises(InvalidRequest) as refusal:
        read_document(text, name="body")
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("text", ["[" + "[]," * 340_000 + "[]]", "x: [" + "a," * 260_000 + "a]", LAUGHS], ids=range(3))
def test_r10_a_refused_body_never_grows_beyond_64_mib(text):
    tracemalloc.start()
    with pytest.raises(InvalidRequest):
        read_document(text, name="body")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * MIB


@pytest.mark.parametrize(
    ("text", "path"),
    [
        pytest.param('{"jobs": [{"state": {"ranSeconds": NaN}}]}', r"^jobs\[0\]\.state\.ranSeconds: nan", id="JSON"),
        pytest.param("jobs:\n- state: {ranSeconds: .inf}", r"^jobs\[0\]\.state\.ranSeconds: inf", id="YAML"),
        pytest.param('{"a": 1,}', r"^snapshot: line 1, column 9", id="a JSON mistake has its line and column"),
        pytest.param("a: 1\nb: ]", r"^snapshot: line 2", id="a YAML mistake too"),
    ],
)
def test_r10_what_is_refused_is_named_by_its_place(text, path):
    with pytest.raises(InvalidRequest, match=path):
        load_snapshot(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: no", {"a": "no"}, id="no is a word, not a falsehood"),
        pytest.param("a: 2022-01-01", {"a": "2022-01-01"}, id="a date is text"),
        pytest.param("a: 12:30", {"a": "12:30"}, id="a time is not a number in base sixty"),
        pytest.param("1: a", {"1": "a"}, id="keys are text"),
        pytest.param("a: '1'", {"a": "1"}, id="quotes make text"),
        pytest.param("a: !!str 1", {"a": "1"}, id="so does the tag of text"),
        pytest.param("a: ~\nb:\nc: null", {"a": None, "b": None, "c": None}, id="nothing in three spellings"),
        pytest.param(
            "a: [true, False, 1, -2, 1.5, 1e3, .5]", {"a": [True, False, 1, -2, 1.5, 1000.0, 0.5]}, id="scalars"
        ),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="a few aliases are fine"),
        pytest.param("<<: {a: 1}", {"<<": {"a": 1}}, id="there is no merging"),
        pytest.param("", None, id="nothing at all"),
        pytest.param("[" * 64 + "]" * 64, json.loads("[" * 64 + "]" * 64), id="exactly as deep as allowed"),
    ],
)
def test_what_documents_mean(text, value):
    assert read_document(text, name="body") == value


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_any_json_value_is_read_as_python_reads_it(value):
    assert read_document(json.dumps([value]), name="body") == [value]


@settings(max_examples=200)
@given(st.text() | st.binary() | st.text(st.sampled_from("[]{},:-&*!|>'\"#?% \n\tab1.~")))
def test_r10_any_text_is_a_document_or_a_clear_refusal(text):
    try:
        load_snapshot(text)
    except InvalidRequest as error:
        refusal = error
    assert refusal.field
