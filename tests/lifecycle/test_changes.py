"""Changes as history shows them: which kind one is, what is counted about it, how it is told."""

import pytest

from sterna.engines.kubernetes.status.standing import Change, Standing
from sterna.lifecycle.changes import (
    ChangeKind,
    Cost,
    counted,
    disruptions_with,
    event_reason,
    has_moved,
    in_words,
    kind_given_up,
    kind_going_on,
    kind_of,
)
from sterna.model.ids import NodeId
from sterna.model.jobs import Disruption, Role, Worker

PS = Worker(Role.PS, 0, NodeId("n9"))


def workers(count: int, node: str = "n1") -> tuple[Worker, ...]:
    return tuple(Worker(Role.WORKER, ordinal, NodeId(node)) for ordinal in range(count))


@pytest.mark.parametrize(
    ("before", "after", "kind", "reason"),
    [
        pytest.param(workers(2), workers(4), ChangeKind.RESIZE, "ScaledUp", id="more workers"),
        pytest.param(workers(4), workers(2), ChangeKind.RESIZE, "ScaledDown", id="fewer workers"),
        pytest.param(workers(4), workers(2, "n2"), ChangeKind.RESIZE, "ScaledDown", id="fewer workers, elsewhere"),
        pytest.param(workers(2), workers(2, "n2"), ChangeKind.MIGRATION, "Migrated", id="as many, elsewhere"),
        pytest.param((PS, *workers(2)), workers(2), ChangeKind.MIGRATION, "Migrated", id="fixed roles do not count"),
        pytest.param(workers(2), (), ChangeKind.PREEMPTION, "Preempted", id="nothing comes after it"),
    ],
)
def test_what_a_change_is_and_by_which_reason_its_owner_is_told(before, after, kind, reason):
    assert kind_of(before, after) is kind
    assert event_reason(kind, before, after) == reason


def test_a_restart_is_told_as_one():
    assert event_reason(ChangeKind.RESTART, workers(2), workers(2)) == "Restarted"


@pytest.mark.parametrize(
    ("kind", "to", "now"),
    [
        pytest.param("migration", workers(3), "resize", id="a move on the way becomes a resize"),
        pytest.param("resize", workers(2, "n2"), "migration", id="a resize that is taken back elsewhere is a move"),
        pytest.param("restart", workers(3), "restart", id="a restart stays one, in whatever size the job comes back"),
        pytest.param("restart", (), "preemption", id="but not if the job is told to let go of everything"),
        pytest.param("migration", (), "preemption", id="a move to nowhere is a preemption"),
    ],
)
def test_an_open_change_goes_on_to_what_was_decided_on_top_of_it(kind, to, now):
    assert kind_going_on(kind, workers(2), to) == now


@pytest.mark.parametrize(
    ("kind", "now"),
    [
        pytest.param("migration", "preemption", id="a move that took everything and brings nothing"),
        pytest.param("resize", "preemption", id="a resize likewise"),
        pytest.param("restart", None, id="a restart was no decision: it has failed, and the wait is not its cost"),
    ],
)
def test_what_becomes_of_a_change_when_the_job_gets_nothing_after_all(kind, now):
    assert kind_given_up(kind) == now


@pytest.mark.parametrize(
    ("kind", "after", "moved"),
    [
        pytest.param("migration", workers(2, "n2"), True, id="a worker that is elsewhere"),
        pytest.param("migration", (workers(1)[0], *workers(2, "n2")[1:]), False, id="not one that stays beside it"),
        pytest.param("resize", workers(3, "n2"), False, id="not one that a resize put elsewhere"),
        pytest.param("migration", workers(2, "n2")[1:], False, id="not one that is not there afterwards"),
    ],
)
def test_whom_a_change_has_moved(kind, after, moved):
    change = Change(kind, "", "", workers(2), after, began_s=0.0)
    assert has_moved(change, (Role.WORKER, 0)) is moved


def test_resizes_and_migrations_are_counted_and_restarts_disturb_no_budget():
    state = Standing(resizes=3, migrations=5)
    assert counted(state, "resize") == {"resizes": 4, "migrations": 5}
    assert counted(state, "migration") == {"resizes": 3, "migrations": 6}
    assert counted(state, "preemption") == counted(state, "restart") == {"resizes": 3, "migrations": 5}
    known = (Disruption(1.0, "resize", 2.0),)
    assert disruptions_with(known, "restart", 9.0, 1.0) == known
    assert disruptions_with(known, "migration", 9.0, None) == (*known, Disruption(9.0, "migration", 0.0))
    assert len(disruptions_with(known * 40, "preemption", 9.0, 1.0)) == 32


@pytest.mark.parametrize(
    ("kind", "after", "cost", "told"),
    [
        pytest.param("resize", workers(4), Cost(), "from 2 to 4 workers: why", id="a resize"),
        pytest.param("migration", workers(2, "n2"), Cost(), "from n1 to n2: why", id="a move"),
        pytest.param("preemption", (), Cost(), "let go of 2 workers: why", id="a preemption"),
        pytest.param("restart", workers(2), Cost(), "2 workers run again: why", id="a restart"),
        pytest.param(
            "migration",
            workers(2, "n2"),
            Cost(downtime_s=4.04, committed_step=40),
            "from n1 to n2: why (training stood still for 4.0 s, committed at step 40)",
            id="with what a cluster knows of its cost",
        ),
        pytest.param(
            "migration",
            workers(2, "n2"),
            Cost(downtime_s=0.0, steps_lost=0, warm=True, expected=("dragon", 12.0)),
            "from n1 to n2: why (warm, training stood still for 0.0 s, 0 steps lost, dragon expects to save 12.0 s)",
            id="with what one machine knows of its cost",
        ),
    ],
)
def test_a_change_in_words(kind, after, cost, told):
    assert in_words(kind, workers(2), after, "why", cost) == told
