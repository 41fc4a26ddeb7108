"""What a server takes of any client. Values, and how the environment changes them."""

import math
import resource
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from sterna.model.errors import InvalidRequest

VARIABLE = "STERNA_HTTP_LIMITS"

_FILES_SHARE = 4  # a listener's connections take a quarter of the files that the process may hold
_CONNECTIONS_MIN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    connections: int = 256  # in all; one more closes the one that has waited longest without a request
    per_address: int = 64  # of these from one address (IPv6: one /64)
    line_bytes: int = 8190  # of the request line
    header_bytes: int = 4096  # of one header, unfinished ones included
    headers: int = 40
    body_bytes: int = 1 << 20
    bodies_bytes: int = 16 << 20  # of all bodies that are being read, together
    head_s: float = 10.0  # from a connection's beginning, or a head's first byte, to the head's end
    body_s: float = 30.0  # from the end of the head to the end of the body
    answer_s: float = 30.0  # for taking some of an answer that does not fit into the buffers
    idle_s: float = 75.0  # between an answer and the next request

    def within_files(self) -> "Limits":
        """With no more connections than the process has files for."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return self
        most = min(self.connections, max(_CONNECTIONS_MIN, soft // _FILES_SHARE))
        return replace(self, connections=most, per_address=min(self.per_address, most))


def limits_from(environment: Mapping[str, str], defaults: Limits = Limits()) -> Limits:
    """`STERNA_HTTP_LIMITS=head_s=5,connections=100`; what is not named stays. Raises InvalidRequest."""
    types = {field.name: field.type for field in fields(Limits)}
    changes: dict[str, Any] = {}
    for part in filter(None, environment.get(VARIABLE, "").split(",")):
        name, _, text = part.partition("=")
        name = name.strip()
        if name not in types:
            raise InvalidRequest(field=VARIABLE, value=part, expected="name=number, of: " + ", ".join(types))
        try:
            value: float = int(text) if types[name] is int else float(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            expected = "a whole number above 0" if types[name] is int else "a number of seconds above 0"
            raise InvalidRequest(field=f"{VARIABLE}: {name}", value=text, expected=expected)
        changes[name] = value
    return replace(defaults, **changes)
