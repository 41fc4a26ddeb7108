"""JSON that any text fits into: names and manifests may hold halves of characters, which UTF-8 has no bytes for."""

import json
from typing import Any

from starlette.responses import Response


class JsonAnswer(Response):
    """In ASCII, so that whatever a request contained can be told back."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")
