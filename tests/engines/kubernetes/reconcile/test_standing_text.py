"""How a job stands as text in its status: there and back, whoever wrote it."""

import json
from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.engines.kubernetes.apiserver.timestamps import moment_s, moment_text, second_text
from sterna.engines.kubernetes.status.standing import Announcement, Change, Past, Progress, Reported, Seat, Standing
from sterna.engines.kubernetes.status.standing_codec import KEYS, standing_read, standing_text
from sterna.engines.kubernetes.status.status_reading import status_read
from sterna.lifecycle.admission_denials import Denial, cleaned
from sterna.lifecycle.counted_requests import CountedRequest
from sterna.lifecycle.node_refusals import Refusal
from sterna.model.growth import Category, Growth
from sterna.model.ids import DeviceId, NodeId
from sterna.model.jobs import Disruption, Role, Worker
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from tests.legal_names import CARDS, MIGRATION_KEYS, SUBDOMAINS

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = st.sampled_from(["n1", "node-2.rack.example", "GPU-7f3", "a", "resize"]) | SUBDOMAINS
TEXTS = st.text(max_size=10)
COUNTS = st.integers(0, 10**6)
NUMBERS = st.floats(0, 1e12, allow_nan=False)
MOMENTS = st.integers(1, 4 * 10**15).map(lambda micros: micros / 1e6)  # what a microsecond can tell
WORKERS = st.builds(
    Worker,
    st.sampled_from(Role),
    st.integers(0, 999),
    NAMES.map(NodeId),
    st.lists(CARDS.map(DeviceId), max_size=3).map(tuple),
)
SEATS = st.lists(
    st.builds(Seat, WORKERS, st.sampled_from(["abcde", "zzzzz", ""])),
    max_size=3,
    unique_by=lambda seat: seat.worker[:2],
).map(tuple)
HELD = st.lists(WORKERS, max_size=2).map(tuple)
MAYBE = st.none() | NUMBERS
PROGRESS = st.builds(Progress, COUNTS, COUNTS, NUMBERS, MAYBE, MAYBE, MAYBE, MAYBE, COUNTS)
REPORTED = st.builds(Reported, MOMENTS, NUMBERS, MAYBE, COUNTS, MAYBE)
GROWTHS = st.builds(Growth, st.sampled_from(Category), MAYBE, MAYBE, MOMENTS)
ASKED = st.just("") | MIGRATION_KEYS
CHANGES = st.builds(Change, NAMES, NAMES, TEXTS, HELD, HELD, MOMENTS, st.none() | MOMENTS, st.none() | COUNTS, ASKED)
PASTS = st.builds(
    Past, NAMES, NAMES, TEXTS, HELD, HELD, MOMENTS, MOMENTS, st.none() | NUMBERS, st.none() | COUNTS, NAMES, NAMES
)
AMOUNTS = st.builds(Resources, *(st.integers(0, 10**15),) * 4)
ANNOUNCEMENTS = st.builds(Announcement, COUNTS, MOMENTS, NAMES, TEXTS, st.booleans(), st.just("") | NAMES)
BY_NAME = {
    "phase": st.sampled_from(Phase),
    "reason": TEXTS,
    "message": TEXTS,
    "decision": st.just("") | NAMES,
    "numbers": st.dictionaries(NAMES, NUMBERS | TEXTS, max_size=3).map(lambda d: tuple(d.items())),
    "seats": SEATS,
    "done": st.lists(st.tuples(st.sampled_from(Role), st.integers(0, 999)), max_size=3).map(tuple),
    "answered": st.lists(TEXTS, max_size=3).map(tuple),
    "progress": st.none() | PROGRESS,
    "denial": st.none()
    | st.builds(
        Denial,
        TEXTS.map(cleaned),
        st.integers(0, 99),
        st.none() | MOMENTS,
        st.none() | MOMENTS,
        st.integers(0, 99),
        st.integers(0, 99),
    ),
    "refusals": st.lists(
        st.builds(Refusal, NAMES.map(NodeId), st.integers(1, 99), st.none() | MOMENTS), max_size=3
    ).map(tuple),
    "counted": st.lists(st.builds(CountedRequest, st.sampled_from(Role), AMOUNTS, AMOUNTS), max_size=3).map(tuple),
    "reported": st.none() | REPORTED,
    "growth": st.none() | GROWTHS,
    "metric": st.just("") | NAMES,
    "kept": st.just("") | TEXTS,
    "judged": st.dictionaries(NAMES, NUMBERS | st.lists(NUMBERS, max_size=3), max_size=3),
    "disruptions": st.lists(st.builds(Disruption, MOMENTS, NAMES, NUMBERS), max_size=3).map(tuple),
    "change": st.none() | CHANGES,
    "history": st.lists(PASTS, max_size=2).map(tuple),
    "announcements": st.lists(ANNOUNCEMENTS, max_size=3).map(tuple),
}
MOMENTS_OR_NONE = {f.name for f in fields(Standing) if f.name.endswith("_s") and f.default is None}
MOMENTS_ALWAYS = {"as_of_s", "resumes_s"}


def by_type(field):
    if field.name in BY_NAME:
        return BY_NAME[field.name]
    if field.name in MOMENTS_OR_NONE:
        return st.none() | MOMENTS
    if field.name in MOMENTS_ALWAYS:
        return MOMENTS
    return COUNTS if isinstance(field.default, int) and not isinstance(field.default, float) else NUMBERS


def sound(values):
    """Only those who run, or are being resized, hold anything."""
    standing = Standing(**values)
    if standing.seats:
        return replace(standing, phase=Phase.RUNNING)
    return replace(standing, phase=Phase.RESIZING) if standing.phase is Phase.RUNNING else standing


STANDINGS = st.fixed_dictionaries({}, optional={field.name: by_type(field) for field in fields(Standing)}).map(sound)


@UNHURRIED
@given(STANDINGS)
def test_what_is_written_is_read_again(standing):
    text = json.dumps(standing_text(standing))
    found, note = standing_read(json.loads(text))
    assert not note
    assert found == standing
    assert json.dumps(standing_text(found)) == text


@UNHURRIED
@given(STANDINGS)
def test_r11_keys_of_a_newer_operator_are_passed_over_and_missing_ones_have_their_defaults(standing):
    body = standing_text(standing)
    assert standing_read({**body, "fromTheFuture": {"deep": [1]}}) == (standing, "")
    for key in body.keys() - {"phase", "seats"}:  # one goes with the other
        less, note = standing_read({other: value for other, value in body.items() if other != key})
        assert not note
        assert isinstance(less, Standing)


def test_r11_a_text_of_this_release_is_still_read():
    body = {
        "phase": "Running",
        "reason": "NextInOrder",
        "seats": ["ps/0/n1/abcde", "worker/0/n2/fghij/0,1"],
        "incarnation": 3,
        "enqueuedAt": "2024-05-01T10:00:00.000000Z",
        "asOf": "2024-05-01T10:00:01.500000Z",
        "gpuSeconds": 12.5,
        "change": {"kind": "resize", "beganAt": "2024-05-01T10:00:00Z", "before": ["worker/0/n2"]},
    }
    found, note = standing_read(body)
    assert not note
    assert found.assigned[1] == Worker(Role.WORKER, 0, NodeId("n2"), (DeviceId("0"), DeviceId("1")))
    assert found.enqueued_s is not None
    assert (found.incarnation, found.gpu_s, found.as_of_s - found.enqueued_s) == (3, 12.5, 1.5)
    assert found.change is not None
    assert found.change.before == (Worker(Role.WORKER, 0, NodeId("n2")),)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(sorted(KEYS)), ANYTHING, max_size=6) | ANYTHING)
def test_r10_whatever_a_user_writes_there_is_never_an_exception(body):
    found, _ = standing_read(body)
    assert isinstance(found, Standing)
    assert isinstance(status_read({"scheduling": body, "conditions": body, "replicaStatuses": body}).recorded, Standing)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("nonsense", id="a text"),
        pytest.param({"seats": "worker/0/n1/abcde"}, id="no list"),
        pytest.param({"seats": ["worker/0/n1"]}, id="a seat without a slot"),
        pytest.param({"seats": ["worker/0/n1/abcde", "worker/0/n2/fghij"]}, id="one place twice"),
        pytest.param({"seats": ["worker/-1/n1/abcde"]}, id="an ordinal below 0"),
        pytest.param({"seats": ["emperor/0/n1/abcde"]}, id="no such role"),
        pytest.param({"seats": ["worker/0//abcde"]}, id="no node"),
        pytest.param({"phase": "Dreaming"}, id="no such phase"),
        pytest.param({"phase": "Running"}, id="one that runs holds something"),
        pytest.param({"seats": ["worker/0/n1/abcde"]}, id="one that waits does not"),
        pytest.param({"phase": "Succeeded", "seats": ["worker/0/n1/abcde"]}, id="nor one that has ended"),
        pytest.param({"incarnation": True}, id="a bool is no count"),
        pytest.param({"incarnation": -1}, id="no negative count"),
        pytest.param({"incarnation": float("inf")}, id="no end of incarnations"),
        pytest.param({"gpuSeconds": float("nan")}, id="not a number"),
        pytest.param({"startedAt": "yesterday"}, id="no moment"),
        pytest.param({"startedAt": "2024-05-01T10:00:00"}, id="a moment of nowhere"),
        pytest.param({"change": []}, id="no change"),
    ],
)
def test_what_makes_no_sense_is_an_empty_standing_and_a_note(body):
    found, note = standing_read(body)
    assert found == Standing()
    assert "cannot be read" in note


@pytest.mark.parametrize("body", [None, {}])
def test_a_job_that_nobody_has_seen_yet_has_no_standing_and_nothing_is_wrong_with_that(body):
    assert standing_read(body) == (Standing(), "")


def test_moments_are_told_to_the_microsecond_or_to_the_second():
    at_s = 1_700_000_000.123456
    assert moment_text(at_s) == "2023-11-14T22:13:20.123456Z"
    assert second_text(at_s) == "2023-11-14T22:13:20Z"
    assert moment_s(moment_text(at_s)) == at_s
    assert moment_s("2023-11-14T23:13:20+01:00") == 1_700_000_000.0
    assert moment_s("2023-11-14T22:13:20.123456789Z") == at_s
