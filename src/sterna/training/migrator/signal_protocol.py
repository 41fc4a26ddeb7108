"""The signal protocol of hook and trainer as rules on values: what each writes, and in which order.

The signal file holds one word, as in pytorchjob-migration: `init`, `save`, `resume`. The word does not say which
process it is for, so two files beside it do: the trainer's `state` and the hook's `request`. Each has a single writer,
and no process has to change two files at once. What is to be written comes out of these rules as a tuple of effects,
each of them atomic; a process may die between any two, and the tests try every such place. Nothing here touches a file
or a clock.

Two rules carry all the rest. *`resume` is written before the state, `init` after it*: the write that gives something up
goes last. And a new trainer never takes a `save` for an order that was there before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto


class Word(StrEnum):
    """What the signal file holds."""

    INIT = "init"  # nothing to load
    SAVE = "save"  # the hook wants a checkpoint
    RESUME = "resume"  # there is a checkpoint, and the next launch loads it


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A checkpoint as the manifest beside it knows it."""

    number: int  # counts the saves; 0: no manifest, another program wrote it
    digest: str
    bytes: int
    lineage: str  # the run that began from nothing and all launches that went on from it
    step: int = 0
    untorn: bool = True  # False: the variables may have changed during the save
    save_s: float = 0.0
    kinds: tuple[tuple[str, str], ...] = ()  # what each variable was: (key, "module")
    positional: bool = False  # a list in the order of the calls, not a dict of keys


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerState:
    """What rank 0 says about itself. It is the only writer."""

    incarnation: str  # unique for each process that takes the files over
    lineage: str
    word: Word  # the last one that this trainer wrote, to tell its own `init` from a reset by hand
    answered: str = ""  # id of the last request that is dealt with
    ended: bool = False  # training came to its end: the next one starts anew
    pid: int = 0
    pid_started: int = 0  # in the kernel's ticks, so that a pid used again is not taken for this process
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the hook asks for. It is the only writer."""

    id: str
    incarnation: str | None  # of the trainer it is meant for. None: none had said its name yet


@dataclass(frozen=True, slots=True)
class Say:
    """Effect: the signal file now holds `word`."""

    word: Word


@dataclass(frozen=True, slots=True)
class Note:
    """Effect: the trainer's state is now `state`."""

    state: TrainerState


@dataclass(frozen=True, slots=True)
class Ask:
    """Effect: the hook's request is now `request`."""

    request: Request


@dataclass(frozen=True, slots=True)
class Announce:
    """Effect: the manifest now lists these. A file counts as complete if its digest is listed."""

    generations: tuple[Generation, ...]


@dataclass(frozen=True, slots=True)
class SetAside:
    """Effect: the checkpoint, if there is one, becomes the previous one (or, damaged, is put out of the way)."""

    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Publish:
    """Effect: the file that was written aside becomes the checkpoint."""


Effect = Say | Note | Ask | Announce | SetAside | Publish

GENERATIONS_LISTED_MAX = 3  # the new one, and the two that may still be on disk while it is being published


class Wish(Enum):
    """What the trainer has to do about the files it finds while it trains."""

    NOTHING = auto()
    SAVE = auto()
    ANSWER = auto()  # say that it is dealt with, and save nothing


class Answer(Enum):
    """What the hook makes of what it finds after it has asked."""

    WAITING = auto()
    SAVED = auto()
    NOTHING_TO_SAVE = auto()  # the trainer had only just begun
    TAKEN_OVER = auto()  # the one that was asked is gone and another one has started
    ENDED = auto()  # training came to its end meanwhile


def start_from(*, word: str | None, state: TrainerState | None, complete: Sequence[Generation]) -> Generation | None:
    """Where a new trainer begins; None: from nothing. `complete` is what is whole on disk.

    `resume` is the plain case. With any other word there may still be a checkpoint to go on from: its trainer was
    killed before it could say so, or died later without another save. Only a reset by hand (the signal removed, or
    `init` where the trainer had written something else) and the end of training make a new one start from nothing.
    """
    if word is None:
        return None
    if word == Word.SAVE and state is not None:
        word = state.word  # what the hook wants tells nothing about where the trainer was
    fitting = [
        found
        for found in complete
        if state is None or found.lineage == state.lineage or (word == Word.RESUME and found.number == 0)
    ]
    newest = max(fitting, key=lambda found: found.number, default=None)
    if word == Word.RESUME:
        return newest
    if state is None:  # files of pytorchjob-migration, which says `init` both at first and after loading
        return newest if word == Word.SAVE else None
    if state.ended or (word == Word.INIT and state.word is not Word.INIT):
        return None
    return newest


def claim(me: TrainerState, *, request: Request | None, start: Generation | None) -> tuple[Effect, ...]:
    """A new trainer takes the files over. What was asked of an earlier one is dealt with by that alone."""
    return _settle(
        replace(
            me,
            lineage=me.incarnation if start is None else start.lineage,
            word=Word.INIT if start is None else Word.RESUME,
            answered="" if request is None else request.id,
        )
    )


def wish(*, word: str | None, request: Request | None, state: TrainerState, restored: bool) -> Wish:
    """What is wanted of a trainer that has claimed the files. `restored`: it holds what its start demanded.

    Before that its variables are as new, and saving them would bury the good checkpoint that it is about to load.
    """
    asked = request is not None and request.id != state.answered
    if not asked and word != Word.SAVE:
        return Wish.NOTHING
    for_me = not asked or (request is not None and request.incarnation in (None, state.incarnation))
    return Wish.SAVE if restored and for_me else Wish.ANSWER


def answer(state: TrainerState, *, request: Request | None) -> tuple[Effect, ...]:
    """Say that a request is dealt with although nothing was saved for it."""
    return _settle(state if request is None else replace(state, answered=request.id))


def publish(
    state: TrainerState, new: Generation, *, on_disk: Sequence[Generation], damaged: bool, request: Request | None
) -> tuple[Effect, ...]:
    """Make what was written aside the checkpoint. `on_disk`: what is whole; `damaged`: the checkpoint's file is not.

    The manifest comes first: from then on both the old file and the new one are known to be complete, whichever of
    them the two renames leave in place when the process dies.
    """
    listed = (new, *sorted(on_disk, key=lambda found: -found.number))[:GENERATIONS_LISTED_MAX]
    answered = state.answered if request is None else request.id
    return (
        Announce(listed),
        SetAside(damaged),
        Publish(),
        *_settle(replace(state, word=Word.RESUME, answered=answered, ended=False)),
    )


def acknowledge(state: TrainerState) -> tuple[Effect, ...]:
    """Say, once and for all ranks, that what `resume` promised has been loaded."""
    return _settle(replace(state, word=Word.INIT))


def end(state: TrainerState) -> tuple[Effect, ...]:
    """Note that training came to its end. A `resume` that was asked for stays."""
    return (Note(replace(state, ended=True)),)


def finish(state: TrainerState) -> tuple[Effect, ...]:
    """The program says that training is over: the next launch does not go on from here."""
    return _settle(replace(state, word=Word.INIT, ended=True))


def ask(request: Request) -> tuple[Effect, ...]:
    """The hook's part. The request goes first, so that a trainer that reads `save` finds which one it is for."""
    return (Ask(request), Say(Word.SAVE))


def answer_to(request: Request, *, word: str | None, state: TrainerState | None) -> Answer:
    """What the hook may conclude."""
    if state is None:  # a trainer of pytorchjob-migration answers by the signal file alone
        return Answer.SAVED if word == Word.RESUME else Answer.WAITING
    if state.answered != request.id:
        return Answer.ENDED if state.ended else Answer.WAITING
    if request.incarnation not in (None, state.incarnation):
        return Answer.TAKEN_OVER
    return Answer.SAVED if state.word is Word.RESUME else Answer.NOTHING_TO_SAVE


def _settle(state: TrainerState) -> tuple[Effect, ...]:
    if state.word is Word.RESUME:
        return (Say(Word.RESUME), Note(state))
    return (Note(state), Say(state.word))
