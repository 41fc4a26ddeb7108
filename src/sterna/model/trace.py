"""Jobs as a trace tells of them, before anybody says how they train. Values only; reading files is `wire/traces`.

Readers make these and performance models turn them into simulated jobs; neither needs to know the other.
"""

from typing import NamedTuple

from sterna.model.ids import JobId
from sterna.model.resources import WHOLE_GPU_MILLI


class TraceRow(NamedTuple):
    """One job of a trace, in our units. A tuple rather than a dataclass: traces have a hundred thousand of them."""

    id: JobId  # the zero-padded number of its row, so that ids sort as the trace does
    line: int  # of the file, for messages. 0: it comes from no file
    submitted_s: float
    workers: int  # what the owner asked for
    workers_min: int | None = None  # None: the trace does not say, so the performance model does
    workers_max: int | None = None  # None: likewise
    gpu_milli: int = WHOLE_GPU_MILLI  # of one worker, as are the next two
    cpu_milli: int = 0
    memory_bytes: int = 0
    duration_s: float | None = None  # run time on `workers` workers. None: the trace does not say
    units: float | None = None  # iterations, steps or epochs. None: the trace does not say
    serial_fraction: float | None = None  # the part of the work that more workers do not speed up. None: not said
    category: str = ""  # what is trained
    batch_size: int | None = None  # of all workers together. None: the trace does not say
    accelerator: str | None = None  # None: any
    deadline_s: float | None = None  # None: there is none
    priority: int = 0
    name: str = ""  # what the trace itself calls the job


class RowProblem(NamedTuple):
    """Why a row was left out."""

    line: int
    field: str
    value: str
    expected: str

    @property
    def sentence(self) -> str:
        return f"line {self.line}: {self.field}: {self.value!r} is not valid; expected {self.expected}"


class Trace(NamedTuple):
    name: str
    format: str
    rows: tuple[TraceRow, ...]  # in the order of the file
    problems: tuple[RowProblem, ...] = ()  # rows that were left out, in the order of the file
