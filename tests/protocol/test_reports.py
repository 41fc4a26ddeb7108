"""Reports on the wire: what is said comes back as it was, and nothing else comes in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.protocol.reports import (
    REASON_MAX,
    REPORTS_MAX,
    SEQ_MAX,
    VALUE_MAX,
    WORKERS_MAX,
    Answer,
    BadReport,
    Batch,
    Report,
    Usage,
    is_of_job,
    next_seq,
    report_of,
)

names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
amounts = st.none() | st.floats(0, 1e12)
counts = st.none() | st.integers(0, 10**12)
usages = st.none() | st.builds(Usage, cpu=amounts, memory_bytes=counts, gpu=amounts, gpu_memory_bytes=counts)
reports = st.builds(
    Report,
    pod=st.builds("{}/{}".format, names, names),
    seq=st.integers(0, 2**63 - 1),
    at_s=st.floats(0, 1e10),
    value=st.none() | st.floats(-VALUE_MAX, VALUE_MAX),
    metric=st.sampled_from(["", "accuracy", "eval/loss", "top-5 @ 1"]),
    step=counts,
    epoch=counts,
    units_done=amounts,
    units_total=amounts,
    step_s=amounts,
    epoch_s=amounts,
    remaining_s=amounts,
    workers=st.none() | st.integers(0, WORKERS_MAX),
    usage=usages,
    job_uid=st.sampled_from(["", "0f7c-1"]),
)


@given(said=st.lists(reports, max_size=5), load=usages, node=names)
def test_a_batch_comes_back_as_it_was(said, load, node):
    batch = Batch(tuple(said), monitor="m-1", node=node, load=load, instance="i")
    assert Batch.from_json(batch.to_json()) == batch


def test_what_is_not_said_is_not_sent():
    assert Report("a", 1, 2.0).to_body() == {"pod": "a", "seq": 1, "at_s": 2.0}


def test_what_a_newer_sender_adds_is_passed_over():
    text = '{"reports":[{"pod":"a","seq":1,"at_s":2,"value":3,"mood":"good"}],"colour":"red"}'
    assert Batch.from_json(text).reports == (Report("a", 1, 2.0, 3.0),)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param([], "body", id="a list"),
        pytest.param({}, "pod", id="no pod"),
        pytest.param({"pod": 3}, "pod", id="a pod that is a number"),
        pytest.param({"pod": ""}, "pod", id="an empty pod"),
        pytest.param({"pod": "Pod"}, "pod", id="capitals"),
        pytest.param({"pod": "../../etc"}, "pod", id="a path"),
        pytest.param({"pod": "a/b/c"}, "pod", id="two slashes"),
        pytest.param({"pod": "a\nb"}, "pod", id="a line break"),
        pytest.param({"pod": "a" * 10_000}, "pod", id="an enormous pod"),
        pytest.param({"value": "0.5"}, "value", id="a value that is text"),
        pytest.param({"value": True}, "value", id="a value that is true"),
        pytest.param({"value": [1]}, "value", id="a value that is a list"),
        pytest.param({"value": float("nan")}, "value", id="not a number"),
        pytest.param({"value": float("inf")}, "value", id="infinity"),
        pytest.param({"value": 10**400}, "value", id="a whole number beyond all floats"),
        pytest.param({"seq": 1.5}, "seq", id="half a number"),
        pytest.param({"seq": -1}, "seq", id="a number below nothing"),
        pytest.param({"seq": 2**63}, "seq", id="a number beyond 63 bits"),
        pytest.param({"seq": True}, "seq", id="a number that is true"),
        pytest.param({"at_s": "now"}, "at_s", id="a time in words"),
        pytest.param({"at_s": -1}, "at_s", id="before 1970"),
        pytest.param({"at_s": 1e300}, "at_s", id="after the end of time"),
        pytest.param({"seq": SEQ_MAX + 1}, "seq", id="a number that no counter holds"),
        pytest.param({"value": 1e31}, "value", id="a value whose square is none"),
        pytest.param({"value": -(10**31)}, "value", id="the same below nothing, and whole"),
        pytest.param({"units_done": 1e16}, "units_done", id="more units than anybody does"),
        pytest.param({"epoch_s": 1e13}, "epoch_s", id="an epoch of a geological age"),
        pytest.param({"workers": WORKERS_MAX + 1}, "workers", id="more workers than speeds are learned for"),
        pytest.param({"step": -1}, "step", id="a step below nothing"),
        pytest.param({"step": 1.0}, "step", id="a step with a fraction"),
        pytest.param({"metric": "x" * 129}, "metric", id="an enormous metric"),
        pytest.param({"metric": "a\x00b"}, "metric", id="a metric with a control character"),
        pytest.param({"units_total": -0.5}, "units_total", id="less than nothing to do"),
        pytest.param({"usage": 3}, "usage", id="usage that is a number"),
        pytest.param({"usage": {"cpu": -1}}, "usage.cpu", id="less than no processor"),
        pytest.param({"usage": {"memory_bytes": 1.5}}, "usage.memory_bytes", id="half a byte"),
        pytest.param({"job_uid": "a b"}, "job_uid", id="a uid with a blank"),
    ],
)
def test_what_is_no_report_is_refused_with_the_field(body, field):
    whole = {"pod": "a", "seq": 1, "at_s": 2.0, **body} if isinstance(body, dict) and body else body
    with pytest.raises(BadReport) as refusal:
        report_of(whole)
    assert refusal.value.field == field
    assert len(str(refusal.value)) < 300
    assert refusal.value.expected in str(refusal.value)


def test_in_a_batch_each_report_is_judged_by_itself_and_a_refusal_names_its_place():
    good = {"pod": "team-b/b", "seq": 1, "at_s": 1}
    bad = [{"pod": "team-a/a", "seq": SEQ_MAX + 1, "at_s": 1}, {"pod": "a", "value": "x"}, {"pod": "../a"}, 7]
    batch = Batch.from_json(json.dumps({"reports": [bad[0], good, *bad[1:], {**good, "seq": 2}]}))
    assert [report.seq for report in batch.reports] == [1, 2]
    assert batch.places == (1, 5)
    assert [refusal[:2] for refusal in batch.refused] == [(0, "team-a/a"), (2, "a"), (3, ""), (4, "")]
    assert batch.refused[0].why.startswith(f"reports[0].seq: {SEQ_MAX + 1}; expected a whole number from 0 to")
    assert batch.refused[1].why.startswith("reports[2].value: 'x'")


def test_the_answer_to_a_batch_names_what_was_refused_and_why():
    answer = Answer("i", 1, {}, {3: "seq: 7", 0: "x" * (REASON_MAX + 1)})
    assert Answer.from_json(answer.to_json()).refused == {3: "seq: 7", 0: "x" * REASON_MAX}
    assert Answer.from_json(b'{"instance": "one-of-before"}').refused == {}
    for nonsense in ([1], [[1]], [[-1, "x"]], [["1", "x"]], [[1, 2]], [[REPORTS_MAX + 1, "x"]]):
        with pytest.raises(BadReport):
            Answer.from_json(json.dumps({"instance": "i", "refused": nonsense}))


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\xff\xfe", b"NaN", b'{"reports":[{"value":NaN}]}', b'{"a":-Infinity}', b"3", b"[" * 100_000,
     b'{"a":' + b"9" * 10_000 + b"}"],
    ids=["nothing", "half", "not UTF-8", "NaN", "NaN within", "infinity within", "a number", "deep", "a long number"],
)  # fmt: skip
def test_what_is_no_json_is_refused_as_a_body(text):
    with pytest.raises(BadReport) as refusal:
        Batch.from_json(text)
    assert refusal.value.field == "body"


@pytest.mark.parametrize("rows", [None, {}, "x", [{"pod": "a", "seq": 1, "at_s": 1}] * (REPORTS_MAX + 1)])
def test_a_batch_is_a_list_and_not_too_long(rows):
    with pytest.raises(BadReport) as refusal:
        Batch.from_json(json.dumps({"reports": rows}))
    assert refusal.value.field == "reports"


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["reports", "pod", "seq", "value", "usage", "cpu", "load", "node"]), inner),
    max_leaves=12,
))  # fmt: skip
def test_anything_at_all_is_a_batch_or_refused(body):
    try:
        batch = Batch.from_json(json.dumps(body))
    except BadReport:
        return
    assert Batch.from_json(batch.to_json()) == batch._replace(refused=(), places=())


def test_numbers_rise_even_when_the_clock_does_not():
    first = next_seq(1000.0)
    assert next_seq(1000.0, first) == first + 1
    assert next_seq(900.0, first) == first + 1
    assert next_seq(1001.0, first) == 1_001_000_000


@pytest.mark.parametrize(
    ("pod", "job", "belongs"),
    [
        ("train-worker-0", "train", True),
        ("train-ps-12", "train", True),
        ("train-worker-x7k2p", "train", True),
        ("train", "train", True),
        ("train-worker-worker-0", "train", False),  # of the job train-worker
        ("train-worker-worker-0", "train-worker", True),
        ("train-2-worker-0", "train", False),
        ("train2-worker-0", "train", False),
        ("train-worker-", "train", False),
        ("train-worker", "train", False),
        ("other-worker-0", "train", False),
        ("", "train", False),
    ],
)
def test_a_pods_name_says_whose_it_is(pod, job, belongs):
    assert is_of_job(pod, job) is belongs


def test_an_answer_comes_back_as_it_was():
    answer = Answer("i-1", 3, {"team/a": "(?P<value>.*)"})
    assert Answer.from_json(answer.to_json()) == answer


@pytest.mark.parametrize("text", [b"Ok", b"{}", b'{"instance":3}', b'{"instance":"i","follow":[]}'])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(BadReport):
        Answer.from_json(text)
