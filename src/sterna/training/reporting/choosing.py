"""Which of the numbers that a program reports is the result of an evaluation: the one that its growth is judged by."""

from collections.abc import Iterable

_BEST_FIRST = ("value", "eval_loss", "eval_accuracy", "val_loss", "val_accuracy", "loss", "accuracy")
_NAMES_MAX = 256  # a program that reports under ever new names is not looked at for ever
_NEVER = frozenset({"step", "epoch"})  # how far it has come, not how good it is


class Choice:
    """`wanted` settles it. Otherwise the best name seen so far does: an evaluation counts more than the loss of the
    latest batch, and where none of the usual names is there, the first one reported."""

    def __init__(self, wanted: str = "") -> None:
        self.name = wanted
        self.known: set[str] = set()  # names that need not be looked at again
        self._settled = bool(wanted)

    def look(self, names: Iterable[str]) -> None:
        """At names that were reported, some of which are new."""
        if len(self.known) > _NAMES_MAX:
            return
        new = [name for name in names if name not in self.known]
        self.known.update(new)
        if self._settled:
            return
        self.name = min((name for name in (self.name, *new) if name and name not in _NEVER), key=_rank, default="")


def _rank(name: str) -> int:
    return _BEST_FIRST.index(name) if name in _BEST_FIRST else len(_BEST_FIRST)
