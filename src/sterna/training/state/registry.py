"""What a program wants kept: its objects by name, and the state that waits for those not yet registered."""

import logging
import sys
from collections.abc import Mapping
from typing import Any

from sterna.training.errors import Mismatch, TrainingError, Unregistrable
from sterna.training.state.keepers import Keeper, checked_state, keeper_of

_log = logging.getLogger(__name__)


class Registry:
    """Restoring may come before or after registering: an object gets its state as soon as both have happened."""

    def __init__(self) -> None:
        self._keepers: dict[str, Keeper] = {}
        self._optimizers: dict[str, Any] = {}
        self._waiting: dict[str, Any] = {}
        self._restored = False

    def add(self, name: str, value: Any) -> None:
        """A name that is taken is taken over. Raises Unregistrable, and Mismatch if a waiting state does not fit."""
        if not isinstance(name, str) or not name:
            raise Unregistrable(f"{name!r} is not a name; expected a text that is not empty")
        keeper = keeper_of(name, value)
        checked_state(name, keeper)
        self._keepers[name] = keeper
        self._optimizers.pop(name, None)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.optim.Optimizer):
            self._optimizers[name] = value
        if name in self._waiting:
            self._put(name, self._waiting.pop(name))
        elif self._restored:
            _log.warning("%r is not in the checkpoint that was restored: it keeps the state it has", name)

    def state(self) -> dict[str, Any]:
        """Of everything registered, now. What is not registered yet is carried along, not lost."""
        return {**self._waiting, **{name: keeper.state() for name, keeper in self._keepers.items()}}

    def restore(self, states: Mapping[str, Any]) -> None:
        """Raises Mismatch."""
        self._restored = True
        self._waiting = dict(states)
        for name in self._keepers:
            if name in self._waiting:
                self._put(name, self._waiting.pop(name))
            else:
                _log.warning("%r is not in the checkpoint that was restored: it keeps the state it has", name)

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """Those of torch."""
        return tuple(self._optimizers.values())

    def __len__(self) -> int:
        return len(self._keepers)

    def _put(self, name: str, state: Any) -> None:
        try:
            self._keepers[name].put(state)
        except TrainingError:
            raise
        except Exception as error:  # whatever the program's own class makes of a state that is not its own
            raise Mismatch(f"{name!r} does not take its state out of the checkpoint: {error}") from error
