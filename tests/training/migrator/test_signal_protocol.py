"""The words init, save and resume: who may say them, who obeys them, and that no order of events loses a checkpoint."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sterna.training.migrator import signal_protocol
from sterna.training.migrator.migrator_files import MigratorFiles
from sterna.training.migrator.signal_files import Desk
from sterna.training.migrator.signal_protocol import (
    Announce,
    Answer,
    Generation,
    Publish,
    Request,
    Say,
    TrainerState,
    Wish,
    Word,
)
from tests.training.migrator.model import RULES, Bounds, Lost, explore

OLD = TrainerState(incarnation="old", lineage="run", word=Word.INIT)
BOUNDS = [
    pytest.param(Bounds(launches=3, steps=1, saves=1, requests=1), id="three launches and one hook"),
    pytest.param(Bounds(launches=2, steps=1, saves=1, requests=2), id="two launches and two hooks"),
]
if os.environ.get("STERNA_SEEDS"):  # a soak: takes minutes
    BOUNDS.append(pytest.param(Bounds(launches=2, steps=2, saves=2, requests=2), id="repeated saves"))
ME = TrainerState(incarnation="me", lineage="run", word=Word.INIT)


def generation(number: int, *, lineage: str = "run") -> Generation:
    return Generation(number=number, digest=f"d{number}", bytes=1, lineage=lineage)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_voda_42_no_order_of_hook_trainer_kill_and_restart_loses_the_last_good_checkpoint(bounds):
    worlds = explore(bounds)
    assert worlds > 5_000, "the model stands still"


def _says_before_it_notes(effects):
    """Whatever the word: the rule turned round for `init`."""
    return tuple(sorted(effects, key=lambda effect: not isinstance(effect, Say)))


def _announced_last(*args, **kwargs):
    effects = signal_protocol.publish(*args, **kwargs)
    return tuple(sorted(effects[:3], key=lambda effect: isinstance(effect, Announce))) + effects[3:]


def _published_last(*args, **kwargs):
    effects = signal_protocol.publish(*args, **kwargs)
    return tuple(sorted(effects, key=lambda effect: isinstance(effect, Publish)))


@pytest.mark.parametrize(
    ("faulty", "found"),
    [
        pytest.param(
            {
                "claim": lambda me, *, request, start: signal_protocol.claim(me, request=None, start=start),
                "wish": lambda *, word, request, state, restored: signal_protocol.wish(
                    word=word,
                    request=request and replace(request, incarnation=None),
                    state=state,
                    restored=True,
                ),
            },
            "begins at step 0",
            id="M4: a save from before the launch is obeyed, with the weights as they are then",
        ),
        pytest.param(
            {
                "start_from": lambda *, word, state, complete: (
                    max(complete, key=lambda one: one.number) if complete and word == Word.RESUME else None
                )
            },
            "begins at step 0",
            id="M3: only `resume` is loaded, so a trainer killed in a save starts from nothing",
        ),
        pytest.param(
            {"acknowledge": lambda state: _says_before_it_notes(signal_protocol.acknowledge(state))},
            "begins at step 0",
            id="init is said before it is noted, and looks like a reset by hand to whoever comes next",
        ),
        pytest.param(
            {"publish": _announced_last},
            "was on disk and is not",
            id="the file is published before the manifest knows it",
        ),
        pytest.param(
            {"publish": _published_last},
            "the hook says saved",
            id="the hook is answered before the file is in place",
        ),
        pytest.param(
            {"publish": lambda *args, **kwargs: signal_protocol.publish(*args, **{**kwargs, "request": None})},
            "waits for ever",
            id="M5: the trainer saves and does not say for whom",
        ),
    ],
)
def test_voda_42_the_walk_finds_the_faults_that_others_have(faulty, found):
    with pytest.raises(Lost, match=found):
        explore(Bounds(launches=3, steps=1, saves=1, requests=1), SimpleNamespace(**{**vars(RULES), **faulty}))


@pytest.mark.parametrize(
    ("word", "state", "complete", "expected"),
    [
        pytest.param(None, None, [], None, id="nothing was ever here"),
        pytest.param(None, OLD, [1, 2], None, id="the signal was removed: start anew"),
        pytest.param("resume", None, [0], 0, id="a file of pytorchjob-migration, without a manifest"),
        pytest.param("init", None, [0], None, id="a file of pytorchjob-migration that was loaded long ago"),
        pytest.param("resume", OLD, [], None, id="resume, but there is nothing"),
        pytest.param("resume", OLD, [1, 2], 2, id="the newest complete one"),
        pytest.param("resume", replace(OLD, ended=True), [2], 2, id="somebody asked for it before training ended"),
        pytest.param("save", OLD, [1, 2], 2, id="asked to save and killed: the newest complete one"),
        pytest.param("save", OLD, [], None, id="asked to save and killed before there was any"),
        pytest.param("init", OLD, [2], 2, id="loaded, acknowledged, and then killed without another save"),
        pytest.param("init", replace(OLD, ended=True), [2], None, id="loaded, acknowledged, and trained to the end"),
        pytest.param("init", replace(OLD, word=Word.RESUME), [2], None, id="reset by hand"),
        pytest.param("init", replace(OLD, lineage="another"), [2], None, id="the checkpoint of an earlier run"),
        pytest.param("resume", replace(OLD, lineage="another"), [2], None, id="even if the signal says resume"),
        pytest.param("resme", OLD, [2], 2, id="a word nobody knows gives nothing up"),
    ],
)
def test_voda_42_where_a_new_trainer_begins(word, state, complete, expected):
    found = [generation(number) for number in complete]
    start = signal_protocol.start_from(word=word, state=state, complete=found)
    assert (None if start is None else start.number) == expected


@pytest.mark.parametrize(
    ("word", "request_", "restored", "expected"),
    [
        pytest.param("init", None, True, Wish.NOTHING, id="nobody wants anything"),
        pytest.param("save", None, True, Wish.SAVE, id="a save by hand"),
        pytest.param("save", Request(id="r", incarnation="me"), True, Wish.SAVE, id="the hook of this trainer"),
        pytest.param("init", Request(id="r", incarnation="me"), True, Wish.SAVE, id="its word was written over"),
        pytest.param("save", Request(id="r", incarnation="old"), True, Wish.ANSWER, id="the hook of a trainer before"),
        pytest.param("save", Request(id="r", incarnation=None), True, Wish.SAVE, id="a hook that knew no name yet"),
        pytest.param("save", Request(id="r", incarnation="me"), False, Wish.ANSWER, id="before anything was loaded"),
        pytest.param("save", Request(id="done", incarnation="me"), True, Wish.SAVE, id="by hand, after the hook's"),
        pytest.param("resume", Request(id="done", incarnation="me"), True, Wish.NOTHING, id="dealt with"),
    ],
)
def test_voda_42_what_a_trainer_makes_of_a_word(word, request_, restored, expected):
    state = replace(ME, answered="done")
    assert signal_protocol.wish(word=word, request=request_, state=state, restored=restored) is expected


@pytest.mark.parametrize(
    ("word", "state", "expected"),
    [
        pytest.param("save", None, Answer.WAITING, id="a trainer of pytorchjob-migration has not answered"),
        pytest.param("resume", None, Answer.SAVED, id="a trainer of pytorchjob-migration has answered"),
        pytest.param("resume", ME, Answer.WAITING, id="resume, but not as an answer to this request"),
        pytest.param("save", replace(ME, answered="r", word=Word.RESUME), Answer.SAVED, id="the state answers"),
        pytest.param("init", replace(ME, answered="r"), Answer.NOTHING_TO_SAVE, id="it had only just begun"),
        pytest.param("save", replace(OLD, answered="r"), Answer.TAKEN_OVER, id="another one answers"),
        pytest.param("save", replace(ME, ended=True), Answer.ENDED, id="training ended first"),
    ],
)
def test_voda_42_what_the_hook_may_conclude(word, state, expected):
    assert signal_protocol.answer_to(Request(id="r", incarnation="me"), word=word, state=state) is expected


@pytest.mark.parametrize(
    ("content", "word"),
    [
        pytest.param(b"resume", "resume", id="the bare word"),
        pytest.param(b"resume\n", "resume", id="a newline after it"),
        pytest.param(b" save \r\nmore\n", "save", id="blanks and further lines"),
        pytest.param(b"", "", id="an empty file"),
        pytest.param(b"\xff\xfe", "\ufffd\ufffd", id="no text at all"),
    ],
)
def test_voda_42_the_word_is_read_however_it_was_written(tmp_path, content, word):
    places = MigratorFiles(checkpoint=tmp_path / "migration.pth", signal=tmp_path / "signal")
    places.signal.write_bytes(content)
    assert Desk(places).word() == word


def test_voda_42_the_signal_file_holds_one_word_and_nothing_else(tmp_path):
    desk = Desk(MigratorFiles(checkpoint=tmp_path / "migration.pth", signal=tmp_path / "signal"))
    for word in Word:
        desk.carry_out(Say(word))
        assert (tmp_path / "signal").read_bytes() == word.encode()
    assert os.listdir(tmp_path) == ["signal"]


def test_voda_42_what_is_written_beside_it_is_read_back(tmp_path):
    desk = Desk(MigratorFiles(checkpoint=tmp_path / "migration.pth", signal=tmp_path / "signal"))
    state = replace(ME, answered="r", ended=True, pid=7, pid_started=12, host="there")
    kept = replace(generation(3), step=5, untorn=False, save_s=0.5, kinds=(("a", "dict"),), positional=True)
    for effect in (signal_protocol.Note(state), signal_protocol.Ask(Request(id="r", incarnation=None))):
        desk.carry_out(effect)
    desk.carry_out(Announce((kept,)))
    assert (desk.state(), desk.request(), desk.listed()) == (state, Request(id="r", incarnation=None), (kept,))
    for path in (desk.places.state, desk.places.request, desk.places.manifest):
        path.write_text('{"half": ')
    assert (desk.state(), desk.request(), desk.listed()) == (None, None, ())
