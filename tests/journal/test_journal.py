"""A journal in text can be read back, and every decision in it made again, byte for byte."""

import json
from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.engines.loop import run_at_once, run_cycle
from sterna.journal.journal import NoJournal, TextJournal, line_of
from sterna.journal.replay import read_journal, replay
from sterna.model.errors import InvalidRequest, InvariantBroken
from sterna.model.events import JobFinished, NodeLost
from sterna.model.ids import JobId, NodeId
from sterna.model.phases import Phase
from sterna.model.plan import Action, Decision, Held, Outcome
from sterna.model.snapshot import Snapshot
from sterna.placement.packed import packed
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import policy
from sterna.wire.decision_file import decision_record
from sterna.wire.snapshot_file import snapshot_of
from tests.journal.shapes import SHAPES
from tests.worlds import cluster, job, node

fifo = partial(decide, size=policy("fifo"), place=packed)
strict_fifo = partial(decide, size=policy("fifo", {"strict": "true"}), place=packed)
again = partial(replay, read_snapshot=snapshot_of, shape=decision_record)


class Still:
    """An engine whose world never changes, and that says yes to everything."""

    def __init__(self, view: Snapshot) -> None:
        self._view = view

    async def observe(self) -> Snapshot:
        return self._view

    async def apply(self, actions: Sequence[Action]) -> Sequence[Outcome]:
        return [Outcome(action, Held.DONE) for action in actions]

    async def remember(self, decision: Decision) -> None:
        pass


def busy_world(now_s: float = 60.5) -> Snapshot:
    jobs = [
        job("a", at_most=4, on=["n1", "n2"], submitted_s=3, left=50.0),
        job("b", needs=3, submitted_s=7.25, left=9),
        job("c", needs=1, submitted_s=8),
    ]
    return cluster(nodes=[node("n1", gpus=2), node("n2", gpus=1)], jobs=jobs, now_s=now_s)


def kept_of(*views: Snapshot) -> list[str]:
    lines: list[str] = []
    journal = TextJournal(lines.append, SHAPES, about={"policy": "fifo"})
    for view in views:
        decision = fifo(view)
        journal.decided(view, decision)
        for step in decision.steps:
            journal.happened([Outcome(action, Held.DONE) for action in step.actions])
    return lines


def test_every_entry_is_one_line_that_reads_back():
    lines: list[str] = []
    journal = TextJournal(lines.append, SHAPES, about={"policy": "fifo"})
    journal.seen([JobFinished(5.0, JobId("z"), Phase.SUCCEEDED), NodeLost(6.0, NodeId("n9"))])
    view = busy_world()
    journal.decided(view, fifo(view))
    journal.happened([Outcome(action, Held.DONE) for step in fifo(view).steps for action in step.actions])
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    entries = list(read_journal(lines))
    assert [entry.kind for entry in entries] == ["opened", "seen", "decided", "happened"]
    assert entries[0].parts == {"about": {"policy": "fifo"}}
    assert [event["event"] for event in entries[1].parts["events"]] == ["JobFinished", "NodeLost"]
    assert snapshot_of(entries[2].parts["snapshot"]) == view
    assert all(outcome["held"] == "done" for outcome in entries[3].parts["outcomes"])


def test_nothing_seen_and_nothing_done_leave_no_line():
    lines: list[str] = []
    journal = TextJournal(lines.append, SHAPES)
    journal.seen([])
    journal.happened([])
    assert [entry.kind for entry in read_journal(lines)] == ["opened"]


def test_a_decision_is_the_same_whether_or_not_anything_is_kept():
    view, lines = busy_world(), list[str]()
    for journal in (NoJournal(), TextJournal(lines.append, SHAPES)):
        assert run_at_once(run_cycle(Still(view), policy("fifo"), packed, journal, Settings())) == fifo(view)
    assert [entry.kind for entry in read_journal(lines)] == ["opened", "decided", "happened", "happened"]


def test_a_replay_decides_the_same_byte_for_byte():
    lines = kept_of(busy_world(), busy_world(61), busy_world(90.25))
    replayed = list(again(read_journal(lines), decide=fifo))
    assert len(replayed) == 3
    assert all(each.same for each in replayed)


def test_a_replay_with_other_options_shows_where_it_differs():
    alone = cluster(gpus=2, jobs=[job("a", needs=1)])
    crowd = cluster(
        gpus=2, jobs=[job("a", needs=1), job("b", needs=2, submitted_s=1), job("c", needs=1, submitted_s=2)]
    )
    lines = kept_of(alone, crowd)
    strict = [(each.line, each.same) for each in again(read_journal(lines), decide=strict_fifo)]
    assert strict == [(2, True), (4, False)]  # c may not pass b any more


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50), st.booleans()), max_size=6),
    st.sampled_from(["fifo", "srjf", "tiresias", "afs-l", "elastic-fifo"]),
)
def test_any_small_world_replays_alike_under_any_policy(jobs, name):
    made = [
        job(f"j{n}", at_most=most, submitted_s=at, left=10.0 + n, on=["n1"] if runs and n < 3 else [])
        for n, (most, at, runs) in enumerate(jobs)
    ]
    view = cluster(nodes=[node("n1", gpus=4), node("n2", gpus=2)], jobs=made, now_s=60)
    deciding = partial(decide, size=policy(name), place=packed)
    lines: list[str] = []
    TextJournal(lines.append, SHAPES).decided(view, deciding(view))
    (replayed,) = again(read_journal(lines), decide=deciding)
    assert replayed.same


def test_a_last_line_that_a_crash_cut_short_is_left_out():
    lines = kept_of(busy_world())
    cut = [*lines[:-1], lines[-1][:40]]
    assert [entry.line for entry in read_journal(cut)] == list(range(1, len(lines)))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("{\n", id="what is no JSON"),
        pytest.param("[]\n", id="what is no object"),
        pytest.param('{"entry": "dreamt"}\n', id="an entry that does not exist"),
        pytest.param("[" * 100_000 + "\n", id="brackets without end"),
    ],
)
def test_any_other_bad_line_is_an_error_that_names_it(line):
    with pytest.raises(InvalidRequest, match="journal line 2"):
        list(read_journal([*kept_of()[:1], line, *kept_of()[:1]]))


def test_a_bad_line_without_its_break_is_an_error_unless_it_is_the_last():
    with pytest.raises(InvalidRequest, match="journal line 1"):
        list(read_journal(["{", json.dumps({"entry": "opened"})]))


def test_a_number_that_json_cannot_say_is_our_bug():
    with pytest.raises(InvariantBroken):
        line_of({"wakeSeconds": float("nan")})
