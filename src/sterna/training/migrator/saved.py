"""A checkpoint that was read into memory: which variable gets what, and that it is what it was."""

from collections.abc import Mapping
from typing import Any

from sterna.training.errors import Mismatch
from sterna.training.migrator.exchange import Generation
from sterna.training.migrator.variables import give_back, kind_of


class Saved:
    """`body` is a dict of keys (`migrator.register`) or a list in the order of the calls (`MigratableVariable`)."""

    def __init__(self, body: Any, generation: Generation) -> None:
        if isinstance(body, list):
            self.positional = True
            self._by_key: dict[str, Any] = {str(position): state for position, state in enumerate(body)}
        elif isinstance(body, Mapping):
            self.positional = False
            self._by_key = {str(key): state for key, state in body.items()}
        else:
            raise Mismatch(
                f"the checkpoint holds a {type(body).__name__}; expected a dict of variables or a list of them"
            )
        self._kinds = dict(generation.kinds)
        self._left = set(self._by_key)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    @property
    def all_given(self) -> bool:
        """Every variable that was saved has gone back to where it came from."""
        return not self._left

    def check(self, key: str, variable: object) -> None:
        """Raises Mismatch when something else was saved under this key. Without a manifest only the shapes tell."""
        was, now = self._kinds.get(key), kind_of(variable)
        if was is not None and was != now:
            raise Mismatch(
                f"variable {key!r} was saved as {was} and is a {now} ({type(variable).__name__}) now: register the "
                "same variables in the same order, or under keys"
            )

    def give(self, key: str, variable: Any) -> None:
        self.check(key, variable)
        give_back(variable, self._by_key[key], key=key)
        self._left.discard(key)
