"""Which requests are answered: those meant for loopback, with the token that stands in the home.

The Host check keeps web pages out that resolve their own name to 127.0.0.1; the token keeps other users out. It is
compared in constant time and only ever read from the Authorization header, so it ends up in no URL and no log.
"""

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from sterna.interfaces.api.engine_home import LOOPBACK
from sterna.interfaces.api.json_answer import JsonAnswer
from sterna.interfaces.api.problem_details import MEDIA_TYPE, Problem

_OPEN = frozenset({"/healthz"})  # says whether an engine is there, nothing more


class Doorkeeper:
    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is spoken here
        problem = self._objection(scope)
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await problem_response(problem)(scope, receive, send)

    def _objection(self, scope: Scope) -> Problem | None:
        names = [name for name, _ in scope["headers"]]
        if b"transfer-encoding" in names and (b"content-length" in names or scope["http_version"] != "1.1"):
            return Problem(400, "malformed", "where the body ends is told twice: by its length and by chunks")
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or _name(hosts[0]) not in LOOPBACK:
            return Problem(421, "wrong-host", "this engine answers on loopback only: 127.0.0.1 or localhost")
        if scope["path"] in _OPEN:
            return None
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return Problem(401, "unauthorised", "a bearer token is needed; the file `token` in the home has it")
        scheme, _, token = given[0].partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            return Problem(401, "unauthorised", "the token is not this engine's")
        return None


def problem_response(problem: Problem) -> JsonAnswer:
    headers = {"cache-control": "no-store"}
    if problem.status == 401:
        headers["www-authenticate"] = 'Bearer realm="sterna"'
    if problem.status in (400, 401, 408, 413, 421):
        headers["connection"] = "close"  # the body may not have been read: what follows is no request
    if (retry_after_s := problem.more.get("retryAfterSeconds")) is not None:
        headers["retry-after"] = str(max(1, round(retry_after_s)))
    return JsonAnswer(problem.record, problem.status, headers=headers, media_type=MEDIA_TYPE)


def _name(host: bytes) -> str:
    """`127.0.0.1:80`, `localhost` and `[::1]:80` without their ports."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]
