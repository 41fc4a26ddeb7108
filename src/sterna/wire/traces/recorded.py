"""Rows of logs from clusters in production: Philly, Microsoft ITP (ElasticFlow), Alibaba's GPU pods."""

from datetime import UTC, datetime

from sterna.model.errors import InvalidRequest
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.trace import TraceRow
from sterna.wire.traces.cells import Cells

MIB = 1 << 20


def philly(cells: Cells) -> TraceRow:
    """The category is the virtual cluster: nothing else is known of what a job trains."""
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=_timestamp(cells, "timestamp"),
        workers=cells.workers("num_gpus"),
        duration_s=cells.seconds("duration"),
        category=cells.text("cluster"),
    )


def elasticflow_itp(cells: Cells) -> TraceRow:
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("submission_time"),
        workers=cells.workers("num_gpu"),
        duration_s=cells.seconds("duration"),
        units=cells.number("num_iteration"),
        category=cells.text("model_name"),
        batch_size=cells.whole("batch_size", at_least=1) if cells.has("batch_size") else None,
        deadline_s=cells.seconds("deadline") if cells.has("deadline") else None,
        name=cells.text("job_id"),
    )


def alibaba_pods(cells: Cells) -> TraceRow:
    """A pod is one worker, with several whole GPUs, a share of one, or none.

    Some files have no times at all, and pods that were never scheduled have no duration in any.
    """
    ran = cells.has("deletion_time") and cells.has("scheduled_time")
    gpu_types = cells.text("gpu_spec")
    return TraceRow(
        id=cells.job_id,
        line=cells.line,
        submitted_s=cells.seconds("creation_time") if cells.has("creation_time") else 0.0,
        workers=1,
        workers_min=1,
        workers_max=1,
        gpu_milli=_gpu_milli(cells),
        cpu_milli=cells.whole("cpu_milli"),
        memory_bytes=cells.whole("memory_mib") * MIB,
        duration_s=_ran_s(cells) if ran else None,
        category=cells.text("qos"),
        accelerator=gpu_types if gpu_types and "|" not in gpu_types else None,  # a choice of types is no pool
        name=cells.text("name"),
    )


def _gpu_milli(cells: Cells) -> int:
    count, share = cells.whole("num_gpu", at_most=1024), cells.whole("gpu_milli", at_most=WHOLE_GPU_MILLI)
    if count > 1 and share != WHOLE_GPU_MILLI:
        raise InvalidRequest(field="gpu_milli", value=share, expected=f"{WHOLE_GPU_MILLI} for a pod with several GPUs")
    return count * share


def _ran_s(cells: Cells) -> float:
    begin_s, end_s = cells.seconds("scheduled_time"), cells.seconds("deletion_time")
    if end_s < begin_s:
        raise InvalidRequest(field="deletion_time", value=end_s, expected=f"not before scheduled_time ({begin_s:g})")
    return end_s - begin_s


def _timestamp(cells: Cells, column: str) -> float:
    text = cells.text(column)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        expected = "a date and time such as 2017-10-09 07:01:55"
        raise InvalidRequest(field=column, value=text, expected=expected) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
