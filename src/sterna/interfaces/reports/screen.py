"""The picture that `sterna top` draws: a bar for each node, a line for each job. Drawn from records alone."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from sterna.interfaces.reports.grid import one_line
from sterna.interfaces.reports.record_tables import PHASES, growth_of, short_id, workers_of
from sterna.interfaces.reports.spans import NOTHING, cores, short_span

Record = dict[str, Any]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#b3a100",
)  # also for colour-blind eyes
_STYLES = {"Running": "green", "Resizing": "yellow", "Failed": "red", "Succeeded": "dim", "Suspended": "dim"}
_BAR_CELLS = 32
_BAR_CELLS_NARROW = 12
_PROGRESS_CELLS = 20
_JOBS_SHOWN = 40
_ROOMY_COLUMNS = 110
_NARROW_COLUMNS = 80
_JOB_HEADS = ("", "JOB", "STATUS", "SIZE", "PROGRESS", "", "STEP", "STEP/S", "LEFT", "GROWTH", "REASON")
_LEAST_TELLING = (9, 7, 6, 4, 8)  # places in the heads, the first to go where the screen is too narrow for all
_REASON_CELLS_MIN = 16


class Mark(NamedTuple):
    """How a job is told from others: a letter, for users who see no colour, and a colour."""

    letter: str
    style: str


class Screen:
    def __init__(
        self,
        jobs: Sequence[Record],
        nodes: Sequence[Record],
        rates: Mapping[str, float],
        shown: Sequence[Record],  # of the jobs, in this order
        *,
        legend: str = "",
    ) -> None:
        self._jobs = jobs
        self._nodes = nodes
        self._rates = rates
        self._shown = shown
        self._legend = legend

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        full, empty = ("#", ".") if options.ascii_only else ("█", "·")
        marks = job_marks(self._jobs)
        yield Text(summary(self._jobs, self._nodes), style="bold")
        yield Text()
        yield _node_table(self._jobs, self._nodes, marks, empty, options.max_width)
        yield Text()
        shown = self._shown
        cells = _PROGRESS_CELLS if options.max_width >= _ROOMY_COLUMNS else _PROGRESS_CELLS // 2
        rows = [
            _job_row(
                job,
                self._rates.get(str(job["id"])),
                marks[str(job["id"])],
                progress_bar(job.get("progress"), full=full, empty=empty, cells=cells),
            )
            for job in shown[:_JOBS_SHOWN]
        ]
        yield _job_table(rows, options.max_width)
        if len(shown) > _JOBS_SHOWN:
            yield Text(f"and {len(shown) - _JOBS_SHOWN} more; see `sterna get jobs -A`", style="dim")
        if hidden := len(self._jobs) - len(shown):
            yield Text(f"{_count(hidden, 'job')} not shown", style="dim")
        if self._legend:
            yield Text(self._legend, style="dim")


def summary(jobs: Sequence[Record], nodes: Sequence[Record]) -> str:
    """`3 nodes, 5 of 6 GPUs in use; 3 jobs: 2 running, 1 waiting`."""
    counts = Counter(str(job["phase"]) for job in jobs)
    words = ", ".join(f"{counts[phase]} {phase.lower()}" for phase in PHASES if counts[phase])
    gpus = sum(node.get("gpus") or 0 for node in nodes)
    if gpus:
        room = f"{_used(nodes, 'gpus'):g} of {gpus:g} GPUs in use"
    else:
        milli = sum(node.get("cpuMilli") or 0 for node in nodes)
        room = f"{cores(_used(nodes, 'cpuMilli'))} of {cores(milli)} CPUs in use"
    return f"{_count(len(nodes), 'node')}, {room}; {_count(len(jobs), 'job')}" + (f": {words}" if words else "")


def job_marks(jobs: Sequence[Record]) -> dict[str, Mark]:
    """By job id, in order of submission, so that a job keeps its mark when others come and go."""
    order = sorted(jobs, key=lambda job: (str(job.get("submittedAt") or ""), str(job["id"])))
    return {
        str(job["id"]): Mark(_LETTERS[number % len(_LETTERS)], _COLOURS[number % len(_COLOURS)])
        for number, job in enumerate(order)
    }


def node_bar(
    node: Record,
    jobs: Mapping[str, Record],
    marks: Mapping[str, Mark],
    *,
    empty: str = "·",
    cells_max: int = _BAR_CELLS,
) -> Text:
    """Its GPUs, or its CPUs where it has none, a cell or several for each; workers fill what they hold."""
    by_gpu = bool(node.get("gpus"))
    slots = float(node["gpus"] if by_gpu else (node.get("cpuMilli") or 0) / 1000) or 1.0
    per_slot = min(4.0, max(1, int(cells_max / slots))) if slots <= cells_max else cells_max / slots
    cells = max(1, round(slots * per_slot))
    bar = Text()
    for job_id, held in _held(node, jobs, slots, by_gpu=by_gpu):
        mark = marks.get(job_id, Mark("?", "white"))
        bar.append(mark.letter * min(max(1, round(held * per_slot)), cells - len(bar)), style=f"reverse {mark.style}")
    return bar.append(empty * (cells - len(bar)), style="dim")


def progress_bar(done: float | None, *, full: str = "█", empty: str = "·", cells: int = _PROGRESS_CELLS) -> str:
    if done is None:
        return NOTHING
    filled = int(max(0.0, min(1.0, done)) * cells)
    return full * filled + empty * (cells - filled)


def _node_table(
    jobs: Sequence[Record], nodes: Sequence[Record], marks: Mapping[str, Mark], empty: str, width: int
) -> Table:
    cells_max = _BAR_CELLS if width >= _NARROW_COLUMNS else _BAR_CELLS_NARROW
    table = _table("NODE", "", "GPUS", "CPUS", "WORKERS", "STATE")
    by_name = {name: job for job in jobs for name in (str(job["id"]), str(job["name"]))}
    for node in nodes:
        used = node.get("used") or {}
        gpus = f"{used.get('gpus') or 0:g}/{node['gpus']:g}" if node.get("gpus") else NOTHING
        cpus = f"{cores(used.get('cpuMilli') or 0)}/{cores(node.get('cpuMilli'))}"
        bar = node_bar(node, by_name, marks, empty=empty, cells_max=cells_max)
        table.add_row(one_line(node["name"]), bar, gpus, cpus, str(len(node.get("workers") or ())), _state(node))
    return table


def _job_table(rows: Sequence[Sequence[Text]], width: int) -> Table:
    """Reasons, which stand last, get what the other columns leave; where that is too little, others go."""
    places = list(range(len(_JOB_HEADS) - 1))
    taken = [max(len(_JOB_HEADS[place]), *(row[place].cell_len for row in rows), 0) for place in places]

    def left() -> int:
        return width - sum(taken[place] + 1 for place in places)

    for place in _LEAST_TELLING:
        if left() < _REASON_CELLS_MIN:
            places.remove(place)
    table = _table(*(_JOB_HEADS[place] for place in places), _JOB_HEADS[-1])
    for row in rows:
        reason = row[-1]
        reason.truncate(max(10, left()), overflow="ellipsis")
        table.add_row(*(row[place] for place in places), reason)
    return table


def _job_row(job: Record, rate: float | None, mark: Mark, bar: str) -> list[Text]:
    done, phase = job.get("progress"), str(job["phase"])
    return [
        Text(mark.letter, style=f"reverse {mark.style}"),
        Text(one_line(short_id(job["id"]))),
        Text(phase, style=_STYLES.get(phase, "")),
        Text(workers_of(job)),
        Text(bar, style=mark.style),
        Text("" if done is None else f"{int(done * 100)}%"),
        Text(NOTHING if job.get("step") is None else str(job["step"])),
        Text(f"{rate:.1f}" if rate is not None and phase == "Running" else NOTHING),
        Text(short_span(job.get("remainingSeconds")) if phase not in ("Succeeded", "Failed") else NOTHING),
        Text(growth_of(job), style="dim" if growth_of(job) != "Converged" else "yellow"),
        Text(_reason(job)),
    ]


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    for head in heads:
        table.add_column(head, no_wrap=True, justify="right" if head in ("STEP", "STEP/S", "LEFT") else "left")
    return table


def _held(node: Record, jobs: Mapping[str, Record], slots: float, *, by_gpu: bool) -> Iterator[tuple[str, float]]:
    """Each worker's job and how many slots of the node it holds."""
    workers = sorted(str(worker) for worker in node.get("workers") or ())
    used = (node.get("used") or {}).get("gpus" if by_gpu else "cpuMilli") or 0
    even = (used if by_gpu else used / 1000) / len(workers) if workers else 0.0
    for worker in workers:
        job = jobs.get(worker.rpartition("/")[0])
        if job is None:
            yield "", min(even, slots)
            continue
        count = (job.get("workers") or {}).get("current") or 1
        yield str(job["id"]), (job.get("gpus") or 0) / count if by_gpu and job.get("gpus") else even


def _reason(job: Record) -> str:
    """In words where a job waits or has failed, in one word otherwise."""
    told = job.get("message") if job["phase"] in ("Waiting", "Failed") else None
    return one_line(told or job.get("reason") or NOTHING)


def _state(node: Record) -> Text:
    if not node.get("ready", True):
        return Text("not ready", style="red")
    return Text("") if node.get("schedulable", True) else Text("drained", style="yellow")


def _used(nodes: Sequence[Record], key: str) -> float:
    return float(sum((node.get("used") or {}).get(key) or 0 for node in nodes))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
