"""Whatever the store keeps and the journal says is read back equal, over all names that are legal."""

from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.engines.local.store.row_codec import from_text, to_text
from sterna.engines.local.store.rows import ChangeRow, EventRow, JobRow, Stage, WorkerRow, WorkerState
from sterna.journal.journal import TextJournal
from sterna.journal.replay import read_journal
from sterna.lifecycle.changes import ChangeKind
from sterna.model.conditions import Condition, ConditionType, Status
from sterna.model.ids import DeviceId, JobId, NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.placement.packed import packed
from sterna.planner.decide import decide
from sterna.policies.registry import policy
from sterna.wire.snapshot_file import snapshot_of
from tests.journal.shapes import SHAPES
from tests.legal_names import CARDS, JOB_IDS, SUBDOMAINS, UIDS
from tests.worlds import cluster, job, node

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TEXTS = st.text(max_size=20)
COUNTS = st.integers(0, 1 << 40)
SECONDS = st.floats(0, 1e12)
RECORDS = st.dictionaries(TEXTS, st.none() | st.booleans() | COUNTS | SECONDS | TEXTS | st.lists(TEXTS), max_size=3)
WORKERS = st.builds(
    Worker,
    st.sampled_from(Role),
    st.integers(0, 999),
    SUBDOMAINS.map(NodeId),
    st.lists(CARDS.map(DeviceId), max_size=3).map(tuple),
)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "manifest": TEXTS,
    "assigned": st.lists(WORKERS, max_size=3).map(tuple),
    "before": st.lists(WORKERS, max_size=2).map(tuple),
    "after": st.lists(WORKERS, max_size=2).map(tuple),
    "devices": st.lists(CARDS.map(DeviceId), max_size=3).map(tuple),
    "conditions": st.lists(
        st.builds(Condition, st.sampled_from(ConditionType), st.sampled_from(Status), TEXTS, TEXTS, SECONDS, SECONDS),
        max_size=2,
    ).map(tuple),
    "bounds": st.none() | st.tuples(st.integers(1, 9), st.integers(9, 99)),
    "data": RECORDS,
    "phase": st.sampled_from(Phase),
    "state": st.sampled_from(WorkerState),
    "stage": st.sampled_from(Stage),
    "kind": st.sampled_from(ChangeKind),
    "role": st.sampled_from(Role),
    "uid": UIDS,
    "job_uid": UIDS,
    "to": st.none() | SUBDOMAINS.map(NodeId),
    "node": SUBDOMAINS.map(NodeId),
    "node_id": st.none() | SUBDOMAINS.map(NodeId),
    "job_id": JOB_IDS.map(JobId),
}
LEFT_OUT = {"progress", "evaluation", "points", "heard", "exit"}  # `test_store.py` has those
PLAIN = {bool: st.booleans(), int: COUNTS, float: SECONDS, str: TEXTS, JobId: JOB_IDS.map(JobId)}


def _of(name: str, hint: Any) -> st.SearchStrategy[Any]:
    if name in BY_NAME:
        return BY_NAME[name]
    parts = get_args(hint)
    return st.none() | PLAIN[parts[0]] if parts else PLAIN[hint]


def rows(kind: type[Any]) -> st.SearchStrategy[Any]:
    """With every field that it has."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: _of(name, hint) for name, hint in hints.items() if name not in LEFT_OUT})


@pytest.mark.parametrize("kind", [JobRow, WorkerRow, ChangeRow, EventRow], ids=lambda kind: kind.__name__)
def test_6_a_row_is_read_back_equal(kind):
    @UNHURRIED
    @given(rows(kind))
    def holds(row):
        assert from_text(kind, to_text(row)) == row

    holds()


@UNHURRIED
@given(
    st.lists(st.tuples(JOB_IDS, st.integers(1, 3)), max_size=3, unique_by=lambda made: made[0]),
    st.lists(SUBDOMAINS, min_size=1, max_size=3, unique=True),
)
def test_6_a_line_of_the_journal_tells_the_world_that_was_decided_about(jobs, nodes):
    made = [job(name, at_most=most, left=10.0) for name, most in jobs]
    view = cluster(nodes=[node(name, gpus=2) for name in nodes], jobs=made, now_s=60)
    lines: list[str] = []
    TextJournal(lines.append, SHAPES).decided(view, decide(view, policy("elastic-fifo"), packed))
    *_, entry = read_journal(lines)
    read = snapshot_of(entry.parts["snapshot"])
    assert [one.spec for one in read.jobs] == [one.spec for one in view.jobs]
    assert read.cluster.nodes == view.cluster.nodes
