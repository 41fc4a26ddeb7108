"""From what a pattern found in a line, or a row of a training log, to a report."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sterna.protocol.reports import BadReport, Report, next_seq, report_of

_WHOLE = frozenset({"step", "epoch", "workers"})
_ABSENT = frozenset({"", "na", "n/a", "nan", "none", "null"})
_VALUES = ("val_accuracy", "val_acc", "accuracy", "acc", "val_loss", "loss")  # the first of these columns is the value


def report_from_groups(
    groups: Mapping[str, str], *, pod: str, at_s: float, last_seq: int, job_uid: str
) -> Report | None:
    """None: what matched is not what it should be, such as `nan`; one such line says nothing, and the next may."""
    body: dict[str, Any] = {"pod": pod, "at_s": at_s, "seq": next_seq(at_s, last_seq), "job_uid": job_uid}
    try:
        for name, text in groups.items():
            if name == "metric":
                body[name] = text.strip()
            else:
                number = float(text.replace(",", ""))
                body[name] = int(number) if name in _WHOLE else number
        return report_of(body)
    except (ValueError, OverflowError):  # BadReport is a ValueError
        return None


def report_from_row(row: Mapping[str, str], *, pod: str, now_s: float, last_seq: int, job_uid: str) -> Report | None:
    """A row of Voda's training log: about the job as a whole. None: not a complete row.

    Its number comes from its own time, so that a file read twice, by a monitor that started anew, says nothing twice.
    """
    number = {name: value for name, text in row.items() if (value := _number(text)) is not None}
    if not {"epoch", "workers", "epoch_time_sec"} <= number.keys():
        return None
    started_s = _moment(row.get("start_time"))
    at_s = now_s if started_s is None else min(started_s + number["epoch_time_sec"], now_s)
    metric = next((name for name in _VALUES if name in number), "")
    epoch = int(number["epoch"])
    body: dict[str, Any] = {
        "pod": pod, "at_s": at_s, "seq": next_seq(at_s, last_seq), "job_uid": job_uid,
        "epoch": epoch, "workers": int(number["workers"]), "epoch_s": number["epoch_time_sec"],
        "step_s": number.get("step_time_sec"), "units_done": epoch + 1, "units_total": number.get("total_epochs"),
        "value": number.get(metric), "metric": metric,
    }  # fmt: skip
    try:
        return report_of(body)
    except BadReport:
        return None


def _number(text: str | None) -> float | None:
    if text is None or text.strip().lower() in _ABSENT:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _moment(text: str | None) -> float | None:
    """Where no zone is written, UTC is assumed, which containers mostly keep."""
    try:
        moment = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
