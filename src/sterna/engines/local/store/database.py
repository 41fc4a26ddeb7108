"""All state of the local engine, in one SQLite file: what a restart finds is what was committed, and nothing else.

There is one writer. Everything that belongs together is written in one transaction (`Store.write`), and is on disk when
that returns: whatever the engine does to the world next, a crash finds the intention here.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from sterna.engines.local.process.clock import Anchor
from sterna.engines.local.store import schema
from sterna.engines.local.store.row_codec import from_text, made_of, plain, to_text
from sterna.engines.local.store.rows import CLOSED, ChangeRow, EventRow, JobRow, NodeRow, WorkerRow
from sterna.model.errors import EngineUnavailable, InvalidRequest
from sterna.model.ids import JobId
from sterna.model.learning import Knowledge, Seen, ThroughputModel
from sterna.model.target import PolicyMemory

EVENTS_MAX = 20_000  # older ones are forgotten
CACHE_KIB = 1024  # of pages: what is asked all the time is in memory as it is (`job_book.py`)
_RETRY_S = 2.0
_OUTSIDE_STATE = frozenset({"uid", "id", "submitted_s", "phase", "finished_s", "manifest", "cwd"})
_STATE_FIELDS = tuple(field.name for field in fields(JobRow) if field.name not in _OUTSIDE_STATE)


class Store:
    """`on_commit` is called before and after everything that becomes durable: tests crash there."""

    def __init__(self, path: Path, *, on_commit: Callable[[str], None] | None = None) -> None:
        self._on_commit = on_commit
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=5.0)
            self._configure(path)
        except sqlite3.DatabaseError as error:
            expected = f"a Sterna database ({error}); restore it, or move it away to begin anew"
            raise InvalidRequest(field="home", value=str(path), expected=expected) from None

    def close(self) -> None:
        self._connection.close()

    def write(self, *, what: str = "") -> "Transaction":
        """Begin a transaction. Use as a context: leaving it commits, an error undoes everything."""
        return Transaction(self._connection, what, self._on_commit)

    # -- reading ------------------------------------------------------------------------------------------------------

    def jobs(self) -> Iterator[JobRow]:
        """In order of arrival."""
        columns = "uid, id, submitted_s, phase, finished_s, manifest, cwd, state"
        for row in self._connection.execute(f"SELECT {columns} FROM jobs ORDER BY submitted_s, id"):
            names = ("uid", "id", "submitted_s", "phase", "finished_s", "manifest", "cwd")
            yield made_of(JobRow, dict(zip(names, row[:7], strict=True)) | json.loads(row[7]))

    def workers(self) -> Iterator[WorkerRow]:
        for (body,) in self._connection.execute("SELECT body FROM workers ORDER BY job_uid, incarnation, rank, uid"):
            yield from_text(WorkerRow, body)

    def nodes(self) -> dict[str, NodeRow]:
        rows = self._connection.execute("SELECT id, cordoned, ready FROM nodes ORDER BY id")
        return {name: NodeRow(id=name, cordoned=bool(cordoned), ready=bool(ready)) for name, cordoned, ready in rows}

    def changes(self, job_id: JobId | None = None, *, limit: int = 1000) -> list[ChangeRow]:
        """The latest, oldest first."""
        where, given = ("WHERE job_id = ?", [job_id]) if job_id is not None else ("", [])
        query = f"SELECT body FROM changes {where} ORDER BY id DESC LIMIT ?"
        rows = self._connection.execute(query, [*given, limit]).fetchall()
        return [from_text(ChangeRow, body) for (body,) in reversed(rows)]

    def open_changes(self) -> list[ChangeRow]:
        closed = ", ".join(f"'{stage}'" for stage in sorted(CLOSED))
        rows = self._connection.execute(f"SELECT body FROM changes WHERE stage NOT IN ({closed}) ORDER BY id")
        return [from_text(ChangeRow, body) for (body,) in rows]

    def events(self, job_id: JobId | None = None, *, after: int = 0, limit: int = 1000) -> list[EventRow]:
        """Oldest first, from the first one after `after`."""
        where, given = ("AND job_id = ?", [job_id]) if job_id is not None else ("", [])
        columns = "id, at_s, job_id, node_id, warning, reason, message, data"
        query = f"SELECT {columns} FROM events WHERE id > ? {where} ORDER BY id LIMIT ?"
        return [_event(row) for row in self._connection.execute(query, [after, *given, limit])]

    def latest_events(self, job_id: JobId, *, limit: int) -> list[EventRow]:
        columns = "id, at_s, job_id, node_id, warning, reason, message, data"
        query = f"SELECT {columns} FROM events WHERE job_id = ? ORDER BY id DESC LIMIT ?"
        return [_event(row) for row in reversed(self._connection.execute(query, [job_id, limit]).fetchall())]

    def last_event(self) -> int:
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
        return int(row[0]) if row else 0

    def last_change(self) -> int:
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
        return int(row[0]) if row else 0

    def knowledge(self) -> Knowledge:
        rows = self._connection.execute("SELECT category, accelerator, seen, finished, finished_units FROM learned")
        return Knowledge(
            {
                (category, accelerator): ThroughputModel(tuple(Seen(*entry) for entry in json.loads(seen)), done, units)
                for category, accelerator, seen, done, units in rows
            }
        )

    def memory(self) -> PolicyMemory:
        return self._meta("memory", PolicyMemory) or PolicyMemory()

    def anchor(self) -> Anchor | None:
        known: Anchor | None = self._meta("anchor", Anchor)
        return known

    def latest_s(self) -> float:
        """The latest moment that anything here was written at; 0 in an empty store."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'latest_s'").fetchone()
        return float(row[0]) if row else 0.0

    def setting(self, key: str) -> Any:
        """What was set, as JSON has it. None: nothing was."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", [f"setting/{key}"]).fetchone()
        return json.loads(row[0]) if row else None

    def _meta(self, key: str, kind: type[Any]) -> Any:
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchone()
        return from_text(kind, row[0]) if row else None

    def _configure(self, path: Path) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA foreign_keys = ON")
        run(f"PRAGMA cache_size = -{CACHE_KIB}")
        if (found := run("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(str(found))
        schema.prepare(self._connection, name=str(path))


class Transaction:
    """What is written together. Nothing outside sees any of it before the end."""

    def __init__(self, connection: sqlite3.Connection, what: str, on_commit: Callable[[str], None] | None) -> None:
        self._connection = connection
        self._what = what
        self._on_commit = on_commit

    def __enter__(self) -> "Transaction":
        with _our_errors():
            self._connection.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._undo()
            return
        try:
            if self._on_commit is not None:
                self._on_commit(f"before commit: {self._what}")
            with _our_errors():
                self._connection.execute("COMMIT")
        except BaseException:
            self._undo()
            raise
        if self._on_commit is not None:
            self._on_commit(f"after commit: {self._what}")

    def _undo(self) -> None:
        if self._connection.in_transaction:  # a full disk may have undone it already
            self._connection.execute("ROLLBACK")

    def job(self, job: JobRow) -> None:
        state = json.dumps({name: plain(getattr(job, name)) for name in _STATE_FIELDS}, separators=(",", ":"))
        self._run(
            "INSERT INTO jobs (uid, id, submitted_s, phase, finished_s, manifest, cwd, state)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (uid) DO UPDATE SET"
            " phase = excluded.phase, finished_s = excluded.finished_s, state = excluded.state",
            [job.uid, job.id, job.submitted_s, job.phase, job.finished_s, job.manifest, job.cwd, state],
        )

    def worker(self, row: WorkerRow) -> None:
        self._run(
            "INSERT OR REPLACE INTO workers"
            " (uid, job_uid, role, ordinal, rank, node, incarnation, state, standby, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                row.uid,
                row.job_uid,
                row.role,
                row.ordinal,
                row.rank,
                row.node,
                row.incarnation,
                row.state,
                row.standby,
                to_text(row),
            ],
        )

    def delete_job(self, uid: str) -> None:
        """With its workers; what happened to it stays readable."""
        self._run("DELETE FROM jobs WHERE uid = ?", [uid])

    def delete_workers(self, uids: Iterable[str]) -> None:
        for uid in uids:
            self._run("DELETE FROM workers WHERE uid = ?", [uid])

    def node(self, row: NodeRow) -> None:
        self._run(
            "INSERT OR REPLACE INTO nodes (id, cordoned, ready) VALUES (?, ?, ?)", [row.id, row.cordoned, row.ready]
        )

    def change(self, row: ChangeRow) -> None:
        self._run(
            "INSERT OR REPLACE INTO changes (id, job_uid, job_id, kind, stage, requested_s, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [row.id, row.job_uid, row.job_id, row.kind, row.stage, row.requested_s, to_text(row)],
        )

    def event(self, row: EventRow) -> None:
        self._run(
            "INSERT INTO events (id, at_s, job_id, node_id, warning, reason, message, data)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [row.id, row.at_s, row.job_id, row.node_id, row.warning, row.reason, row.message, to_text(row.data)],
        )
        if row.id % 1000 == 0:
            self._run("DELETE FROM events WHERE id <= ?", [row.id - EVENTS_MAX])

    def learned(self, knowledge: Knowledge, changed: Iterable[tuple[str, str]]) -> None:
        for key in changed:
            if (model := knowledge.models.get(key)) is not None:
                self._run(
                    "INSERT OR REPLACE INTO learned (category, accelerator, seen, finished, finished_units)"
                    " VALUES (?, ?, ?, ?, ?)",
                    [*key, json.dumps([list(entry) for entry in model.seen]), model.finished, model.finished_units],
                )

    def forget_learned(self, category: str, accelerator: str) -> None:
        self._run("DELETE FROM learned WHERE category = ? AND accelerator = ?", [category, accelerator])

    def memory(self, memory: PolicyMemory) -> None:
        self._meta("memory", to_text(memory))

    def anchor(self, anchor: Anchor) -> None:
        self._meta("anchor", to_text(anchor))

    def latest(self, moment_s: float) -> None:
        self._meta("latest_s", repr(moment_s))

    def setting(self, key: str, value: Any) -> None:
        self._meta(f"setting/{key}", json.dumps(value))

    def _meta(self, key: str, value: str) -> None:
        self._run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", [key, value])

    def _run(self, statement: str, given: list[Any]) -> None:
        with _our_errors():
            self._connection.execute(statement, given)


@contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:  # disk full, database locked by a backup, ...
        raise EngineUnavailable(f"the database cannot be written: {error}", retry_after_s=_RETRY_S) from error


def _event(row: tuple[Any, ...]) -> EventRow:
    number, at_s, job_id, node_id, warning, reason, message, data = row
    return EventRow(
        id=number,
        at_s=at_s,
        job_id=job_id,
        node_id=node_id,
        warning=bool(warning),
        reason=reason,
        message=message,
        data=json.loads(data),
    )
