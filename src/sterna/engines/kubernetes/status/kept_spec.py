"""The last valid spec of a job, as one text of its standing: what the job goes by while its spec is not valid. Pure.

An operator that is restarted after an invalid edit knows nothing but what the cluster keeps, and the object has only
the edit. The text is written whenever a valid spec was read, together with whatever else is written then. It is in the
status, which owners of jobs need no right to write, and is read by the same strict reader as the spec itself: whatever
stands there can ask for nothing that a spec could not. Packed, since a job's status is written often and read by all.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

KEPT_MAX = 128 << 10  # characters: an object has 1.5 MB in all, and the spec itself is among it
_PLAIN_MAX_BYTES = 3 << 20  # more than an API server takes in one request
_READ = ("sterna.dev/", "vodascheduler/", "DRAGON_")  # keys that begin so mean something to the reader of manifests


class KeptSpec(NamedTuple):
    """What an owner wrote, as far as the reader of manifests looks at it."""

    spec: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def kept_spec(spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]) -> KeptSpec:
    """Of an object as it is now. Labels and annotations of others change often and mean nothing here: they are left
    out, so that no status is written because of them.
    """
    return KeptSpec(spec, _read(labels), _read(annotations))


def kept_text(found: KeptSpec, *, known: str = "") -> str:
    """Empty: it is too large to be kept. `known` as it is if it says the same, however it was packed."""
    plain = json.dumps(found._asdict(), separators=(",", ":"), sort_keys=True)
    text = base64.b64encode(zlib.compress(plain.encode(), 6)).decode()
    if len(text) > KEPT_MAX:
        return ""
    return known if known and known != text and kept_read(known) == found else text


def kept_read(text: str) -> KeptSpec | None:
    """None: it is not such a text."""
    if not text or len(text) > KEPT_MAX:
        return None
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(base64.b64decode(text, validate=True), _PLAIN_MAX_BYTES)
        found = json.loads(plain) if unpacker.eof else None
    except (ValueError, zlib.error, binascii.Error, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    spec, labels, annotations = (found.get(name) for name in KeptSpec._fields)
    if not isinstance(spec, dict) or not _are_texts(labels) or not _are_texts(annotations):
        return None
    return KeptSpec(spec, labels or {}, annotations or {})


def _read(pairs: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if key.startswith(_READ)}


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(part, str) for part in value.values())
