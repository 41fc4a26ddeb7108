"""The small files that processes leave for each other: whatever is in them, a reader learns nothing, and goes on.

Mailboxes (status, orders), the migrator's state, request, manifest and signal, the meeting of ranks, their board, the
epoch log, and the reports that travel over the wire. A training process may write most of them, so each is an
attacker's: it may hold any JSON, and it may be a pipe, a directory, a link or endless instead of a file.
"""

import json
import os
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sterna.protocol import Order, Orders, Status, WorkerPhase, read_orders, read_status
from sterna.protocol.messages import CommittedCheckpoint
from sterna.protocol.reports import Answer, BadReport, Batch, Report, Usage
from sterna.training.epoch_file import append, whole_part
from sterna.training.errors import NotEverybodyCame
from sterna.training.migrator.checkpoint_files import take_stock
from sterna.training.migrator.migrator_files import MigratorFiles
from sterna.training.migrator.signal_files import Desk
from sterna.training.migrator.signal_protocol import Announce, Ask, Generation, Note, Request, TrainerState, Word
from sterna.training.ranks.board import Board
from sterna.training.ranks.cut import RankPost
from sterna.training.ranks.meeting import Meeting
from tests.attack.checkpoint_corpus import ODD_VALUES, leaves, replaced

PATIENCE_S = 30.0  # for an answer that should come at once


def answered(ask: Callable[[], Any]) -> Any:
    """What it answers; a reader that waits for a pipe's other end fails instead of holding up the tests."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert answers, "it waits for ever, or has raised"
    return answers[0]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def nested(path: Path) -> None:
    path.write_text("[" * 200_000)


def digits(path: Path) -> None:
    path.write_text('{"seq": ' + "9" * 100_000 + "}")


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00" * 100)


NO_FILES = [pipe, directory, endless, loop, huge, nested, digits, no_text]


def places(tmp_path: Path) -> MigratorFiles:
    return MigratorFiles(checkpoint=tmp_path / "ckpt.pth", signal=tmp_path / "signal")


READERS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any]]] = {
    "status": (lambda top: top / "status.json", lambda top: read_status(top)),
    "orders": (lambda top: top / "orders.json", lambda top: read_orders(top)),
    "migrator's state": (lambda top: places(top).state, lambda top: Desk(places(top)).state()),
    "migrator's request": (lambda top: places(top).request, lambda top: Desk(places(top)).request()),
}


@pytest.mark.parametrize("make", NO_FILES)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_message_says_nothing(tmp_path, reader, make):
    where, read = READERS[reader]
    make(where(tmp_path))
    assert answered(lambda: read(tmp_path)) is None


@pytest.mark.parametrize("make", NO_FILES)
def test_a_manifest_of_the_migrator_that_is_none_lists_nothing(tmp_path, make):
    make(places(tmp_path).manifest)
    assert answered(lambda: Desk(places(tmp_path)).listed() or ()) == ()


@pytest.mark.parametrize("make", NO_FILES)
def test_a_signal_that_is_none_is_no_word_of_the_protocol(tmp_path, make):
    make(places(tmp_path).signal)
    assert answered(lambda: str(Desk(places(tmp_path)).word())) not in set(Word)


@pytest.mark.parametrize("make", [pipe, directory, endless, loop])
def test_a_checkpoint_of_the_migrator_that_is_no_file_is_not_there(tmp_path, make):
    make(places(tmp_path).checkpoint)
    assert answered(lambda: take_stock(Desk(places(tmp_path)))).complete == {}


@pytest.mark.parametrize("make", [pipe, directory, endless, loop, huge, nested, no_text])
def test_an_epoch_log_that_is_none_is_left_alone(tmp_path, make):
    make(tmp_path / "log.csv")

    def tried() -> str:
        for attempt in (lambda: whole_part(tmp_path / "log.csv"), lambda: append(tmp_path / "log.csv", {0: {}})):
            try:
                attempt()
            except OSError:
                continue
            return "taken for a log"
        return "refused"

    assert answered(tried) == "refused"


@pytest.mark.parametrize("number", ["1e308", "inf", "nan", "-5", "9" * 5000, "1e15"])
def test_an_epoch_that_nobody_can_have_reached_is_no_epoch(tmp_path, number):
    (tmp_path / "log.csv").write_text(f"epoch,loss\n3,0.5\n{number},0.4\n")
    assert whole_part(tmp_path / "log.csv").next_epoch == 4


# -- every value of a good message, replaced by every odd one ---------------------------------------------------------

STATUS = Status(
    pid=17, phase=WorkerPhase.TRAINING, ack=3, step=5, units_total=9.0, step_s=0.1, metrics={"loss": 0.5},
    restored_step=1,
    first_step_mono_s=1.0, last_step_mono_s=2.0, save_s=0.1, load_s=0.1, samples=7, first_step_wall_s=1e9,
    stopped_wall_s=1e9, problem="none",
    checkpoint=CommittedCheckpoint(generation=1, step=4, bytes=10, digest="ab", stall_s=0.1, at_mono_s=1.0),
)  # fmt: skip
ORDERS = Orders(seq=4, order=Order.STOP, reason="move", deadline_mono_s=12.5)


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        return [number for each in inner for number in numbers_in(each)]
    return [value]


@pytest.mark.parametrize("message", [STATUS, ORDERS], ids=["status", "orders"])
def test_a_message_is_understood_or_it_is_none_and_its_numbers_can_be_reckoned_with(message):
    good = json.loads(message.to_json())
    assert type(message).from_json(message.to_json()) == message
    for where in leaves(good):
        for odd in ODD_VALUES.values():
            found = type(message).from_json(json.dumps(replaced(good, where, odd)))
            if found is not None:  # what a program measures may be any number
                body = {**json.loads(found.to_json()), "metrics": {}}
                assert all(abs(number) < 1 << 63 for number in numbers_in(body))


@pytest.mark.parametrize("odd", [1e11, -1.0, 1e300])
def test_a_moment_that_no_calendar_has_is_none(odd):
    """It is shown as a date later on, where years end at 9999."""
    good = json.loads(STATUS.to_json())
    assert Status.from_json(json.dumps({**good, "last_step_mono_s": odd})) is None
    assert Status.from_json(json.dumps({**good, "checkpoint": {**good["checkpoint"], "at_mono_s": odd}})) is None


BATCH = Batch(
    (Report("team/job-worker-0", 5, 1e9, 0.5, metric="loss", step=1, epoch=2, units_done=3.0, usage=Usage(1.0, 2)),),
    monitor="m", node="n", load=Usage(1.0, 5, 0.5, 7), instance="i",
)  # fmt: skip


def said(read: Callable[[], object]) -> int:
    """How long the refusal is, if it is refused."""
    try:
        read()
    except BadReport as refused:
        return len(str(refused))
    return 0


def test_a_batch_is_understood_or_refused():
    good = json.loads(BATCH.to_json())
    for where in leaves(good):
        for odd in ODD_VALUES.values():
            assert said(lambda: Batch.from_json(json.dumps(replaced(good, where, odd)))) < 500  # noqa: B023


def test_an_answer_is_understood_or_refused():
    good = json.loads(Answer("i", 3, {"team/pod": "loss=(.*)"}).to_json())
    for where in leaves(good):
        for odd in ODD_VALUES.values():
            assert said(lambda: Answer.from_json(json.dumps(replaced(good, where, odd)))) < 500  # noqa: B023


def test_files_of_the_migrator_are_understood_or_absent(tmp_path):
    desk = Desk(places(tmp_path))
    generation = Generation(number=1, digest="ab", bytes=3, lineage="l", kinds=(("0", "module"),))
    state = TrainerState(incarnation="a", lineage="l", word=Word.RESUME, pid=1, pid_started=2, host="h")
    for effect in (Announce((generation,)), Note(state), Ask(Request(id="r", incarnation="a"))):
        desk.carry_out(effect)
    assert (desk.listed(), desk.state(), desk.request()) == ((generation,), state, Request(id="r", incarnation="a"))
    for path in (desk.places.manifest, desk.places.state, desk.places.request):
        good = json.loads(path.read_text())
        for where in leaves(good):
            for odd in ODD_VALUES.values():
                path.write_text(json.dumps(replaced(good, where, odd)))
                found, listed, asked = desk.state(), desk.listed(), desk.request()
                assert found is None or isinstance(found, TrainerState)
                assert asked is None or isinstance(asked, Request)
                for entry in listed or ():
                    assert all(
                        abs(number) < 1 << 63 for number in (entry.number, entry.bytes, entry.step, entry.save_s)
                    )
        path.write_text(json.dumps(good))


# -- ranks that meet --------------------------------------------------------------------------------------------------


def met(directory: Path, *, load: Callable[[Any], str | None]) -> None:
    meeting = Meeting(directory, rank=1, world_size=2, patience_s=0.05, idle=lambda _: None)
    meeting.announce()
    good = {"chief": "c", "round": 1, "names": ["c", meeting.name], "generation": "gen-000001-i1", "seq": 1, "go": True}
    for where in leaves(good):
        for odd in ODD_VALUES.values():
            (directory / "decision.json").write_text(json.dumps(replaced(good, where, odd)))
            try:
                decision = meeting.follow(load, holding=lambda: False, wanted=lambda: True)
            except NotEverybodyCame:
                continue
            assert decision is not None
            assert type(decision.seq) is int
            assert type(decision.round) is int


def test_a_decision_that_is_none_is_not_followed(tmp_path):
    asked: list[Any] = []
    met(tmp_path, load=lambda name: asked.append(name))
    assert all(name is None or isinstance(name, str) for name in asked)


@pytest.mark.parametrize("make", NO_FILES)
@pytest.mark.parametrize("name", ["decision.json", "rank-0.json"])
def test_a_meeting_goes_on_without_files_that_are_none(tmp_path, name, make):
    meeting = Meeting(tmp_path, rank=1, world_size=2, patience_s=0.05, idle=lambda _: None)
    meeting.announce()
    make(tmp_path / name)

    def waited() -> str:
        try:
            meeting.follow(lambda _: None, holding=lambda: False, wanted=lambda: True)
        except NotEverybodyCame:
            return "in vain"
        return "met"

    assert answered(waited) == "in vain"


@pytest.mark.parametrize("field", [2, 3], ids=["kind", "state"])
def test_a_record_of_the_board_that_means_nothing_is_as_good_as_not_written(tmp_path, field):
    Board.create(tmp_path / "board", world_size=2, step=7)
    board = Board(tmp_path / "board", rank=0, world_size=2)
    before = (board.cut(), board.others())
    values = [9, 1, 1, 1, 0]
    values[field] = 250
    fields = struct.pack("<qiBBH", *values)
    record = fields + zlib.crc32(fields).to_bytes(4, "little")
    content = bytearray((tmp_path / "board").read_bytes())
    content[:] = record * (len(content) // len(record))
    (tmp_path / "board").write_bytes(bytes(content))
    cut, seats = board.cut(), board.others()
    assert cut == before[0]
    assert seats == before[1] or (field == 3 and isinstance(seats[0], RankPost))
    board.close()
