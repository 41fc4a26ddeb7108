"""What is told about a worker while it trains: reports, batches of them, and the scheduler's answer to a batch.

Values, their JSON form and strict parsing with limits; no files and no sockets. A training process sends reports to the
monitor of its node (`POST /reports`), a monitor sends them on to the scheduler in batches, in the same form. Fields
that are not known are passed over, so that a newer sender is understood; a known field that holds something else than
it should refuses its report, and `BadReport` names the field, its value and what would do. The other reports of a batch
are still taken: they are of other jobs.

A report's `seq` must rise per pod: what was seen before is a replay. `next_seq` counts in microseconds since 1970, so
that a process that starts again under the same name goes on above its predecessor without having known it.
"""

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

REPORTS_MAX = 1000  # in one batch
NAME_MAX = 253  # characters of a name, as Kubernetes has it
METRIC_MAX = 128
PATTERN_CHARACTERS_MAX = 1000  # of a regular expression that output is searched with
SEQ_MAX = 2**63 - 1
SEQ_SENT_MAX = 2**62  # of a training process. The monitor numbers on above it where a report says none, and has room to
VALUE_MAX = 1e30  # a loss beyond it has diverged; its square and its sums are still numbers
SECONDS_MAX = 1e12
WORKERS_MAX = 10_000  # that train together; what is learned of speeds has an entry for each count
FAULTS_MAX = 100  # pods of one batch whose output cannot be followed
REASON_MAX = 200  # characters of why a report was refused

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

    cpu: float | None = None  # cores. None: it could not be measured; the same with the others
    memory_bytes: int | None = None
    gpu: float | None = None  # cards kept busy: 1.5 is one wholly and one half
    gpu_memory_bytes: int | None = None


class Report(NamedTuple):
    """One message about a worker, or about its job as a whole. None anywhere: this report does not say."""

    pod: str  # namespace/name; a bare name where the sender's token says the namespace. A job's own id: the whole job
    seq: int  # rises per pod. 0: measured by the monitor itself, the newest counts, and order does not matter
    at_s: float  # seconds since 1970, by the clock of the node that the worker is on
    value: float | None = None  # an evaluation's result
    metric: str = ""  # what the value is called; "": not said
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


class Refusal(NamedTuple):
    """One report of a batch that was not taken; the others were judged by themselves."""

    place: int  # in the batch, from 0
    pod: str  # that it was to be about. "": not known
    why: str


class Batch(NamedTuple):
    """What a monitor, or a training process, has to say at once. In a monitor's batch, `monitor` says which one."""

    reports: tuple[Report, ...]
    monitor: str = ""  # changes with every start of the monitor; "": a training process speaks for itself
    node: str = ""
    load: Usage | None = None  # of the whole node, everything that runs there included
    instance: str = ""  # of the scheduler that the monitor heard last; "": of none so far
    asks_tokens: bool = False  # a token came in that the monitor does not know: it asks for those of this node's jobs
    faults: Mapping[str, str] = {}  # namespace/pod -> why its output is not searched for values as its job wants it
    refused: tuple[Refusal, ...] = ()  # what was in it and is no report. Known to its reader, never sent
    places: tuple[int, ...] = ()  # where each of `reports` was in what was read. Empty: they are all

    def to_json(self) -> bytes:
        body: dict[str, Any] = {"reports": [report.to_body() for report in self.reports]}
        if self.monitor:
            body["monitor"] = self.monitor
        if self.node:
            body["node"] = self.node
        if self.instance:
            body["instance"] = self.instance
        if self.asks_tokens:
            body["asks_tokens"] = True
        if self.faults:
            body["faults"] = dict(self.faults)
        if self.load is not None:
            body["load"] = {name: value for name, value in self.load._asdict().items() if value is not None}
        return json.dumps(body, separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> "Batch":
        """Raises BadReport for what is no batch. A report in it that is none is in `refused`, beside those that are."""
        body = json_object(text)
        rows = body.get("reports")
        if not isinstance(rows, list):
            raise BadReport("reports", rows, "a list of reports")
        if len(rows) > REPORTS_MAX:
            raise BadReport("reports", f"{len(rows)} of them", f"at most {REPORTS_MAX}")
        reports: list[Report] = []
        refused: list[Refusal] = []
        places: list[int] = []
        for place, row in enumerate(rows):
            try:
                reports.append(report_of(row, where=f"reports[{place}]."))
                places.append(place)
            except BadReport as error:
                refused.append(Refusal(place, _pod_in(row), reason_of(error)))
        return cls(
            reports=tuple(reports),
            refused=tuple(refused),
            places=tuple(places) if refused else (),
            monitor=_word(body, "monitor"),
            node=_word(body, "node"),
            load=_usage(body.get("load"), "load"),
            instance=_word(body, "instance"),
            asks_tokens=body.get("asks_tokens") is True,
            faults=_faults(body.get("faults")),
        )


class Answer(NamedTuple):
    """What the scheduler says to a batch."""

    instance: str  # changes with every start of the scheduler, which takes nothing out of a batch that names another:
    #                the monitor then tells all again, oldest first, so that order is kept
    passed_over: int = 0  # reports whose seq had been seen, or that are about no pod the scheduler knows
    follow: Mapping[
        str, str
    ] = {}  # namespace/pod -> the regular expression to follow its log with; only when it has one
    refused: Mapping[int, str] = {}  # place in the batch -> why that report will never be taken. The others were, or
    #                                  had been before
    tokens: Mapping[str, str] | None = None  # digest of a job's token -> namespace/name/uid. None: not asked for

    def to_json(self) -> bytes:
        body: dict[str, Any] = {"instance": self.instance, "passed_over": self.passed_over, "follow": dict(self.follow)}
        if self.refused:
            body["refused"] = [[place, why] for place, why in sorted(self.refused.items())]
        if self.tokens is not None:
            body["tokens"] = dict(self.tokens)
        return json.dumps(body, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, text: bytes | str) -> "Answer":
        """Raises BadReport."""
        body = json_object(text)
        follow = body.get("follow", {})
        if not (isinstance(follow, dict) and all(isinstance(pattern, str) for pattern in follow.values())):
            raise BadReport("follow", follow, "a pattern for each pod")
        tokens = body.get("tokens")
        if tokens is not None and not (
            isinstance(tokens, dict) and all(isinstance(job, str) for job in tokens.values())
        ):
            raise BadReport("tokens", tokens, "a job for each digest")
        instance = _word(body, "instance")
        if not instance:
            raise BadReport("instance", body.get("instance"), "the scheduler's instance")
        passed_over = _whole(body.get("passed_over", 0), "passed_over")
        return cls(instance, passed_over, follow, _refused(body.get("refused")), tokens)


def _refused(rows: object) -> dict[int, str]:
    refused: dict[int, str] = {}
    for row in rows if isinstance(rows, list) else ():
        if not (isinstance(row, list) and len(row) == 2 and isinstance(row[1], str)):
            raise BadReport("refused", row, "places with reasons")
        refused[_whole(row[0], "refused", REPORTS_MAX)] = row[1][:REASON_MAX]
    return refused


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


def reason_of(error: Exception) -> str:
    """Why a report is not taken, in so few bytes that the reasons for a whole batch fit into its answer."""
    text = str(error) or type(error).__name__
    return text.encode("ascii", "backslashreplace").decode()[:REASON_MAX]


def _pod_in(row: object) -> str:
    """The pod that something that is no report was to be about. "": it names none, or no possible one."""
    pod = row.get("pod") if isinstance(row, dict) else None
    return pod if isinstance(pod, str) and len(pod) <= 2 * NAME_MAX and _POD.fullmatch(pod) else ""


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


# -- fields -----------------------------------------------------------------------------------------------------------


def _constant(name: str) -> float:
    raise BadReport("body", name, "JSON, which has no such number")


_DECODER = json.JSONDecoder(parse_constant=_constant)


def _number(value: object, field: str) -> float:
    # Exactly these types: True is an int to isinstance. The comparison is false for what is no number.
    if type(value) in (float, int) and -VALUE_MAX <= value <= VALUE_MAX:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise BadReport(field, value, f"a finite number, at most {VALUE_MAX:g} and at least -{VALUE_MAX:g}")


def _not_negative(value: object, field: str, most: float = _COUNT_MAX) -> float:
    number = _number(value, field)
    if not 0 <= number <= most:
        raise BadReport(field, value, f"a number from 0 to {most:g}")
    return number


def _seconds(value: object, field: str) -> float:
    return _not_negative(value, field, SECONDS_MAX)


def _whole(value: object, field: str, most: float = _COUNT_MAX) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise BadReport(field, value, f"a whole number from 0 to {most:.0f}")
    return value


def _workers(value: object, field: str) -> int:
    return _whole(value, field, WORKERS_MAX)


def _seq(value: object) -> int:
    if type(value) is not int or not 0 <= value <= SEQ_MAX:
        raise BadReport("seq", value, f"a whole number from 0 to {SEQ_MAX}")
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


def _faults(value: object) -> dict[str, str]:
    """By pod; what is none is passed over, since nothing but a hint would be lost."""
    pairs = value.items() if isinstance(value, dict) else ()
    good = ((pod, why) for pod, why in pairs if _pod_in({"pod": pod}) and isinstance(why, str))
    return {pod: why[:REASON_MAX] for pod, why in islice(good, FAULTS_MAX)}


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
    "step_s": _seconds,
    "epoch_s": _seconds,
    "remaining_s": _seconds,
    "workers": _workers,
    "usage": _usage,
    "job_uid": _uid,
}
