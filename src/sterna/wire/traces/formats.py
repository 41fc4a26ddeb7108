"""All trace formats by name, with the columns each is known by: the one list that reading, the CLI and the docs use."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sterna.model.errors import InvalidRequest
from sterna.model.trace import TraceRow
from sterna.wire.traces import own, published, recorded
from sterna.wire.traces.cells import Cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    name: str
    columns: tuple[str, ...]  # must be there; others are read if they are
    parse: Callable[[Cells], TraceRow]
    summary: str  # one line, for lists
    from_zero: bool = False  # times are absolute in the file, so they are counted from its first job
    aliases: tuple[str, ...] = ()

    def fits(self, columns: Collection[str]) -> bool:
        return all(column in columns for column in self.columns)


_TIRESIAS = ("job_id", "num_gpu", "submit_time", "duration", "model_name")
_GAVEL = ("job_id", "job_type", "total_steps", "scale_factor", "arrival_time")

FORMATS: tuple[Format, ...] = (  # those with more columns first: some formats extend others
    Format(name="sterna", columns=own.NEEDED, parse=own.sterna, summary="our own: written by `sterna generate`"),
    Format(
        name="muri",
        columns=(*_TIRESIAS, "iterations", "iteration_time"),
        parse=published.muri,
        summary="Muri (SIGCOMM'22): as tiresias, in milliseconds",
    ),
    Format(
        name="tiresias",
        columns=_TIRESIAS,
        parse=published.tiresias,
        summary="Tiresias (NSDI'19): GPUs and duration of rigid jobs",
    ),
    Format(
        name="afs",
        columns=("job_id", "arrival_s", "model", "iterations", "req_gpus"),
        parse=published.afs,
        summary="AFS (NSDI'21): iterations of a model with a scaling curve",
    ),
    Format(
        name="pollux",
        columns=("name", "time", "application", "num_replicas", "batch_size"),
        parse=published.pollux,
        summary="Pollux (OSDI'21) and Sia (SOSP'23): applications with profiles",
        aliases=("sia",),
    ),
    Format(
        name="philly",
        columns=("timestamp", "duration", "num_gpus"),
        parse=recorded.philly,
        summary="Microsoft Philly (2017): 82 thousand jobs",
        from_zero=True,
    ),
    Format(
        name="elasticflow-itp",
        columns=("job_id", "submission_time", "num_iteration", "model_name", "num_gpu", "duration"),
        parse=recorded.elasticflow_itp,
        summary="Microsoft ITP clusters (2021), as published with ElasticFlow (ASPLOS'23)",
        from_zero=True,
        aliases=("elasticflow", "itp"),
    ),
    Format(
        name="shockwave",
        columns=(*_GAVEL, "mode", "duration"),
        parse=published.gavel,
        summary="Shockwave (NSDI'23): as gavel, with durations",
    ),
    Format(
        name="gavel",
        columns=_GAVEL,
        parse=published.gavel,
        summary="Gavel (OSDI'20): steps of a job type with throughputs",
    ),
    Format(
        name="voda-testbed",
        columns=("job_id", "model", "submit_time", "num_proc", "min_proc", "max_proc", "epochs"),
        parse=published.voda_testbed,
        summary="Voda's testbed workloads: elastic jobs of four models",
        aliases=("voda",),
    ),
    Format(
        name="alibaba-gpu-2023",
        columns=("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
        parse=recorded.alibaba_pods,
        summary="Alibaba GPU pods (2023): shares of GPUs, CPU and memory",
        aliases=("alibaba",),
    ),
)

_BY_NAME = {spelling: known for known in FORMATS for spelling in (known.name, *known.aliases)}


def format_named(name: str) -> Format:
    known = _BY_NAME.get(name.strip().lower().replace("_", "-"))
    if known is None:
        raise InvalidRequest(field="format", value=name, expected="one of: " + _names())
    return known


def format_of(columns: Collection[str]) -> Format:
    """The format with these columns."""
    for known in FORMATS:
        if known.fits(columns):
            return known
    seen = ", ".join(columns)
    raise InvalidRequest(field="trace: columns", value=seen, expected="those of a known format: " + _names())


def _names() -> str:
    return ", ".join(sorted(known.name for known in FORMATS))
