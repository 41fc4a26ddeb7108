"""The proxy carries what it is told to carry, and does to it what it is told to do."""

import http.client
import json
from collections.abc import Iterator

import pytest

from tests.cluster.chaos import ChaosProxy
from tests.cluster.control_plane import ControlPlane
from tests.cluster.faults import Answer, Cut, Delay, Drop, Repeat, Swap, random_fault
from tests.cluster.requests import Access, Api, ApiError, Body


@pytest.fixture
def through(chaos: ChaosProxy, control_plane: ControlPlane) -> Api:
    return Api(Access(chaos.url, control_plane.token()))


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def config(name: str, size: int = 1) -> Body:
    return {"metadata": {"name": name}, "data": {"x": "x" * size}}


def names(api: Api, path: str) -> set[str]:
    return {item["metadata"]["name"] for item in api.items(path)} - {"kube-root-ca.crt"}


def test_without_faults_it_is_another_door(chaos: ChaosProxy, control_plane: ControlPlane, through: Api, path: str):
    through.create(path, config("a", 200_000))
    assert len(through.get(f"{path}/a")["data"]["x"]) == 200_000
    assert names(control_plane.api(), path) == {"a"}
    assert [(seen.method, seen.status) for seen in chaos.requests] == [("POST", 201), ("GET", 200)]
    with pytest.raises(ApiError, match="403"):
        Api(Access(chaos.url, control_plane.token("alice"))).get(path)


@pytest.mark.parametrize("status", [409, 410, 429, 500, 503])
@pytest.mark.parametrize("forwarded", [False, True], ids=["instead", "although it was done"])
def test_an_error_is_answered(
    chaos: ChaosProxy, control_plane: ControlPlane, through: Api, path: str, status: int, forwarded: bool
):
    rule = chaos.inject(Answer(status, retry_after_s=7, forwarded=forwarded), method="POST", path="/configmaps")
    with pytest.raises(ApiError) as answered:
        through.create(path, config("a"))
    assert answered.value.status == status
    assert names(control_plane.api(), path) == ({"a"} if forwarded else set())
    through.create(path, config("b"))
    assert rule.hits == 1


@pytest.mark.parametrize("forwarded", [False, True], ids=["before", "after"])
def test_a_connection_is_dropped(
    chaos: ChaosProxy, control_plane: ControlPlane, through: Api, path: str, forwarded: bool
):
    chaos.inject(Drop(forwarded=forwarded), method="POST")
    with pytest.raises((http.client.HTTPException, OSError)):
        through.create(path, config("a"))
    assert names(control_plane.api(), path) == ({"a"} if forwarded else set())


def test_rules_count_and_can_let_some_pass_first(chaos: ChaosProxy, through: Api, path: str):
    rule = chaos.inject(Answer(500), path="configmaps$", times=2, after=1)
    outcomes = []
    for _ in range(4):
        try:
            through.get(path)
            outcomes.append(200)
        except ApiError as error:
            outcomes.append(error.status)
    assert outcomes == [200, 500, 500, 200]
    assert rule.hits == 2


def test_a_delayed_answer_is_the_right_one(chaos: ChaosProxy, through: Api, path: str):
    rule = chaos.inject(Delay(0.05))
    assert names(through, path) == set()
    assert rule.hits == 1


def watched(chaos: ChaosProxy, control_plane: ControlPlane, path: str) -> Iterator[str]:
    """The lines of a watch over six creations that already happened, as far as they come."""
    api = control_plane.api()
    since = api.get(path)["metadata"]["resourceVersion"]
    for index in range(6):
        api.create(path, config(f"c{index}"))
    connection = http.client.HTTPConnection("127.0.0.1", int(chaos.url.rsplit(":", 1)[1]), timeout=60)
    headers = {"Authorization": f"Bearer {control_plane.token()}"}
    connection.request("GET", f"{path}?watch=1&timeoutSeconds=2&resourceVersion={since}", headers=headers)
    response = connection.getresponse()
    text = b""
    try:
        while piece := response.read1():
            text += piece
    except (http.client.HTTPException, OSError):
        text += b"CUT"
    connection.close()
    yield from text.decode().splitlines()


def name_of(line: str) -> str:
    return line if line == "CUT" else str(json.loads(line)["object"]["metadata"]["name"])


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(None, "c0 c1 c2 c3 c4 c5", id="none"),
        pytest.param(Cut(events=2), "c0 c1 CUT", id="cut between events"),
        pytest.param(Cut(events=0), "CUT", id="cut before the first"),
        pytest.param(Repeat(), "c0 c0 c1 c1 c2 c2 c3 c3 c4 c4 c5 c5", id="every event twice"),
        pytest.param(Swap(), "c1 c0 c3 c2 c5 c4", id="out of order"),
    ],
)
def test_the_events_of_a_watch(
    chaos: ChaosProxy, control_plane: ControlPlane, path: str, fault: Cut | Repeat | Swap | None, expected: str
):
    if fault is not None:
        chaos.inject(fault, watch=True)
    assert [name_of(line) for line in watched(chaos, control_plane, path)] == expected.split()


def test_a_watch_is_cut_in_the_middle_of_a_line(chaos: ChaosProxy, control_plane: ControlPlane, path: str):
    chaos.inject(Cut(bytes=100), watch=True)
    (line,) = watched(chaos, control_plane, path)
    assert len(line) == 100 + len("CUT")


def test_nobody_listens_for_a_while(chaos: ChaosProxy, through: Api, path: str):
    chaos.refuse()
    with pytest.raises(ConnectionRefusedError):
        through.get(path)
    chaos.accept()
    assert names(through, path) == set()


def test_the_same_seed_draws_the_same_faults():
    import random

    def drawn(seed: int) -> list[str]:
        chance = random.Random(seed)
        return [repr(random_fault(chance, watch=index % 2 == 0, write=False)) for index in range(20)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_random_faults_end_when_cleared(chaos: ChaosProxy, through: Api, path: str):
    chaos.random(seed=3, rate=0.5)
    for _ in range(20):
        try:
            through.get(path)
        except (ApiError, http.client.HTTPException, OSError):
            continue
    assert {seen.fault is None for seen in chaos.requests} == {True, False}
    chaos.clear()
    assert names(through, path) == set()
