"""On which node the monitor is whose token this is, as the API server says.

The kubelet gives each monitor's pod a token of the monitors' service account that is good for our door alone (its
audience) and bound to that pod. A TokenReview says whether it is genuine and of which pod; the pod says on which node.
So no secret of ours is ever on a node, and one node's monitor cannot be another's (docs/decisions/0019).

Any caller of the door can send tokens that look like one. What cannot be one is not reviewed at all, reviews are
limited in number, and what was refused is remembered for a moment, apart from what was admitted, so that a flood makes
us forget no monitor.
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import NamedTuple

from sterna.engines.kubernetes.apiserver.objects import Pod, TokenReviewObject
from sterna.engines.kubernetes.apiserver.port import PODS, TOKEN_REVIEWS, Api, Missing, Refused, Urgency
from sterna.model.errors import EngineUnavailable
from sterna.protocol.tokens import digest_of

AUDIENCE = "sterna-door"  # the chart asks for it
ADMITTED_S = 300.0  # a monitor's pod that is deleted is listened to for so long at most
REFUSED_S = 10.0
TOKEN_CHARACTERS_MAX = 8192
REVIEWS_MAX = 8  # at the same time
REVIEWS_PER_S = 50

_ADMITTED_MAX, _REFUSED_MAX = 8192, 1024
_POD_NAME, _POD_UID = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"


class _Verdict(NamedTuple):
    node: str | None
    at_s: float


class MonitorTokens:
    """`account`: namespace/name of the service account that monitors run as. `now_s`: a clock that never goes back."""

    def __init__(self, api: Api, account: str, *, now_s: Callable[[], float]) -> None:
        self._api = api
        self._namespace, _, name = account.partition("/")
        self._user = f"system:serviceaccount:{self._namespace}:{name}"
        self._now_s = now_s
        self._admitted: dict[str, _Verdict] = {}  # by digest, the oldest first
        self._refused: dict[str, _Verdict] = {}
        self._in_review = 0
        self._second, self._reviews = 0, 0  # how many were begun in this second

    async def node_of(self, token: str) -> str | None:
        """None: it is no monitor's. `EngineUnavailable`: that cannot be said now."""
        if not self._is_likely(token):
            return None
        key, now_s = digest_of(token), self._now_s()
        for verdicts, kept_s in ((self._admitted, ADMITTED_S), (self._refused, REFUSED_S)):
            known = verdicts.get(key)
            if known is not None and now_s - known.at_s < kept_s:
                return known.node
        self._require_turn(now_s)
        self._in_review += 1
        try:
            node = await self._reviewed(token)
        except Refused as error:
            raise EngineUnavailable(f"tokens of monitors cannot be reviewed: {error}", retry_after_s=30.0) from error
        finally:
            self._in_review -= 1
        self._remember(key, _Verdict(node, now_s))
        return node

    def _is_likely(self, token: str) -> bool:
        """Does it claim, whatever its signature, to be such a token?"""
        parts = token.split(".")
        if len(parts) != 3 or len(token) > TOKEN_CHARACTERS_MAX:
            return False
        try:
            claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        except (ValueError, RecursionError, binascii.Error):
            return False
        if not isinstance(claims, dict) or claims.get("sub") != self._user:
            return False
        audience = claims.get("aud")
        return AUDIENCE in audience if isinstance(audience, list) else audience == AUDIENCE

    def _require_turn(self, now_s: float) -> None:
        if int(now_s) != self._second:
            self._second, self._reviews = int(now_s), 0
        if self._in_review >= REVIEWS_MAX or self._reviews >= REVIEWS_PER_S:
            raise EngineUnavailable("many tokens are being reviewed; ask again", retry_after_s=2.0)
        self._reviews += 1

    async def _reviewed(self, token: str) -> str | None:
        body = {"spec": {"token": token, "audiences": [AUDIENCE]}}
        review = await self._api.create(TOKEN_REVIEWS, body, shape=TokenReviewObject, urgency=Urgency.READ)
        said, extra = review.status, review.status.user.extra or {}
        if not said.authenticated or AUDIENCE not in (said.audiences or ()) or said.user.username != self._user:
            return None
        name, uid = (next(iter(extra.get(key, ())), "") for key in (_POD_NAME, _POD_UID))
        if not name or not uid:
            return None  # of the account, and bound to no pod: it could be used from anywhere
        try:
            pod = await self._api.get(PODS, name, namespace=self._namespace, shape=Pod)
        except Missing:
            return None
        return (pod.spec.node_name or None) if pod.metadata.uid == uid else None

    def _remember(self, key: str, verdict: _Verdict) -> None:
        verdicts, most = (self._refused, _REFUSED_MAX) if verdict.node is None else (self._admitted, _ADMITTED_MAX)
        verdicts.pop(key, None)
        while len(verdicts) >= most:
            del verdicts[next(iter(verdicts))]
        verdicts[key] = verdict
