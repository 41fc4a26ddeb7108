"""Jobs, nodes, migrations and events as tables: which columns there are, and which only a wide table has.

The first seven of a job are Voda's, in its order and spelling, since scripts read them.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sterna.interfaces.reports.grid import Emphasis, aligned, one_line, plainly
from sterna.interfaces.reports.spans import NOTHING, age_s, clock_span, cores, share, short_span, size

Record = dict[str, Any]

_MESSAGE_MAX = 100

PHASES = ("Running", "Resizing", "Waiting", "Suspended", "Failed", "Succeeded")  # in the order that lists have them


class RecordColumn(NamedTuple):
    head: str
    of: Callable[[Record, datetime], str]  # the second is now, for ages
    wide: bool = False  # only in wide tables
    sort: str = ""  # the path in the record that it shows, to sort by. Empty: there is none


def record_table(
    columns: Iterable[RecordColumn],
    records: Sequence[Record],
    *,
    now: datetime,
    wide: bool = False,
    head: bool = True,
    strong: Emphasis = plainly,
) -> str:
    """All columns to the left, as tables of words are read."""
    shown = [column for column in columns if wide or not column.wide]
    rows = [[one_line(column.of(record, now)) for column in shown] for record in records]
    text = aligned([column.head for column in shown], rows, left=len(shown), strong=strong)
    return text if head else text.partition("\n")[2]


def short_id(job_id: Any) -> str:
    """Without the namespace where that is the usual one."""
    return str(job_id or NOTHING).removeprefix("default/")


def _plain(key: str) -> Callable[[Record, datetime], str]:
    def of(record: Record, now: datetime) -> str:
        value = record.get(key)
        return NOTHING if value is None or value == "" else str(value)

    return of


def _age(key: str) -> Callable[[Record, datetime], str]:
    return lambda record, now: short_span(age_s(record.get(key), now))


def workers_of(job: Record) -> str:
    """How many there are, and between which bounds: `2/1-4`."""
    workers = job.get("workers") or {}
    least, most = workers.get("min"), workers.get("max")
    bounds = f"{least}" if least == most else f"{least}-{most}"
    return f"{workers.get('current', 0)}/{bounds}"


def growth_of(job: Record) -> str:
    """How its evaluation value grows: its category."""
    return str((job.get("growth") or {}).get("category") or NOTHING)


def _current(job: Record) -> str:
    return str((job.get("workers") or {}).get("current", 0))


def _nodes(job: Record) -> str:
    return ",".join(str(node) for node in job.get("nodes") or ()) or NOTHING


def _checkpoint(job: Record) -> str:
    checkpoint = job.get("checkpoint")
    return NOTHING if not checkpoint else f"step {checkpoint.get('step')}"


def _span(key: str, write: Callable[[float | None], str]) -> Callable[[Record, datetime], str]:
    return lambda record, now: write(record.get(key))


def _amount(value: Any) -> str:
    return NOTHING if value is None else f"{value:g}"


def _of(amount: Callable[[Any], str], key: str) -> Callable[[Record, datetime], str]:
    """How much of it is used: `2/8`."""
    return lambda node, now: f"{amount((node.get('used') or {}).get(key, 0))}/{amount(node.get(key))}"


def _node_status(node: Record) -> str:
    if not node.get("ready", True):
        return "NotReady"  # and takes no work for that reason alone
    return "Ready" if node.get("schedulable", True) else "Ready,Drained"


NAMESPACE = RecordColumn("NAMESPACE", _plain("namespace"), sort=".namespace")

JOBS: tuple[RecordColumn, ...] = (
    RecordColumn("NAME", _plain("name"), sort=".name"),
    RecordColumn("STATUS", _plain("phase"), sort=".phase"),
    RecordColumn("WORKERS", lambda job, now: _current(job), sort=".workers.current"),
    RecordColumn("SCHEDULER", _plain("policy"), sort=".policy"),
    RecordColumn("WAITING", _span("waitingSeconds", clock_span), sort=".waitingSeconds"),
    RecordColumn("RUNNING", _span("runningSeconds", clock_span), sort=".runningSeconds"),
    RecordColumn("TOTAL", _span("totalSeconds", clock_span), sort=".totalSeconds"),
    RecordColumn("SIZE", lambda job, now: workers_of(job), wide=True, sort=".workers.max"),
    RecordColumn("GPUS", lambda job, now: _amount(job.get("gpus")), wide=True, sort=".gpus"),
    RecordColumn("PROGRESS", _span("progress", share), wide=True, sort=".progress"),
    RecordColumn("GROWTH", lambda job, now: growth_of(job), wide=True, sort=".growth.category"),
    RecordColumn("REASON", _plain("reason"), wide=True, sort=".reason"),
    RecordColumn("NODES", lambda job, now: _nodes(job), wide=True),
    RecordColumn("PRIORITY", _plain("priority"), wide=True, sort=".priority"),
    RecordColumn("RESTARTS", _plain("restarts"), wide=True, sort=".restarts"),
    RecordColumn("MIGRATIONS", _plain("migrations"), wide=True, sort=".migrations"),
    RecordColumn("CHECKPOINT", lambda job, now: _checkpoint(job), wide=True, sort=".checkpoint.step"),
    RecordColumn("AGE", _age("submittedAt"), wide=True, sort=".submittedAt"),
)

NODES: tuple[RecordColumn, ...] = (
    RecordColumn("NAME", _plain("name"), sort=".name"),
    RecordColumn("STATUS", lambda node, now: _node_status(node)),
    RecordColumn("GPUS", _of(_amount, "gpus"), sort=".used.gpus"),
    RecordColumn("CPUS", _of(cores, "cpuMilli"), sort=".used.cpuMilli"),
    RecordColumn("MEMORY", _of(size, "memoryBytes"), sort=".used.memoryBytes"),
    RecordColumn("WORKERS", lambda node, now: str(len(node.get("workers") or ()))),
    RecordColumn("VIRTUAL", lambda node, now: "yes" if node.get("virtual") else "no", wide=True),
    RecordColumn("LIMITS", _plain("limits"), wide=True),
)

MIGRATIONS: tuple[RecordColumn, ...] = (
    RecordColumn("ID", _plain("id"), sort=".id"),
    RecordColumn("JOB", lambda move, now: short_id(move.get("job")), sort=".job"),
    RecordColumn("FROM", _plain("from"), sort=".from"),
    RecordColumn("TO", _plain("to"), sort=".to"),
    RecordColumn("PHASE", _plain("phase"), sort=".phase"),
    RecordColumn("REASON", _plain("reason"), sort=".reason"),
    RecordColumn("DOWNTIME", _span("downtimeSeconds", short_span), sort=".downtimeSeconds"),
    RecordColumn("BENEFIT", _span("expectedBenefitSeconds", short_span), sort=".expectedBenefitSeconds"),
    RecordColumn("AGE", _age("requestedAt"), sort=".requestedAt"),
    RecordColumn("WORKER", _plain("worker"), wide=True, sort=".worker"),
    RecordColumn("BY", _plain("rebalancer"), wide=True, sort=".rebalancer"),
    RecordColumn("WARM", lambda move, now: "yes" if move.get("warm") else "no", wide=True),
    RecordColumn("SAVE", _span("saveSeconds", short_span), wide=True, sort=".saveSeconds"),
    RecordColumn("LOAD", _span("loadSeconds", short_span), wide=True, sort=".loadSeconds"),
    RecordColumn("STEP", _plain("step"), wide=True, sort=".step"),
    RecordColumn("LOST", _plain("stepsLost"), wide=True, sort=".stepsLost"),
    RecordColumn("MESSAGE", _plain("message"), wide=True, sort=".message"),
)

EVENTS: tuple[RecordColumn, ...] = (
    RecordColumn("AGE", _age("at")),
    RecordColumn("TYPE", _plain("type")),
    RecordColumn("OBJECT", lambda event, now: short_id(event.get("job") or event.get("node"))),
    RecordColumn("REASON", _plain("reason")),
    RecordColumn("MESSAGE", _plain("message")),
)

WORKERS: tuple[RecordColumn, ...] = (
    RecordColumn("NAME", _plain("name")),
    RecordColumn("ROLE", _plain("role")),
    RecordColumn("RANK", _plain("rank")),
    RecordColumn("NODE", _plain("node")),
    RecordColumn("PID", _plain("pid")),
    RecordColumn("PHASE", lambda worker, now: _worker_phase(worker)),
    RecordColumn("AGE", _age("startedAt")),
)

WORKERS_ELSEWHERE = tuple(column for column in WORKERS if column.head != "PID")  # where processes are not ours to see

CONDITIONS: tuple[RecordColumn, ...] = (
    RecordColumn("TYPE", _plain("type")),
    RecordColumn("STATUS", _plain("status")),
    RecordColumn("REASON", _plain("reason")),
    RecordColumn("MESSAGE", lambda condition, now: _cut(condition.get("message") or NOTHING)),
)

ENDED: tuple[RecordColumn, ...] = (
    RecordColumn("NAME", _plain("name")),
    RecordColumn("NODE", _plain("node")),
    RecordColumn("CODE", _plain("exitCode")),
    RecordColumn("AGE", _age("startedAt")),
    RecordColumn("MESSAGE", lambda worker, now: _cut(worker.get("exit") or NOTHING)),
)

HISTORY: tuple[RecordColumn, ...] = (
    RecordColumn("AGE", _age("requestedAt")),
    RecordColumn("KIND", _plain("kind")),
    RecordColumn("FROM", lambda change, now: _place(change, "from", "workersBefore")),
    RecordColumn("TO", lambda change, now: _place(change, "to", "workersAfter")),
    RecordColumn("PHASE", _plain("phase")),
    RecordColumn("REASON", _plain("reason")),
    RecordColumn("SAVE", _span("saveSeconds", short_span)),
    RecordColumn("LOAD", _span("loadSeconds", short_span)),
    RecordColumn("DOWNTIME", _span("downtimeSeconds", short_span)),
    RecordColumn("STEP", _plain("step")),
    RecordColumn("LOST", _plain("stepsLost")),
)


def _cut(words: Any) -> str:
    text = one_line(words)
    return text if len(text) <= _MESSAGE_MAX else text[: _MESSAGE_MAX - 3] + "..."


def _place(change: Record, where: str, count: str) -> str:
    """`2 on node-1`."""
    nodes = change.get(where) or NOTHING
    return str(nodes) if change.get(count) is None else f"{change[count]} on {nodes}"


def _worker_phase(worker: Record) -> str:
    words = str(worker.get("phase") or NOTHING)
    return f"{words}, standby" if worker.get("standby") else words
