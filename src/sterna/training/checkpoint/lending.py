"""Lending memory to a save: what will not change for now is copied in the background instead of at once.

torch parameters and the state of their optimizer change in `optimizer.step()` and, in nearly all programs, nowhere
else. Between a step boundary and the next step lie forward and backward, which is time enough to copy them. Buffers of
a model (running means of a batch norm) change in forward and are never lent, nor is anything that no optimizer owns.

The promise is checked: tensors count their changes, and a save that finds one changed too early is dropped. The counter
does not see writes through `tensor.data`; a program that changes parameters which its optimizer owns that way, between
a step boundary and the next `step()`, must not lend.
"""

from collections.abc import Iterable
from typing import Any, Protocol


class Borrower(Protocol):
    def wait_captured(self) -> None: ...


class Loan(Protocol):
    """Says which memory will not change for now, and waits for the copy before it does."""

    def lent(self) -> Iterable[int]:
        """Addresses of the first element of each tensor that is lent."""

    def begun(self, borrower: Borrower) -> None:
        """A save has borrowed: call its `wait_captured` before anything lent changes."""

    def broken(self, why: str) -> None:
        """Something lent was changed too early: lend no more."""


class OptimizerLoan:
    """A loan of what torch optimizers own (parameters and their state), which changes only in `optimizer.step()`.

    Make it once, after the optimizers exist, and pass it to every `begin_save`. It puts a pre-hook on `step` that waits
    until the copy is done; with forward and backward in between that is usually long past. `close()` takes it off.
    """

    def __init__(self, optimizers: Iterable[Any]) -> None:
        self._optimizers = tuple(optimizers)
        self._borrower: Borrower | None = None
        self.why_broken: str | None = None  # None: no lent tensor was changed too early so far
        self._hooks = [optimizer.register_step_pre_hook(self._before_step) for optimizer in self._optimizers]

    def lent(self) -> Iterable[int]:
        addresses: set[int] = set()
        if self.why_broken is None:
            for optimizer in self._optimizers:
                for group in optimizer.param_groups:
                    addresses.update(parameter.data_ptr() for parameter in group["params"] if _lendable(parameter))
                for state in optimizer.state.values():
                    addresses.update(value.data_ptr() for value in state.values() if _lendable(value))
        addresses.discard(0)  # tensors without elements
        return addresses

    def begun(self, borrower: Borrower) -> None:
        self._borrower = borrower

    def broken(self, why: str) -> None:
        self.why_broken = why

    def close(self) -> None:
        """Take the hooks off again; what is still borrowed is waited for."""
        self._before_step()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _before_step(self, *_: object) -> None:
        borrower, self._borrower = self._borrower, None
        if borrower is not None:
            borrower.wait_captured()


def _lendable(value: Any) -> bool:
    return hasattr(value, "untyped_storage") and value.is_cpu and not value.is_inference()
