"""What a restart finds is what was committed, and nothing else."""

import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.local.process.clock import Anchor
from sterna.engines.local.store import schema
from sterna.engines.local.store.database import Store
from sterna.engines.local.store.row_codec import from_text, to_text
from sterna.engines.local.store.rows import (
    ChangeRow,
    EventRow,
    Exit,
    ExitKind,
    Heard,
    JobRow,
    NodeRow,
    Progress,
    Stage,
    WorkerRow,
    WorkerState,
)
from sterna.lifecycle.changes import ChangeKind
from sterna.model.conditions import ConditionType, Status, said
from sterna.model.errors import EngineUnavailable, InvalidRequest
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import ProgressPoint, Role
from sterna.model.learning import Knowledge, ThroughputModel
from sterna.model.phases import Phase
from sterna.model.target import PolicyMemory
from tests.engines.local.gangs import place

JOB = JobRow(
    uid="u1",
    id=JobId("default/a"),
    manifest="kind: ElasticJob\n",
    cwd="/tmp",
    submitted_s=5.0,
    phase=Phase.RESIZING,
    bounds=(1, 3),
    assigned=(place(0), place(1, "n2")),
    conditions=(said(ConditionType.CREATED, Status.TRUE, reason="Submitted", message="", now_s=5.0),),
    progress=Progress(6.0, 10, 1, 10.0, 100.0, 0.5, {"loss": float("inf")}, {"step": 3}, 0.1, 0.2, 0.3, None),
    points=(ProgressPoint(6.0, 10.0, 2, 0.5, None),),
)
WORKER = WorkerRow(
    uid="a-worker-0-abcde",
    job_uid="u1",
    role=Role.WORKER,
    ordinal=0,
    rank=0,
    world_size=2,
    node=NodeId("n1"),
    devices=(DeviceId("0"),),
    incarnation=1,
    standby=True,
    state=WorkerState.EXITED,
    created_s=5.0,
    heard=Heard("committed", 10, None, 1.0, 2.0, 0.1, None),
    exit=Exit(ExitKind.STOPPED, 7.0, None, 15, False, "signal 15"),
)
CHANGE = ChangeRow(
    id=1,
    job_uid="u1",
    job_id=JobId("default/a"),
    kind=ChangeKind.MIGRATION,
    stage=Stage.WARMING,
    before=(place(0),),
    after=(place(0, "n2"),),
    to=NodeId("n2"),
)


def event(number: int, job: str | None = "default/a") -> EventRow:
    return EventRow(
        id=number,
        at_s=float(number),
        job_id=None if job is None else JobId(job),
        node_id=None,
        warning=False,
        reason="Submitted",
        message="it is accepted",
        data={"workers": 2},
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sterna.db"


def test_everything_that_was_committed_is_read_as_it_was_written(path):
    knowledge = Knowledge({("resnet", "v100"): ThroughputModel().observed(2, 0.5).completed(10.0)})
    memory = PolicyMemory({JobId("default/a"): {"age": 1.0}}, {"turn": 2.0}, 3.0)
    store = Store(path)
    with store.write() as write:
        write.job(JOB)
        write.worker(WORKER)
        write.change(CHANGE)
        write.event(event(1))
        write.node(NodeRow(id=NodeId("n1"), cordoned=True))
        write.learned(knowledge, [("resnet", "v100")])
        write.memory(memory)
        write.anchor(Anchor("b", 1.0, 2.0))
        write.setting("policy", {"name": "fifo"})
        write.latest(7.5)
    store.close()
    again = Store(path)
    assert list(again.jobs()) == [JOB]
    assert list(again.workers()) == [WORKER]
    assert again.changes() == again.open_changes() == [CHANGE]
    assert again.events() == [event(1)]
    assert again.nodes() == {"n1": NodeRow(id=NodeId("n1"), cordoned=True)}
    assert again.knowledge() == knowledge
    assert again.memory() == memory
    assert again.anchor() == Anchor("b", 1.0, 2.0)
    assert (again.setting("policy"), again.setting("nothing"), again.latest_s()) == ({"name": "fifo"}, None, 7.5)


def test_an_empty_store_has_nothing(path):
    store = Store(path)
    assert (list(store.jobs()), list(store.workers()), store.events(), store.last_event()) == ([], [], [], 0)
    assert (store.memory(), store.anchor(), store.latest_s()) == (PolicyMemory(), None, 0.0)


def test_a_transaction_that_fails_leaves_nothing(path):
    store = Store(path)
    with pytest.raises(ZeroDivisionError), store.write() as write:  # noqa: PT012
        write.job(JOB)
        raise ZeroDivisionError
    assert list(store.jobs()) == []
    with store.write() as write:
        write.job(JOB)
    assert list(store.jobs()) == [JOB]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_a_commit_leaves_all_of_it_or_nothing(path, moment):
    class Crash(BaseException):
        pass

    def crash(what: str) -> None:
        if what.startswith(moment):
            raise Crash

    store = Store(path, on_commit=crash)
    with pytest.raises(Crash), store.write() as write:  # noqa: PT012
        write.job(JOB)
        write.worker(WORKER)
    store.close()
    again = Store(path)
    assert (len(list(again.jobs())), len(list(again.workers()))) == ((0, 0) if moment == "before" else (1, 1))


def test_a_job_goes_with_its_workers_and_leaves_its_story(path):
    store = Store(path)
    with store.write() as write:
        write.job(JOB)
        write.worker(WORKER)
        write.event(event(1))
        write.change(CHANGE)
    with store.write() as write:
        write.delete_job("u1")
    assert (list(store.jobs()), list(store.workers())) == ([], [])
    assert (len(store.events(JobId("default/a"))), len(store.changes(JobId("default/a")))) == (1, 1)


def test_one_name_one_job(path):
    store = Store(path)
    with store.write() as write:
        write.job(JOB)
    with pytest.raises(sqlite3.IntegrityError), store.write() as write:
        write.job(replace(JOB, uid="u2"))


def test_events_are_read_from_where_one_was_and_old_ones_are_forgotten(path, monkeypatch):
    monkeypatch.setattr("sterna.engines.local.store.database.EVENTS_MAX", 500)
    store = Store(path)
    with store.write() as write:
        for number in range(1, 2001):
            write.event(event(number, None if number % 2 else "default/a"))
    assert [found.id for found in store.events(after=1998)] == [1999, 2000]
    assert [found.id for found in store.events(JobId("default/a"), after=1990, limit=2)] == [1992, 1994]
    assert [found.id for found in store.latest_events(JobId("default/a"), limit=2)] == [1998, 2000]
    assert store.events(limit=1)[0].id == 1501
    assert store.last_event() == 2000


def test_a_database_of_a_newer_release_is_refused_by_name(path):
    Store(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(InvalidRequest, match="newer"):
        Store(path)


def test_an_older_database_is_brought_up_to_date_step_by_step(path, monkeypatch):
    Store(path).close()
    steps = []
    monkeypatch.setattr(schema, "VERSION", 3)
    monkeypatch.setattr(schema, "MIGRATIONS", {1: lambda _: steps.append(1), 2: lambda _: steps.append(2)})
    Store(path).close()
    Store(path).close()
    assert steps == [1, 2]


@pytest.mark.parametrize(
    "content", [b"this is no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000], ids=["text", "torn"]
)
def test_a_damaged_database_is_refused_by_name(path, content):
    path.write_bytes(content)
    with pytest.raises(InvalidRequest, match=r"sterna\.db"):
        Store(path)


def test_a_full_disk_is_worth_another_try(path):
    store = Store(path)
    store._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(EngineUnavailable, match="written"), store.write() as write:  # noqa: PT012
        for number in range(5000):
            write.event(event(number + 1))
    assert store.events() == []


seconds = st.none() | st.floats(0, 1e9)


@given(
    st.builds(
        Progress,
        units_done=st.floats(0, 1e12),
        step_s=seconds,
        save_s=seconds,
        load_s=seconds,
        restart_s=seconds,
        at_s=st.floats(0, 1e9),
        step=st.integers(0, 1 << 40),
        units_total=st.none() | st.floats(0, 1e12),
        checkpoint=st.none() | st.just({"step": 3, "bytes": 10}),
        metrics=st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False)),
        problem=st.none() | st.text(),
    )
)
def test_rows_survive_being_written_down(progress):
    assert from_text(Progress, to_text(progress)) == progress


def test_a_field_that_came_later_has_its_default_in_older_rows():
    assert from_text(NodeRow, '{"id": "n1", "and": "what a newer one wrote"}') == NodeRow(id=NodeId("n1"))
