"""How many workers: what the manifest says in its kind's own words, in our annotations, or by leaving it out."""

import re
from typing import NamedTuple

from sterna.wire.fields import COUNT_MAX
from sterna.wire.manifests.findings import Findings, Path, shown
from sterna.wire.manifests.job_shapes import Metadata

_WHOLE = re.compile(r"[0-9]{1,9}")


class Said(NamedTuple):
    """A number and where it is written."""

    path: Path
    value: int


class Bounds(NamedTuple):
    low: int = 1
    high: int = 1
    initial: int = 1
    step: int = 1


def said(path: Path, value: int | None) -> Said | None:
    return None if value is None else Said(path, value)


def bounds_of(
    metadata: Metadata,
    findings: Findings,
    *,
    initial: Said | None,
    low: Said | None = None,
    high: Said | None = None,
    step: Said | None = None,
) -> Bounds:
    """1 <= low <= initial <= high. A bound that is not stated is the initial size: such a job is not elastic."""
    low = _once(low, count_annotation(metadata, "min-workers", findings), findings)
    high = _once(high, count_annotation(metadata, "max-workers", findings), findings)
    step = _once(step, count_annotation(metadata, "workers-step", findings), findings)
    at_first = initial.value if initial else low.value if low else 1
    least = low.value if low else min(at_first, high.value) if high and not initial else at_first
    most = high.value if high else at_first
    given = [one.path for one in (low, initial, high) if one]
    if least > most:
        _wrong_bound(low, high, initial, findings, given)
    elif initial and not least <= at_first <= most:
        expected = f"from {least} to {most}, the bounds{_places(low, high)}"
        findings.wrong(initial.path, at_first, expected, given=given)
    return Bounds(least, most, at_first, step.value if step else 1)


def count_annotation(metadata: Metadata, name: str, findings: Findings) -> Said | None:
    """`sterna.dev/<name>` as a number from 1 on."""
    key = f"sterna.dev/{name}"
    text = metadata.annotations.get(key)
    if text is None:
        return None
    path = ("metadata", "annotations", key)
    if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= COUNT_MAX:
        findings.unread(path, text, f'a whole number from 1 to {COUNT_MAX}, in quotes: "2"')
        return None
    return Said(path, int(text))


def _once(own: Said | None, annotated: Said | None, findings: Findings) -> Said | None:
    if own and annotated and own.value != annotated.value:
        findings.wrong(annotated.path, annotated.value, f"{own.value} as in {shown(own.path)}, or only one of the two")
    return own or annotated


def _wrong_bound(
    low: Said | None, high: Said | None, initial: Said | None, findings: Findings, given: list[Path]
) -> None:
    """A minimum above the maximum, where the one that is not stated is the initial size."""
    above = high or initial
    if low and above:
        findings.wrong(low.path, low.value, f"at most {above.value}{_places(above)}", given=given)
    elif high and initial:
        findings.wrong(high.path, high.value, f"at least {initial.value}{_places(initial)}", given=given)


def _places(*bounds: Said | None) -> str:
    places = [shown(bound.path) for bound in bounds if bound]
    return f" ({', '.join(places)})" if places else ""
