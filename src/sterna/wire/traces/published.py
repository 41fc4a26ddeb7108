"""Rows of the workloads that published simulators read: Tiresias, Muri, AFS, Pollux, Gavel, Shockwave, Voda."""

from sterna.model.errors import InvalidRequest
from sterna.model.trace import TraceRow
from sterna.wire.traces.cells import Cells

MILLISECONDS = 1000.0


def tiresias(cells: Cells) -> TraceRow:
    """Durations are at the number of GPUs asked for; a job has no other size."""
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("submit_time"),
        workers=cells.workers("num_gpu"),
        duration_s=cells.seconds("duration"),
        units=cells.number("iterations") if cells.has("iterations") else None,
        category=cells.text("model_name"),
        name=cells.text("job_id"),
    )


def muri(cells: Cells) -> TraceRow:
    """As Tiresias', in milliseconds."""
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("submit_time", per_s=MILLISECONDS),
        workers=cells.workers("num_gpu"),
        duration_s=cells.seconds("duration", per_s=MILLISECONDS),
        units=cells.number("iterations"),
        category=cells.text("model_name"),
        batch_size=cells.whole("batch_size", at_least=1) if cells.has("batch_size") else None,
        name=cells.text("job_id"),
    )


def afs(cells: Cells) -> TraceRow:
    """The request binds rigid policies only; how far a job may grow is for its model to say."""
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("arrival_s"),
        workers=cells.workers("req_gpus"),
        duration_s=cells.seconds("duration_at_req_gpus_s") if cells.has("duration_at_req_gpus_s") else None,
        units=cells.number("iterations"),
        category=cells.text("model"),
        name=cells.text("job_id"),
    )


def pollux(cells: Cells) -> TraceRow:
    """No durations: how long a job takes follows from its application, batch size and placement."""
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("time"),
        workers=cells.workers("num_replicas"),
        category=cells.text("application"),
        batch_size=cells.whole("batch_size", at_least=1),
        name=cells.text("name"),
    )


def gavel(cells: Cells) -> TraceRow:
    """Work in steps; an SLO is a factor on a duration that only Gavel's own oracle knows, so it is not read."""
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("arrival_time"),
        workers=cells.workers("scale_factor"),
        duration_s=cells.seconds("duration") if cells.has("duration") else None,  # Shockwave's only
        units=cells.number("total_steps"),
        category=cells.text("job_type"),
        name=cells.text("job_id"),
    )


def voda_testbed(cells: Cells) -> TraceRow:
    least, asked, most = cells.workers("min_proc"), cells.workers("num_proc"), cells.workers("max_proc")
    if not least <= asked <= most:
        expected = f"from min_proc ({least}) to max_proc ({most})"
        raise InvalidRequest(field="num_proc", value=asked, expected=expected)
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("submit_time"),
        workers=asked,
        workers_min=least,
        workers_max=most,
        units=cells.number("epochs"),
        category=cells.text("model"),
        name=cells.text("job_id"),
    )
