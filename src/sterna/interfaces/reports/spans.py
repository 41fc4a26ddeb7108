"""Times and amounts as people read them: `1h2m3s`, `3d4h`, `512 MiB`, `42 %`."""

from datetime import UTC, datetime

NOTHING = "-"

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def clock_span(seconds: float | None) -> str:
    """Rounded to seconds, in hours, minutes and seconds, as Voda's list has it: `1h2m3s`, `2m0s`, `7s`."""
    if seconds is None:
        return NOTHING
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def short_span(seconds: float | None) -> str:
    """In its two largest units: `45s`, `12m3s`, `3h20m`, `5d4h`; below a second `0.35s`."""
    if seconds is None:
        return NOTHING
    if 0 < seconds < 1:
        return f"{seconds:.2g}s"
    if seconds < 10 and seconds != round(seconds):
        return f"{seconds:.1f}s"
    whole = max(0, round(seconds))
    for unit_s, unit, small_s, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // small_s
            return f"{whole // unit_s}{unit}{rest}{small}" if rest else f"{whole // unit_s}{unit}"
    return f"{whole}s"


def age_s(at: str | None, now: datetime | None = None) -> float | None:
    """Seconds since a moment in ISO 8601; None where there is none, or none that can be read."""
    if not at:
        return None
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, ((now or datetime.now(UTC)) - moment).total_seconds())


def size(bytes_: float | None) -> str:
    if bytes_ is None:
        return NOTHING
    amount, unit = float(bytes_), 0
    while amount >= 1024 and unit < len(_SIZES) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_SIZES[unit]}" if unit == 0 or amount >= 100 else f"{amount:.3g} {_SIZES[unit]}"


def share(part: float | None) -> str:
    """0.42 as `42%`. Only what is done is 100 %."""
    if part is None:
        return NOTHING
    return f"{min(99.9, part * 100):.0f}%" if part < 0.995 else ("100%" if part >= 1 else "99%")


def cores(milli: float | None) -> str:
    return NOTHING if milli is None else f"{milli / 1000:g}"
