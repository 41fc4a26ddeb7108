"""What a policy remembers, as the data of a ConfigMap: plain text, packed where it would not fit into one otherwise."""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping

from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.target import PolicyMemory

PACKED_FROM_BYTES = 256 << 10  # a ConfigMap holds a megabyte
_PLAIN, _PACKED = "memory.json", "memory.json.zlib"


def memory_data(memory: PolicyMemory) -> dict[str, str]:
    """Equal memories give equal data, so that what has not changed is not written."""
    document = {
        "jobs": {job_id: dict(sorted(kept.items())) for job_id, kept in sorted(memory.jobs.items())},
        "values": dict(sorted(memory.values.items())),
        "lastActionSeconds": memory.last_action_s,
    }
    text = json.dumps(document, separators=(",", ":"))
    if len(text) < PACKED_FROM_BYTES:
        return {_PLAIN: text}
    return {_PACKED: base64.b64encode(zlib.compress(text.encode(), 6)).decode()}


def memory_of(data: Mapping[str, str] | None) -> PolicyMemory:
    """`InvalidRequest`: somebody wrote something else there."""
    if not data:
        return PolicyMemory()
    try:
        if _PACKED in data:
            text = zlib.decompress(base64.b64decode(data[_PACKED], validate=True)).decode()
        else:
            text = data[_PLAIN]
        document = json.loads(text)
        last_s = document["lastActionSeconds"]
        return PolicyMemory(
            {JobId(job_id): _numbers(kept) for job_id, kept in document["jobs"].items()},
            _numbers(document["values"]),
            None if last_s is None else float(last_s),
        )
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error, binascii.Error) as error:
        expected = f"what an operator wrote there; without it, policies begin anew ({type(error).__name__})"
        raise InvalidRequest(field="sterna-memory", value=", ".join(data), expected=expected) from None


def _numbers(kept: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in kept.items()}
