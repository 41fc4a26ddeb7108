"""Moments as Kubernetes writes them (RFC 3339, UTC) and as we count them (seconds since 1970). Pure."""

from datetime import UTC, datetime, timedelta

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def moment_text(at_s: float) -> str:
    """To the microsecond."""
    return _at(round(at_s * 1e6)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def second_text(at_s: float) -> str:
    """To the second, as fields that other people's programs read have it."""
    return _at(int(at_s // 1) * 1_000_000).isoformat(timespec="seconds").replace("+00:00", "Z")


def moment_s(text: object) -> float | None:
    """None: it is no moment."""
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        found = datetime.fromisoformat(text)
        return (found - _BEGINNING) // _MICROSECOND / 1e6 if found.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _at(microseconds: int) -> datetime:
    return _BEGINNING + microseconds * _MICROSECOND
