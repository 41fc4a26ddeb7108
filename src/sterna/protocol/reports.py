"""What is told about a worker while it trains: reports, batches of them, and the scheduler's answer to a batch.

Values, their JSON form and strict parsing with limits; no files and no sockets. A training process sends reports to the
monitor of its node (`POST /reports`), a monitor sends them on to the scheduler in batches, in the same form. Fields
that are not known are passed over, so that a newer sender is understood; a known field that holds something else than
it should refuses the whole body, and `BadReport` names the field, its value and what would do.

A report's `seq` must rise per pod: what was seen before is a replay. `next_seq` counts in microseconds since 1970, so
that a process that starts again under the same name goes on above its predecessor without having known it.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

REPORTS_MAX = 1000  # in one batch
NAME_MAX = 253  # characters of a name, as Kubernetes has it
METRIC_MAX = 128
SEQ_MAX = 2**63 - 1

_COUNT_MAX = 1e15
_NAME = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
_POD = re.compile(rf"(?:{_NAME}/)?{_NAME}")
_METRIC = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@ -]*")
_WORD = re.compile(r"[\x21-\x7e]*")


class BadReport(ValueError):
    """Not a report; the message says what is wrong with which field."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        self.expected = expected
        shown = repr(value)
        super().__init__(f"{field}: {shown if len(shown) <= 80 else shown[:77] + '...'}; expected {expected}")


class Usage(NamedTuple):
    """What a worker uses right now."""

    cpu: float | None = None  # cores. None: nobody could measure it; the same with the others
    memory_bytes: int | None = None
    gpu: float | None = None  # cards kept busy: 1.5 is one wholly and one half
    gpu_memory_bytes: int | None = None


class Report(NamedTuple):
    """One word about a worker, or about its job as a whole. None anywhere: this report does not say."""

    pod: str  # namespace/name; a bare name where the sender's token says the namespace. A job's own id: the whole job
    seq: int  # rises per pod. 0: measured by the monitor itself, the newest counts, and order does not matter
    at_s: float  # seconds since 1970, by the clock of the node that the worker is on
    value: float | None = None  # an evaluation's result
    metric: str = ""  # what the value is called; "": nobody said
    step: int | None = None
    epoch: int | None = None
    units_done: float | None = None
    units_total: float | None = None
    step_s: float | None = None
    epoch_s: float | None = None
    remaining_s: float | None = None  # as the program itself expects it
    workers: int | None = None  # how many trained together
    usage: Usage | None = None
    job_uid: str = ""  # of the job whose token the sender had; "": not known. Tells apart jobs that share a name

    def to_body(self) -> dict[str, Any]:
        """What goes into JSON: only what is said."""
        body: dict[str, Any] = {
            name: value for name, value in zip(self._fields, self, strict=True) if value is not None
        }
        if self.usage is not None:
            body["usage"] = {name: value for name, value in self.usage._asdict().items() if value is not None}
        for name in ("metric", "job_uid"):
            if not body[name]:
                del body[name]
        return body


class Batch(NamedTuple):
    """What a monitor, or a training process, has to say at once. In a monitor's batch, `monitor` says which one."""

    reports: tuple[Report, ...]
    monitor: str = ""  # changes with every start of the monitor; "": a training process speaks for itself
    node: str = ""
    load: Usage | None = None  # of the whole node, everything that runs there included
    instance: str = ""  # of the scheduler that the monitor heard last; "": of none so far

    def to_json(self) -> bytes:
        body: dict[str, Any] = {"reports": [report.to_body() for report in self.reports]}
        if self.monitor:
            body["monitor"] = self.monitor
        if self.node:
            body["node"] = self.node
        if self.instance:
            body["instance"] = self.instance
        if self.load is not None:
            body["load"] = {name: value for name, value in self.load._asdict().items() if value is not None}
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls, text: bytes | str, *, now_s: float | None = None) -> "Batch":
        """Raises BadReport. With `now_s`, reports that say no time or number get this one."""
        body = json_object(text)
        rows = body.get("reports")
        if not isinstance(rows, list):
            raise BadReport("reports", rows, "a list of reports")
        if len(rows) > REPORTS_MAX:
            raise BadReport("reports", f"{len(rows)} of them", f"at most {REPORTS_MAX}")
        return cls(
            reports=tuple(report_of(row, where=f"reports[{index}].", now_s=now_s) for index, row in enumerate(rows)),
            monitor=_word(body, "monitor"),
            node=_word(body, "node"),
            load=_usage(body.get("load"), "load"),
            instance=_word(body, "instance"),
        )


class Answer(NamedTuple):
    """What the scheduler says to a batch."""

    instance: str  # changes with every start of the scheduler, which takes nothing out of a batch that names another:
    #                the monitor then tells all again, oldest first, so that order is kept
    passed_over: int = 0  # reports whose seq had been seen, or that are about nobody the scheduler knows
    follow: Mapping[
        str, str
    ] = {}  # namespace/pod -> the regular expression to follow its log with; only when it has one

    def to_json(self) -> bytes:
        body = {"instance": self.instance, "passed_over": self.passed_over, "follow": dict(self.follow)}
        return json.dumps(body, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> "Answer":
        """Raises BadReport."""
        body = json_object(text)
        follow = body.get("follow", {})
        if not (isinstance(follow, dict) and all(isinstance(pattern, str) for pattern in follow.values())):
            raise BadReport("follow", follow, "a pattern for each pod")
        instance = _word(body, "instance")
        if not instance:
            raise BadReport("instance", body.get("instance"), "the scheduler's instance")
        return cls(instance, _whole(body.get("passed_over", 0), "passed_over"), follow)


def report_of(body: object, *, where: str = "", now_s: float | None = None) -> Report:
    """One report out of parsed JSON. Raises BadReport. Where `now_s` is given, `at_s` and `seq` may be absent."""
    if not isinstance(body, dict):
        raise BadReport(where.rstrip(".") or "body", body, "an object")
    try:
        pod = body["pod"]
        if not isinstance(pod, str) or len(pod) > 2 * NAME_MAX or _POD.fullmatch(pod) is None:
            raise BadReport("pod", pod, "a pod's name, or namespace/name")
        at_s = body.get("at_s", now_s)
        seq = body.get("seq")
        if seq is None and now_s is not None:
            seq = int(now_s * 1e6)
        value = body.get("value")
        if value is not None:
            value = _number(value, "value")
        known = body.keys() & _OPTIONAL.keys()
        if not known:  # the common case of {pod, value}, which need not walk through everything
            return Report(pod, _seq(seq), _moment(at_s), value)
        return Report(
            pod=pod,
            seq=_seq(seq),
            at_s=_moment(at_s),
            value=value,
            **{name: _OPTIONAL[name](body[name], name) for name in known if body[name] is not None},
        )
    except KeyError:
        raise BadReport(f"{where}pod", None, "a pod's name, or namespace/name") from None
    except BadReport as error:
        if not where:
            raise
        error.field = f"{where}{error.field}"
        error.args = (f"{where}{error.args[0]}",)
        raise


def json_object(text: bytes | str) -> dict[str, Any]:
    """Strict JSON: one object, no NaN or infinity. Raises BadReport."""
    try:
        body = _DECODER.decode(text if isinstance(text, str) else str(text, "utf-8"))
    except BadReport:
        raise
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise BadReport("body", str(error) or type(error).__name__, "JSON") from None
    if not isinstance(body, dict):
        raise BadReport("body", type(body).__name__, "a JSON object")
    return body


def next_seq(now_s: float, last: int = 0) -> int:
    """The number of a report made now: rises from one report to the next, and over restarts of the process."""
    return max(int(now_s * 1e6), last + 1)


def is_of_job(pod: str, job: str) -> bool:
    """Does this name belong to the job of that name (both without namespace)? `job-worker-3` does, and `job` itself."""
    if pod == job:
        return True
    parts = pod[len(job) :].split("-") if pod.startswith(job) else ()
    return len(parts) == 3 and not parts[0] and parts[1].isalpha() and parts[2].isalnum()


def is_metric(name: str) -> bool:
    """May a value be called so?"""
    return len(name) <= METRIC_MAX and _METRIC.fullmatch(name) is not None


def unseen(reports: Iterable[Report], last_seq: Mapping[str, int]) -> tuple[Report, ...]:
    """Those whose number is above the last one of their pod, in the order given, and those that need none.

    A number that comes twice among them is taken once.
    """
    seen: dict[str, int] = {}
    fresh = []
    for report in reports:
        if report.seq == 0:
            fresh.append(report)
        elif report.seq > seen.get(report.pod, last_seq.get(report.pod, 0)):
            seen[report.pod] = report.seq
            fresh.append(report)
    return tuple(fresh)


# -- fields -----------------------------------------------------------------------------------------------------------


def _constant(name: str) -> float:
    raise BadReport("body", name, "JSON, which has no such number")


_DECODER = json.JSONDecoder(parse_constant=_constant)


def _number(value: object, field: str) -> float:
    kind = type(value)  # exactly these: True is an int to isinstance
    if kind is float:
        if math.isfinite(value):  # type: ignore[arg-type]
            return value  # type: ignore[return-value]
    elif kind is int and -_COUNT_MAX <= value <= _COUNT_MAX:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise BadReport(field, value, "a finite number")


def _not_negative(value: object, field: str) -> float:
    number = _number(value, field)
    if number < 0:
        raise BadReport(field, value, "a number of at least 0")
    return number


def _whole(value: object, field: str, most: float = _COUNT_MAX) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise BadReport(field, value, "a whole number of at least 0")
    return value


def _seq(value: object) -> int:
    if type(value) is not int or not 0 <= value <= SEQ_MAX:
        raise BadReport("seq", value, "a whole number of at least 0")
    return value


def _moment(value: object) -> float:
    at_s = _number(value, "at_s")
    if not 0 <= at_s < 1e11:
        raise BadReport("at_s", value, "seconds since 1970")
    return at_s


def _metric(value: object, field: str) -> str:
    if not isinstance(value, str) or not (value == "" or is_metric(value)):
        raise BadReport(field, value, f"a name of at most {METRIC_MAX} letters, digits and _ . / : @ -")
    return value


def _uid(value: object, field: str) -> str:
    if not isinstance(value, str) or len(value) > NAME_MAX or _WORD.fullmatch(value) is None:
        raise BadReport(field, value, f"a word of at most {NAME_MAX} characters")
    return value


def _word(body: Mapping[str, Any], field: str) -> str:
    return _uid(body.get(field, ""), field)


def _usage(value: object, field: str) -> Usage | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadReport(field, value, "an object")
    return Usage(
        **{name: read(value[name], f"{field}.{name}") for name, read in _USAGE.items() if value.get(name) is not None}
    )


_USAGE: Mapping[str, Any] = {
    "cpu": _not_negative,
    "memory_bytes": _whole,
    "gpu": _not_negative,
    "gpu_memory_bytes": _whole,
}
_OPTIONAL: Mapping[str, Any] = {
    "metric": _metric,
    "step": _whole,
    "epoch": _whole,
    "units_done": _not_negative,
    "units_total": _not_negative,
    "step_s": _not_negative,
    "epoch_s": _not_negative,
    "remaining_s": _not_negative,
    "workers": _whole,
    "usage": _usage,
    "job_uid": _uid,
}
