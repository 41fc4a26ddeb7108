"""Tokens of monitors at the door: what is asked of the API server for them, and what a flood of forged ones costs."""

import asyncio
import base64
import json
from typing import Any

import pytest

from sterna.engines.kubernetes.apiserver.objects import (
    Meta,
    Pod,
    PodSpec,
    ReviewedUser,
    ReviewStatus,
    TokenReviewObject,
)
from sterna.engines.kubernetes.apiserver.port import PODS, TOKEN_REVIEWS, Missing, Refused, Resource
from sterna.engines.kubernetes.progress.monitor_tokens import (
    ADMITTED_S,
    AUDIENCE,
    REFUSED_S,
    REVIEWS_MAX,
    REVIEWS_PER_S,
    TOKEN_CHARACTERS_MAX,
    MonitorTokens,
)
from sterna.model.errors import EngineUnavailable
from tests.waiting import others_run

USER = "system:serviceaccount:mon:sterna-monitor"
BOUND = {"authentication.kubernetes.io/pod-name": ["monitor-1"], "authentication.kubernetes.io/pod-uid": ["u1"]}


def token_of(signature: str, **claims: Any) -> str:
    said = {"sub": USER, "aud": [AUDIENCE], **claims}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b'=').decode()}.{signature}"


class ApiServer:
    """Implements what is asked of an `Api` here: a token is genuine if it ends in `good`, its pod is on node-1."""

    def __init__(self) -> None:
        self.reviews = 0
        self.status: dict[str, Any] = {}  # what it says otherwise
        self.pod: Pod | None = Pod(metadata=Meta(name="monitor-1", uid="u1"), spec=PodSpec(node_name="node-1"))
        self.trouble: Exception | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def create(self, resource: Resource, body: Any, *, shape: type, urgency: Any) -> TokenReviewObject:
        assert (resource, body["spec"]["audiences"]) == (TOKEN_REVIEWS, [AUDIENCE])
        self.reviews += 1
        await self.go_on.wait()
        if self.trouble is not None:
            raise self.trouble
        if not body["spec"]["token"].endswith("good"):
            return TokenReviewObject()
        user = ReviewedUser(username=USER, extra=BOUND)
        said: dict[str, Any] = {"authenticated": True, "user": user, "audiences": [AUDIENCE], **self.status}
        return TokenReviewObject(status=ReviewStatus(**said))

    async def get(self, resource: Resource, name: str, *, namespace: str, shape: type) -> Pod:
        assert (resource, name, namespace) == (PODS, "monitor-1", "mon")
        if self.pod is None:
            raise Missing("pod", name)
        return self.pod


class Scene:
    def __init__(self) -> None:
        self.now_s = 1000.0
        self.server = ApiServer()
        self.tokens = MonitorTokens(self.server, "mon/sterna-monitor", now_s=lambda: self.now_s)  # type: ignore[arg-type]

    def node_of(self, token: str) -> str | None:
        return asyncio.run(self.tokens.node_of(token))


def test_a_genuine_token_is_reviewed_once_in_a_while_and_says_its_node():
    scene = Scene()
    assert [scene.node_of(token_of("good")) for _ in range(3)] == ["node-1"] * 3
    assert scene.server.reviews == 1
    scene.server.pod = None
    scene.now_s += ADMITTED_S
    assert (scene.node_of(token_of("good")), scene.server.reviews) == (None, 2), "its pod has gone meanwhile"


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"authenticated": False}, id="not genuine"),
        pytest.param({"audiences": []}, id="for no audience that the server knows of"),
        pytest.param({"audiences": ["https://kubernetes.default.svc"]}, id="for the API server itself"),
        pytest.param(
            {"user": ReviewedUser(username="system:serviceaccount:mon:other", extra=BOUND)}, id="another account's"
        ),
        pytest.param({"user": ReviewedUser(username=USER)}, id="bound to no pod"),
    ],
)
def test_s1_what_the_api_server_does_not_vouch_for_is_refused(status: dict[str, Any]):
    scene = Scene()
    scene.server.status = status
    assert scene.node_of(token_of("good")) is None


def test_s1_a_pod_of_the_same_name_that_came_later_is_another_one():
    scene = Scene()
    scene.server.pod = Pod(metadata=Meta(name="monitor-1", uid="u2"), spec=PodSpec(node_name="node-1"))
    assert scene.node_of(token_of("good")) is None


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("", id="nothing"),
        pytest.param("a.b", id="too few parts"),
        pytest.param("a.!!.good", id="no base64"),
        pytest.param("a.bm90IGpzb24.good", id="no JSON"),
        pytest.param("a." + base64.urlsafe_b64encode(b"[" * 3000).decode() + ".good", id="a deep one"),
        pytest.param("a.MTI.good", id="no claims"),
        pytest.param(token_of("good", sub="system:serviceaccount:mon:other"), id="another account's"),
        pytest.param(token_of("good", aud=["https://kubernetes.default.svc"]), id="another audience's"),
        pytest.param(token_of("good", aud=None), id="nobody's"),
        pytest.param(token_of("good", more="x" * TOKEN_CHARACTERS_MAX), id="an enormous one"),
    ],
)
def test_what_cannot_be_one_is_not_even_reviewed(token: str):
    scene = Scene()
    assert (scene.node_of(token), scene.server.reviews) == (None, 0)


def test_s3_a_flood_of_forged_tokens_asks_little_and_makes_us_forget_no_monitor():
    scene = Scene()
    assert scene.node_of(token_of("good")) == "node-1"
    answers = {"refused": 0, "later": 0}
    for number in range(20_000):
        scene.now_s = 1000.0 + number / 10_000  # two seconds
        try:
            assert scene.node_of(token_of(f"forged-{number}")) is None
            answers["refused"] += 1
        except EngineUnavailable:
            answers["later"] += 1
    assert scene.server.reviews == 1 + answers["refused"] <= 1 + 3 * REVIEWS_PER_S
    assert scene.node_of(token_of("good")) == "node-1"


def test_s3_a_refused_token_is_refused_again_without_asking_for_a_moment():
    scene = Scene()
    for _ in range(100):
        assert scene.node_of(token_of("forged")) is None
    assert scene.server.reviews == 1
    scene.now_s += REFUSED_S
    assert (scene.node_of(token_of("forged")), scene.server.reviews) == (None, 2)


def test_s3_no_more_reviews_than_so_many_are_under_way():
    scene = Scene()

    async def story() -> list[Any]:
        scene.server.go_on.clear()
        asked = [asyncio.create_task(scene.tokens.node_of(token_of(f"{n}-good"))) for n in range(REVIEWS_MAX + 3)]
        while scene.server.reviews < REVIEWS_MAX:
            await others_run()
        scene.server.go_on.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(story())
    assert found[:REVIEWS_MAX] == ["node-1"] * REVIEWS_MAX
    assert [type(error) for error in found[REVIEWS_MAX:]] == [EngineUnavailable] * 3


def test_without_the_right_to_review_it_is_said_and_nothing_is_remembered():
    scene = Scene()
    scene.server.trouble = Refused("tokenreviews is forbidden", code=403)
    with pytest.raises(EngineUnavailable, match="forbidden"):
        scene.node_of(token_of("good"))
    scene.server.trouble = None
    assert scene.node_of(token_of("good")) == "node-1"
