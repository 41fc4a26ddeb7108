"""Everything known about one job, node or migration, for people: fields first, then small tables."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sterna.interfaces.reports.grid import Emphasis, indented, one_line, plainly
from sterna.interfaces.reports.record_tables import (
    CONDITIONS,
    ENDED,
    EVENTS,
    HISTORY,
    WORKERS,
    WORKERS_ELSEWHERE,
    RecordColumn,
    record_table,
)
from sterna.interfaces.reports.spans import NOTHING, age_s, clock_span, cores, share, short_span, size

_ENDED_SHOWN = 5
_CHANGES_SHOWN = 20

Record = dict[str, Any]
Pairs = list[tuple[str, str | None]]  # None: a line that is left out


def job_description(job: Record, events: Sequence[Record], *, now: datetime, strong: Emphasis = plainly) -> str:
    """`events` are the latest of the job's."""
    workers = job.get("workerDetails") or []
    ended = [worker for worker in workers if worker.get("pid") is None and worker.get("exit") is not None]
    alive = [worker for worker in workers if worker not in ended]
    columns = WORKERS if any(worker.get("pid") is not None for worker in alive) else WORKERS_ELSEWHERE
    parts = [
        _pairs([*_identity(job), *_times(job, now), *_training(job), *_counts(job)], strong),
        _section("Conditions", CONDITIONS, job.get("conditions") or (), now, strong),
        _section("Workers", columns, alive, now, strong),
        _section("Ended last", ENDED, ended[-_ENDED_SHOWN:], now, strong),
        _section("Changes", HISTORY, (job.get("history") or [])[-_CHANGES_SHOWN:], now, strong),
        _section("Events", EVENTS, events, now, strong),
    ]
    return "\n".join(part for part in parts if part)


def node_description(node: Record, *, strong: Emphasis = plainly) -> str:
    used = node.get("used") or {}
    pairs: Pairs = [
        ("Name", str(node.get("name"))),
        ("Ready", _yes(node.get("ready"))),
        ("Takes work", _yes(node.get("schedulable"))),
        ("Virtual", _yes(node.get("virtual"))),
        ("GPUs", f"{used.get('gpus', 0):g} of {node.get('gpus') or 0:g} in use"),
        ("CPUs", f"{cores(used.get('cpuMilli', 0))} of {cores(node.get('cpuMilli'))} in use"),
        ("Memory", f"{size(used.get('memoryBytes', 0))} of {size(node.get('memoryBytes'))} in use"),
        ("Measured", _measured(node.get("measured"))),
        ("Limits", node.get("limits")),
        ("Workers", "\n".join(node.get("workers") or ()) or "none"),
    ]
    return _pairs(pairs, strong)


def migration_description(move: Record, *, now: datetime, strong: Emphasis = plainly) -> str:
    pairs: Pairs = [
        ("Id", str(move.get("id"))),
        ("Job", str(move.get("job"))),
        ("Worker", None if move.get("worker") is None else str(move["worker"])),
        ("From", str(move.get("from") or NOTHING)),
        ("To", str(move.get("to") or NOTHING)),
        ("Phase", str(move.get("phase"))),
        ("Reason", str(move.get("reason") or NOTHING)),
        ("Message", move.get("message")),
        ("Requested", _moment(move.get("requestedAt"), now)),
        ("Finished", _moment(move.get("finishedAt"), now)),
        ("Warm", _yes(move.get("warm"))),
        ("Rebalancer", move.get("rebalancer")),
        ("Expected benefit", _span(move.get("expectedBenefitSeconds"))),
        ("Expected cost", _span(move.get("estimatedCostSeconds"))),
        ("Save", _span(move.get("saveSeconds"))),
        ("Load", _span(move.get("loadSeconds"))),
        ("Downtime", _span(move.get("downtimeSeconds"))),
        ("Step", None if move.get("step") is None else str(move["step"])),
        ("Steps lost", None if move.get("stepsLost") is None else str(move["stepsLost"])),
    ]
    return _pairs(pairs, strong)


def _measured(measured: Record | None) -> str | None:
    """What its workers really use, where that was measured."""
    return None if not measured else f"{cores(measured.get('cpuMilli'))} CPUs, {size(measured.get('memoryBytes'))}"


def _identity(job: Record) -> Pairs:
    workers = job.get("workers") or {}
    bounds = f"{workers.get('current', 0)} now, from {workers.get('min')} to {workers.get('max')}"
    step = workers.get("step", 1)
    return [
        ("Name", str(job.get("name"))),
        ("Namespace", str(job.get("namespace"))),
        ("Uid", job.get("uid")),
        ("Kind", job.get("kind")),
        ("Phase", str(job.get("phase"))),
        ("Reason", job.get("reason")),
        ("Message", job.get("message")),
        ("Policy", job.get("policy")),
        ("Priority", str(job.get("priority", 0))),
        ("Workers", bounds if step in (None, 1) else f"{bounds}, in steps of {step}"),
        ("GPUs", f"{job.get('gpus') or 0:g}"),
        ("Nodes", ", ".join(job.get("nodes") or ()) or NOTHING),
    ]


def _times(job: Record, now: datetime) -> Pairs:
    return [
        ("Submitted", _moment(job.get("submittedAt"), now)),
        ("Started", _moment(job.get("startedAt"), now)),
        ("Finished", _moment(job.get("finishedAt"), now)),
        ("Waiting", clock_span(job.get("waitingSeconds"))),
        ("Running", clock_span(job.get("runningSeconds"))),
        ("Total", clock_span(job.get("totalSeconds"))),
    ]


def _training(job: Record) -> Pairs:
    checkpoint = job.get("checkpoint") or {}
    saved = f"step {checkpoint.get('step')}, {size(checkpoint.get('bytes'))}"
    if checkpoint.get("saveSeconds") is not None:
        saved += f", saved in {short_span(checkpoint['saveSeconds'])}"
    metrics = ", ".join(f"{name} {_number(value)}" for name, value in sorted((job.get("metrics") or {}).items()))
    return [
        ("Progress", None if job.get("progress") is None else share(job["progress"])),
        ("Step", None if job.get("step") is None else f"{job['step']}, epoch {job.get('epoch')}"),
        ("Metrics", metrics or None),
        ("Growth", _growth(job.get("growth"))),
        ("Remaining", None if job.get("remainingSeconds") is None else f"about {short_span(job['remainingSeconds'])}"),
        ("Checkpoint", saved if checkpoint else None),
    ]


def _growth(growth: Record | None) -> str | None:
    """`Converged: eval_loss 0.12, score 0.03, efficiency 0.015 per CPU, after 14 evaluations`."""
    if not growth:
        return None
    parts = [f"{growth['metric']} {_number(growth.get('value'))}"] if growth.get("metric") else []
    parts += [f"score {_number(growth['score'])}"] if growth.get("score") is not None else []
    parts += [f"efficiency {_number(growth['efficiency'])} per CPU"] if growth.get("efficiency") is not None else []
    if growth.get("evaluations") is not None:
        parts.append(f"after {growth['evaluations']} evaluations")
    since = f" since {growth['since']}" if growth.get("since") else ""
    return f"{growth.get('category')}{since}" + (f": {', '.join(parts)}" if parts else "")


def _counts(job: Record) -> Pairs:
    names = [
        ("restarts", "restarts"),
        ("resizes", "resizes"),
        ("migrations", "migrations"),
        ("stepsLost", "steps lost"),
    ]
    words = ", ".join(f"{said} {job[key]}" for key, said in names if job.get(key) is not None)
    return [("So far", words or None)]


def _section(
    title: str, columns: Iterable[RecordColumn], records: Sequence[Record], now: datetime, strong: Emphasis
) -> str:
    if not records:
        return ""
    return f"{strong(title)}\n{indented(record_table(columns, records, now=now))}"


def _pairs(pairs: Pairs, strong: Emphasis) -> str:
    width = max(len(name) for name, _ in pairs) + 2
    lines = []
    for name, value in pairs:
        if value is not None:
            first, *more = str(value).splitlines() or [""]
            lines.append(strong(f"{name}:".ljust(width)) + one_line(first))
            lines += [" " * width + one_line(line) for line in more]
    return "\n".join(line.rstrip() for line in lines)


def _moment(at: str | None, now: datetime) -> str | None:
    return None if not at else f"{at} ({short_span(age_s(at, now))} ago)"


def _span(seconds: float | None) -> str | None:
    return None if seconds is None else short_span(seconds)


def _yes(value: Any) -> str:
    return "yes" if value else "no"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
