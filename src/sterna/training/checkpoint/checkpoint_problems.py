"""What can go wrong with a checkpoint, as exceptions. All of them leave training free to go on."""

from collections.abc import Iterator
from contextlib import contextmanager

_SHORT = 300


class CheckpointProblem(Exception):
    """Something about a checkpoint is not as it should be. The message names the file or value and what would help."""


class Fenced(CheckpointProblem):
    """A newer incarnation (or another process with the same rank) has taken over: this one must write no more."""


class LoanBroken(CheckpointProblem):
    """Lent memory was changed before it was copied. This save is dropped; later ones do not borrow."""


class Damaged(CheckpointProblem):
    """What is on disk is not what was written: a digest, a bound or a name does not hold. Never loaded."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Around all that is done with bytes that an attacker may have chosen: only CheckpointProblem and OSError leave.

    Broad on purpose. Each check that is missing inside, and each exception that NumPy, torch or the JSON parser may
    come to raise, would otherwise keep a job from its older, good generation.
    """
    try:
        yield
    except (CheckpointProblem, OSError):
        raise
    except MemoryError as error:  # says nothing about the file: another machine may have the room
        raise CheckpointProblem(f"there is not enough memory for {what}") from error
    except Exception as error:
        raise Damaged(f"{what} makes no sense: {type(error).__name__}: {short(error)}") from error


def short(value: object) -> str:
    """As text that is fit for a message, whatever it is and however long."""
    try:
        text = (str(value) or type(value).__name__) if isinstance(value, BaseException) else repr(value)
    except Exception as error:  # numbers of more than 4300 digits have no text, values nested too deeply none either
        text = f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 3]}..."
