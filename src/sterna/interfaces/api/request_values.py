"""What a request says, read with care: a JSON body of known fields within its size, and numbers within their bounds.

Wrong input becomes `InvalidRequest`, which names the field. Whether a job or a policy of that name exists, the
scheduler says.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request

from sterna.interfaces.api.problem_details import Problem
from sterna.model.errors import InvalidRequest

BODY_BYTES_MAX = 1 << 20
BODY_S = "sterna.body_s"  # of a request's scope: how long its body may take

_READ_WITHIN_S = 30.0  # where the scope does not say
_TYPES = {str: "text", int: "a whole number", bool: "true or false", dict: "keys with values"}


class Refused(Exception):
    """A request that cannot even be read; carries what the asker is told."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.detail)


async def body_of(request: Request, shape: Mapping[str, type]) -> dict[str, Any]:
    """A JSON object whose fields have these types. Every field may be absent or null, and is None then."""
    content = await content_of(request)
    try:
        values = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError) as error:  # also bytes that are no UTF-8, and numbers without end
        told = str(error) if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise Refused(Problem(400, "malformed", f"the body is no JSON: {told}")) from None
    if not isinstance(values, dict):
        raise InvalidRequest(field="body", value=type(values).__name__, expected="a JSON object")
    for name, value in values.items():
        if name not in shape:
            raise InvalidRequest(field=name, value=value, expected="one of: " + ", ".join(shape))
        if value is not None and type(value) is not shape[name]:  # exact: true is no whole number
            raise InvalidRequest(field=name, value=value, expected=_TYPES[shape[name]])
    return {name: values.get(name) for name in shape}


def given(values: Mapping[str, Any], name: str) -> Any:
    """A field that must be there."""
    if values[name] is None:
        raise InvalidRequest(field=name, value=None, expected="a value: it is needed")
    return values[name]


def texts(values: Mapping[str, Any], field: str) -> dict[str, str]:
    """Text by name, where numbers and truth values may stand for the text that they are written as."""
    settings = {}
    for name, value in values.items():
        if not isinstance(value, str | int | float):
            raise InvalidRequest(field=f"{field}.{name}", value=value, expected="text or a number")
        settings[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings


def number(request: Request, name: str, *, default: int, most: int, least: int = 0) -> int:
    """A whole number of the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18 or not least <= int(text) <= most:
        raise InvalidRequest(field=name, value=text, expected=f"a whole number from {least} to {most}")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """A yes or no of the query; absent is no."""
    text = request.query_params.get(name, "0").lower()
    if text not in ("0", "1", "true", "false"):
        raise InvalidRequest(field=name, value=text, expected="1 or 0")
    return text in ("1", "true")


async def content_of(request: Request) -> bytes:
    """The body, read no further than it may be long and no longer than it may take."""
    size = request.headers.get("content-length", "0")
    if not size.isdigit() or len(size) > 18 or int(size) > BODY_BYTES_MAX:
        raise _too_large()
    content = bytearray()
    within_s = float(request.scope.get(BODY_S, _READ_WITHIN_S))
    try:
        async with asyncio.timeout(within_s):
            async for chunk in request.stream():
                content += chunk
                if len(content) > BODY_BYTES_MAX:
                    raise _too_large()
    except TimeoutError:
        raise Refused(Problem(408, "too-slow", f"the body did not arrive within {within_s:g} s")) from None
    except ClientDisconnect:
        raise Refused(Problem(400, "malformed", "the body ended early")) from None
    return bytes(content)


def _too_large() -> Refused:
    return Refused(Problem(413, "too-large", f"the body may have at most {BODY_BYTES_MAX} bytes"))
