"""Every error Sterna raises on purpose. The class says what to do next, the message what happened and what would help.

Foreign exceptions become one of these in the adapter that met them; anything else that escapes is a bug.
"""


class SternaError(Exception):
    """Base of all errors raised on purpose."""


class InvalidRequest(SternaError):
    """The asker can fix it: names the field, the value and what would do (exit 2, HTTP 422)."""

    def __init__(self, *, field: str, value: object, expected: str) -> None:
        self.field = field
        self.value = value
        self.expected = expected
        super().__init__(f"{field}: {_shown(value)} is not valid; expected {expected}")


class NotFound(SternaError):
    """There is no such thing, or no longer (exit 3, HTTP 404)."""

    def __init__(self, kind: str, name: str, *, hint: str = "") -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"there is no {kind} {_shown(name)}" + (f"; {hint}" if hint else ""))


class Conflict(SternaError):
    """What is asked for contradicts what is there; the message says what, and what would do (exit 1, HTTP 409)."""


class StaleView(SternaError):
    """The world moved on since the snapshot: look again. Normal, and not worth an error in a log."""


class EngineUnavailable(SternaError):
    """Trouble outside this process, worth another try after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class EngineRefused(SternaError):
    """A final no from outside this process; becomes the job's visible reason."""


class InvariantBroken(SternaError):
    """Our own bug: apply nothing, keep the snapshot, say so loudly."""


def _shown(value: object) -> str:
    text = repr(value)  # a hostile value must not flood a terminal; of a path the end says most
    return text if len(text) <= 120 else f"{text[:40]}...{text[-77:]}"
