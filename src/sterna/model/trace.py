"""Jobs as a trace describes them, before it is known how they train. Values only; reading files is `wire/traces`.

Readers make these and performance models turn them into simulated jobs; neither needs to know the other.
"""

from math import exp
from typing import NamedTuple

from sterna.model.ids import JobId, NodeId
from sterna.model.resources import WHOLE_GPU_MILLI


class EvaluationCurve(NamedTuple):
    """An evaluation value that approaches its end exponentially in work done, whatever pace the work is done at."""

    start: float  # before any work
    end: float  # after endless work
    rate: float  # per unit of work

    def value(self, units_done: float) -> float:
        return self.end + (self.start - self.end) * exp(-self.rate * max(0.0, units_done))


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
    servers: int = 0  # parameter servers, each with the request and limit of a worker
    cpu_limit_milli: int = 0  # what a container may use at most. 0: no limit
    memory_limit_bytes: int = 0
    cpu_demand_milli: int = 0  # what a worker could use if it were alone. 0: not said
    server_demand_milli: int = 0  # the same of a parameter server
    node: NodeId | None = None  # where it would like to be. None: anywhere
    evaluation: EvaluationCurve | None = None  # None: the trace does not say


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
