"""Kubeflow Trainer's status push, understood: where it is sent, and what of it makes a report.

It is about a job as a whole. Its metrics are texts in any order: the first that is a number is the value,
`currentEpoch` and `totalEpochs` count epochs, and what is not a number is passed over, since that protocol allows it.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sterna.protocol.reports import BadReport, Report, is_metric, report_of

_PATH = re.compile(
    r"/apis/trainer\.kubeflow\.org/v1alpha1/namespaces/([a-z0-9-]{1,63})/trainjobs/([a-z0-9.-]{1,253})/status"
)
_METRICS_MAX = 256
_EPOCH, _EPOCHS = "currentEpoch", "totalEpochs"


def trainjob_of(path: str) -> str | None:
    """namespace/name of the job that a path is about; None: another path."""
    match = _PATH.fullmatch(path)
    return None if match is None else f"{match[1]}/{match[2]}"


def trainer_report(body: Mapping[str, Any], *, job: str, now_s: float) -> Report:
    """Raises BadReport. The object may come alone or, as Kubeflow sends it, under `trainerStatus`."""
    status = body.get("trainerStatus", body)
    if not isinstance(status, dict):
        raise BadReport("trainerStatus", status, "an object")
    percent = status.get("progressPercentage")
    if percent is not None and (type(percent) not in (int, float) or not 0 <= percent <= 100):
        raise BadReport("progressPercentage", percent, "a number from 0 to 100")
    remaining_s = status.get("estimatedRemainingSeconds")
    if remaining_s is not None and (type(remaining_s) not in (int, float) or not 0 <= remaining_s < 1e12):
        raise BadReport("estimatedRemainingSeconds", remaining_s, "a number of at least 0")
    metrics = _metrics(status.get("metrics"))
    epoch = metrics.pop(_EPOCH, None)
    metrics.pop(_EPOCHS, None)
    metric = next(iter(metrics), "")
    said: dict[str, Any] = {
        "pod": job,
        "at_s": _moment(status.get("lastUpdatedTime"), now_s),
        "units_done": percent,
        "units_total": None if percent is None else 100.0,
        "remaining_s": remaining_s,
        "epoch": int(epoch) if epoch is not None and epoch >= 0 else None,
        "metric": metric if is_metric(metric) else "",  # theirs may be called anything
        "value": metrics.get(metric),
    }
    return report_of(said, now_s=now_s)


def _metrics(rows: object) -> dict[str, float]:
    if rows is None:
        return {}
    if not isinstance(rows, list) or len(rows) > _METRICS_MAX:
        raise BadReport("metrics", type(rows).__name__, f"a list of at most {_METRICS_MAX}")
    metrics: dict[str, float] = {}
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise BadReport(f"metrics[{place}]", row, "an object with a name and a value")
        value = row.get("value")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise BadReport(f"metrics[{place}].value", value, "a number, as text or not")
        try:
            number = float(value)
        except (ValueError, OverflowError):
            continue
        if math.isfinite(number):
            metrics.setdefault(row["name"], number)
    return metrics


def _moment(value: object, now_s: float) -> float:
    if value is None:
        return now_s
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadReport("lastUpdatedTime", value, "a time like 2025-01-23T10:30:45Z")
    return min(moment.timestamp(), now_s)
