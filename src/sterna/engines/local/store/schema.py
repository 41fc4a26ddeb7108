"""The tables of the local engine's database, their version, and how an older one is brought up to date."""

import sqlite3
from collections.abc import Callable

from sterna.model.errors import InvalidRequest

VERSION = 1

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (
    uid TEXT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    submitted_s REAL NOT NULL,
    phase TEXT NOT NULL,
    finished_s REAL,
    manifest TEXT NOT NULL,
    cwd TEXT NOT NULL,
    state TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE workers (
    uid TEXT PRIMARY KEY,
    job_uid TEXT NOT NULL REFERENCES jobs (uid) ON DELETE CASCADE,
    role TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    node TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    state TEXT NOT NULL,
    standby INTEGER NOT NULL,
    body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX workers_of_job ON workers (job_uid);
CREATE TABLE nodes (id TEXT PRIMARY KEY, cordoned INTEGER NOT NULL, ready INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_uid TEXT NOT NULL,
    job_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    stage TEXT NOT NULL,
    requested_s REAL NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX changes_of_job ON changes (job_id);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    job_id TEXT,
    node_id TEXT,
    warning INTEGER NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    data TEXT NOT NULL
);
CREATE INDEX events_of_job ON events (job_id, id);
CREATE TABLE learned (
    category TEXT NOT NULL,
    accelerator TEXT NOT NULL,
    seen TEXT NOT NULL,
    finished INTEGER NOT NULL,
    finished_units REAL NOT NULL,
    PRIMARY KEY (category, accelerator)
) WITHOUT ROWID;
"""

MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {}  # from a version to the next


def prepare(connection: sqlite3.Connection, *, name: str) -> None:
    """Make the tables, or bring those of an older version up to date; refuse those of a newer one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        expected = f"a database of version {VERSION} or older; this one was written by a newer Sterna"
        raise InvalidRequest(field="home", value=name, expected=expected)
    if version == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if version == 0:
            for statement in _TABLES.split(";"):
                connection.execute(statement)
        else:
            for older in range(version, VERSION):
                MIGRATIONS[older](connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
