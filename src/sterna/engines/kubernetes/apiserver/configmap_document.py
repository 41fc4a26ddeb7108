"""A document as the data of a ConfigMap: plain text, packed where it would not fit into one otherwise."""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any

from sterna.model.errors import InvalidRequest

PACKED_FROM_BYTES = 256 << 10  # a ConfigMap holds a megabyte


def data_of(key: str, document: Mapping[str, Any]) -> dict[str, str]:
    """Under `key`, or under `key` with `.zlib` behind it. Equal documents give equal data."""
    text = json.dumps(document, separators=(",", ":"))
    if len(text) < PACKED_FROM_BYTES:
        return {key: text}
    return {f"{key}.zlib": base64.b64encode(zlib.compress(text.encode(), 6)).decode()}


def document_of(key: str, data: Mapping[str, str]) -> Any:
    """`ValueError`: it is not there, or is no document."""
    try:
        if (packed := data.get(f"{key}.zlib")) is not None:
            return json.loads(zlib.decompress(base64.b64decode(packed, validate=True)))
        return json.loads(data[key])
    except (KeyError, TypeError, zlib.error, binascii.Error) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def unreadable(name: str, data: Mapping[str, str], error: Exception, *, without: str) -> InvalidRequest:
    """The error for a ConfigMap `name` whose data no operator wrote."""
    expected = f"what an operator wrote there; {without} ({type(error).__name__})"
    return InvalidRequest(field=name, value=", ".join(data), expected=expected)
