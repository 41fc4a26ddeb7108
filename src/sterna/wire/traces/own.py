"""Our own trace format: a CSV that says what there is to say, and that people write by hand.

Three columns are needed: `submitted_s`, `workers` and `duration_s` (on that many workers). Any of these may be added,
and any of their cells may be empty:

job              what to call it in messages
workers_min      bounds for elastic runs; without them the performance model decides
workers_max
category         what is trained; jobs of one category share what is learned about their speed
serial_fraction  from 0 to 1: the part of the work that more workers do not speed up
units            iterations, steps or epochs
batch_size       of all workers together
gpu_milli        thousandths of a GPU for each worker; 1000 if not said
cpu_milli        thousandths of a CPU for each worker
memory_bytes     for each worker
accelerator      the GPU type it needs
priority         larger goes first, where a policy looks at it
deadline_s       on the same clock as submitted_s
node             where it would like to be
servers          parameter servers, each with the request and limit of a worker
cpu_limit_milli  what each container may use at most; without it there is no limit
memory_limit_bytes
cpu_demand_milli     what a worker could use if nothing ran beside it, for runs in which jobs compete for CPU
server_demand_milli  the same of a parameter server
evaluation_start     the value before any work; it approaches evaluation_end exponentially,
evaluation_end       by evaluation_rate for each unit of work (a second of one worker alone, in most models);
evaluation_rate      all three or none
"""

import csv
import io
from collections.abc import Iterable

from sterna.model.errors import InvalidRequest
from sterna.model.ids import NodeId
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.trace import EvaluationCurve, TraceRow
from sterna.wire.traces.cells import Cells

COLUMNS = (
    "job", "submitted_s", "workers", "workers_min", "workers_max", "duration_s", "category", "serial_fraction", "units",
    "batch_size", "gpu_milli", "cpu_milli", "memory_bytes", "accelerator", "priority", "deadline_s",
    "node", "servers", "cpu_limit_milli", "memory_limit_bytes", "cpu_demand_milli", "server_demand_milli",
    "evaluation_start", "evaluation_end", "evaluation_rate",
)  # fmt: skip
PRIORITY_LIMIT = 2**31
SERVERS_LIMIT = 1024
_OPTIONAL_NUMBERS = ("cpu_limit_milli", "memory_limit_bytes", "cpu_demand_milli", "server_demand_milli")
_EVALUATION = ("evaluation_start", "evaluation_end", "evaluation_rate")
_VALUE_LIMIT = 1e12  # of an evaluation, either way
NEEDED = ("submitted_s", "workers", "duration_s")


def sterna(cells: Cells) -> TraceRow:
    has = cells.has
    row = TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("submitted_s"),
        workers=cells.workers("workers"),
        workers_min=cells.workers("workers_min") if has("workers_min") else None,
        workers_max=cells.workers("workers_max") if has("workers_max") else None,
        gpu_milli=cells.whole("gpu_milli", at_most=WHOLE_GPU_MILLI * 1024) if has("gpu_milli") else WHOLE_GPU_MILLI,
        cpu_milli=cells.whole("cpu_milli") if has("cpu_milli") else 0,
        memory_bytes=cells.whole("memory_bytes") if has("memory_bytes") else 0,
        duration_s=cells.seconds("duration_s"),
        units=cells.number("units") if has("units") else None,
        serial_fraction=cells.number("serial_fraction", at_most=1) if has("serial_fraction") else None,
        category=cells.text("category"),
        batch_size=cells.whole("batch_size", at_least=1) if has("batch_size") else None,
        accelerator=cells.text("accelerator") or None,
        deadline_s=cells.seconds("deadline_s") if has("deadline_s") else None,
        priority=cells.whole("priority", at_least=-PRIORITY_LIMIT, at_most=PRIORITY_LIMIT) if has("priority") else 0,
        name=cells.text("job"),
        servers=cells.whole("servers", at_most=SERVERS_LIMIT) if has("servers") else 0,
        node=NodeId(cells.text("node")) if has("node") else None,
        evaluation=_evaluation(cells),
        **{name: cells.whole(name) for name in _OPTIONAL_NUMBERS if has(name)},
    )
    _check_bounds(row)
    return row


def dump_rows(rows: Iterable[TraceRow]) -> str:
    """Rows as text in this format. Columns that no row fills are left out."""
    table = [_cells_of(row) for row in rows]
    columns = [column for column in COLUMNS if column in NEEDED or any(cells[column] for cells in table)]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def _cells_of(row: TraceRow) -> dict[str, str]:
    values = row._asdict() | {"job": row.name, "gpu_milli": _unless(row.gpu_milli, WHOLE_GPU_MILLI)}
    for column in ("cpu_milli", "memory_bytes", "priority", "servers", *_OPTIONAL_NUMBERS):
        values[column] = _unless(values[column], 0)
    curve = row.evaluation or (None, None, None)
    values |= dict(zip(_EVALUATION, curve, strict=True))
    return {column: _shown(values[column]) for column in COLUMNS}


def _unless(value: int, usual: int) -> int | None:
    return None if value == usual else value


def _shown(value: object) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return "" if value is None else str(value)


def _evaluation(cells: Cells) -> EvaluationCurve | None:
    given = [name for name in _EVALUATION if cells.has(name)]
    if not given:
        return None
    if len(given) < len(_EVALUATION):
        raise InvalidRequest(field=given[0], value=cells.text(given[0]), expected="all of " + ", ".join(_EVALUATION))
    start, end = (cells.number(name, at_least=-_VALUE_LIMIT, at_most=_VALUE_LIMIT) for name in _EVALUATION[:2])
    return EvaluationCurve(start, end, cells.number("evaluation_rate", at_most=_VALUE_LIMIT))


def _check_bounds(row: TraceRow) -> None:
    if row.workers_min is not None and row.workers_min > row.workers:
        expected = f"at most workers ({row.workers})"
        raise InvalidRequest(field="workers_min", value=row.workers_min, expected=expected)
    if row.workers_max is not None and row.workers_max < row.workers:
        expected = f"at least workers ({row.workers})"
        raise InvalidRequest(field="workers_max", value=row.workers_max, expected=expected)
