"""The journal of an engine: bounded, replayable file by file, and never in a decision's way."""

import json
import threading
import time
from typing import Any

import pytest

from sterna.engines.loop import run_at_once, run_cycle
from sterna.journal.background_writer import BackgroundWriter
from sterna.journal.decision_journal import DecisionJournal
from sterna.journal.journal import line_of, pieces_of
from sterna.journal.replay import Entry, read_journal
from sterna.model.plan import Held, Outcome
from sterna.placement.packed import packed
from sterna.planner.decide import Settings
from sterna.policies.registry import policy
from sterna.wire.snapshot_file import snapshot_document
from tests.journal.blocked_disk import WAIT_S, blocked_disk
from tests.journal.shapes import SHAPES
from tests.journal.test_journal import Still, again, busy_world, fifo
from tests.worlds import cluster, job

ABOUT = {"policy": "fifo"}


def kept(directory) -> list[list[dict[str, Any]]]:
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(directory.iterdir())]


def write(journal: DecisionJournal, decision_id: str, view, *, about=ABOUT, beside: str = "") -> None:
    cycle = journal.cycle(decision_id, about, beside=lambda: beside)
    decision = fifo(view)
    cycle.decided(view, decision)
    for step in decision.steps:
        cycle.happened([Outcome(action, Held.DONE) for action in step.actions])


def test_an_entry_carries_the_id_of_its_decision(tmp_path):
    journal = DecisionJournal(tmp_path, SHAPES)
    write(journal, "d-1-7", busy_world())
    journal.close()
    ((opened, decided, *happened),) = kept(tmp_path)
    assert opened == {"entry": "opened", "about": ABOUT}
    assert decided["id"] == "d-1-7"
    assert [entry["id"] for entry in happened] == ["d-1-7"] * 2


def test_every_file_of_a_journal_replays_by_itself(tmp_path):
    journal = DecisionJournal(tmp_path, SHAPES, bytes_max=4_000, files_max=3)
    for number in range(8):
        write(journal, f"d-1-{number}", busy_world(60.0 + number))
        assert journal.flush(WAIT_S)
    journal.close()
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 3
    assert all(path.stat().st_size <= 4_000 for path in paths)
    for path in paths:
        with path.open() as lines:
            assert all(each.same for each in again(read_journal(lines), decide=fifo))


def test_another_policy_begins_another_file(tmp_path):
    journal = DecisionJournal(tmp_path, SHAPES)
    write(journal, "d-1-1", busy_world())
    write(journal, "d-1-2", busy_world(), about={"policy": "srjf"})
    journal.close()
    assert [file[0]["about"]["policy"] for file in kept(tmp_path)] == ["fifo", "srjf"]


def test_a_decision_that_changes_nothing_is_kept_only_with_a_new_reason(tmp_path):
    journal = DecisionJournal(tmp_path, SHAPES)
    crowded = [job("a", needs=2, on=["n1", "n1"]), job("b", needs=2, submitted_s=1)]
    for number in range(3):
        write(journal, f"d-1-{number}", cluster(gpus=2, jobs=crowded, now_s=60.0 + number))
    journal.close()
    ((_, *entries),) = kept(tmp_path)
    assert [entry["id"] for entry in entries] == ["d-1-0"]


def test_a_decision_that_depends_on_more_than_its_snapshot_is_kept_and_not_replayed(tmp_path):
    journal = DecisionJournal(tmp_path, SHAPES)
    write(journal, "d-1-1", busy_world(), beside="moves that were asked for")
    journal.close()
    (path,) = tmp_path.iterdir()
    passed_over: list[Entry] = []
    with path.open() as lines:
        assert list(again(read_journal(lines), decide=fifo, passed_over=passed_over.append)) == []
    assert [(entry.kind, entry.parts["beside"]) for entry in passed_over] == [("decided", "moves that were asked for")]


def test_a_blocked_disk_delays_no_cycle_and_the_journal_says_what_it_lost(tmp_path):
    view, journal = busy_world(), DecisionJournal(tmp_path, SHAPES, waiting_max=4)

    def cycle(number: int) -> None:
        kept = journal.cycle(f"d-1-{number}", ABOUT)
        run_at_once(run_cycle(Still(view), policy("fifo"), packed, kept, Settings()))

    with blocked_disk() as disk:
        cycle(0)
        assert disk.asked.wait(WAIT_S)
        for number in range(1, 40):  # each comes to its end while nothing can be written: else this would never end
            cycle(number)
        assert not journal.flush(0)
        disk.answers.set()
        assert journal.flush(WAIT_S)
        cycle(40)
        journal.close(WAIT_S)
    ((_, *entries),) = kept(tmp_path)
    written = [entry for entry in entries if entry["entry"] != "dropped"]
    dropped = sum(entry["entries"] for entry in entries if entry["entry"] == "dropped")
    assert len(written) + dropped == 41 * 3  # one decision and two steps each
    assert dropped > 100
    assert written[-1]["id"] == "d-1-40"


def test_what_does_not_fit_a_file_is_counted_as_dropped_and_told_once(tmp_path, caplog):
    journal = DecisionJournal(tmp_path, SHAPES, bytes_max=10_000)
    crowd = cluster(gpus=2, jobs=[job(f"j{number:02}", needs=1, submitted_s=number) for number in range(60)])
    for number in range(2):
        write(journal, f"d-1-{number}", crowd)
    write(journal, "d-1-9", busy_world())
    journal.close()
    ((_, *entries),) = kept(tmp_path)
    assert entries[0] == {"entry": "dropped", "entries": 2}
    assert entries[1]["id"] == "d-1-9"
    assert [record.getMessage() for record in caplog.records] == ["journal not written"]


def test_a_directory_that_cannot_be_written_stops_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    journal = DecisionJournal(tmp_path / "file", SHAPES)
    for number in range(3):
        write(journal, f"d-1-{number}", busy_world())
    journal.close()
    assert [record.getMessage() for record in caplog.records] == ["journal not written"]


def test_a_writer_that_is_closed_takes_nothing_more():
    taken: list[tuple[int, int]] = []
    writer = BackgroundWriter[int](lambda item, dropped: taken.append((item, dropped)), waiting_max=2)
    assert writer.put(1)
    assert writer.close(WAIT_S)
    assert not writer.put(2)
    assert taken == [(1, 0)]


def test_closing_waits_no_longer_than_it_is_given():
    answers = threading.Event()

    def write(item: int, dropped: int) -> None:
        answers.wait(WAIT_S)

    writer = BackgroundWriter(write, waiting_max=2)
    writer.put(1)
    began_s = time.monotonic()
    assert not writer.close(0.01)
    assert time.monotonic() - began_s < WAIT_S / 2
    answers.set()


@pytest.mark.parametrize(
    "record",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"a": [], "b": {}, "c": None, "d": "ä\n"}, id="empty parts"),
        pytest.param({"a": [{"b": [1, 2.5]}, [True]], "c": (1, (2, 3))}, id="parts in parts"),
        pytest.param({"entry": "decided", "snapshot": snapshot_document(busy_world())}, id="a snapshot"),
    ],
)
def test_pieces_of_a_record_are_the_bytes_of_its_line(record):
    assert "".join(pieces_of(record)) == line_of(record)
