"""Finding the moments between two training steps in a program that says nothing about them.

A save must not happen beside `optimizer.step()`: half of the parameters would be a step older than the rest. The
program that only calls `register` and `listening` is watched through torch's own hooks instead:

* before the first forward pass after an optimizer step everything belongs to one step: parameters, optimizer,
  schedule, counters. There, in the thread that trains, is the boundary. Later passes before the next step
  (accumulated gradients) are none;
* a forward pass without gradients, or of a module in evaluation, changes nothing that is saved: any of them will do;
* where no forward pass is seen (the module is not among the variables, or is called by a way around it), the boundary
  is just before the next `optimizer.step()`.

A program that does something else for long (reads data, writes its own checkpoint) reaches no boundary. As long as it
is between a step and the next forward pass, the listener may `freeze` it there and save by itself: should training
want to go on meanwhile, it waits. A program that calls `migrator.step()` has told where its boundaries are, and no
others are used.
"""

import contextlib
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sterna.training.migrator.variables import Kind, kind_of


class Boundary:
    """`reached` is called at each boundary, in the thread that trains: it should be quick when there is nothing to do.

    Steps are counted by the optimizer that was registered first, or by `step()`.
    """

    def __init__(self, reached: Callable[[], None]) -> None:
        self._reached = reached
        self.steps = 0
        self.first_step_mono_s: float | None = None
        self.last_step_mono_s: float | None = None
        self.overdue = False  # set it when a save has been wanted for long: any forward pass is then good enough
        self._told = False  # the program calls step()
        self._modules = 0
        self._leader: weakref.ref[Any] | None = None  # the optimizer whose steps count
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._optimizers = 0
        self._stepped = True  # nothing was trained yet, so the very first forward pass is a boundary too
        self._busy = False  # between the forward pass and the end of the step
        self._frozen = False
        self._gate = threading.Lock()

    @property
    def watched(self) -> bool:
        """Whether boundaries are known at all; if not, only the program knows when a save is good."""
        return self._told or self._modules > 0 or self._optimizers > 0

    def watch(self, variable: Any) -> None:
        """Modules and optimizers; of anything else nothing can be seen. Once is enough for each."""
        kind = kind_of(variable)
        if kind not in (Kind.MODULE, Kind.OPTIMIZER) or variable in self._known:
            return
        self._known.add(variable)
        number = next(_numbers)
        _watched[number] = (weakref.ref(variable), self)
        if kind is Kind.MODULE:
            self._modules += 1
            variable.register_forward_pre_hook(partial(_on_forward, number))
        else:
            self._optimizers += 1
            if self._leader is None or self._leader() is None:
                self._leader = weakref.ref(variable)
            variable.register_step_pre_hook(partial(_on_step_begin, number))
            variable.register_step_post_hook(partial(_on_step_end, number))

    def step(self) -> None:
        """The program says: one step is done, and all variables belong to it."""
        if not self._told:
            self._told = True
            self.steps = 0
        self._count()
        self._reached()

    @contextlib.contextmanager
    def freeze(self) -> Iterator[bool]:
        """Hold training at the boundary where it is. Yields False where it is at none, and then holds nothing."""
        with self._gate:
            self._frozen = True
            try:
                yield not self._told and self._optimizers > 0 and not self._busy
            finally:
                self._frozen = False

    def before_forward(self, module: Any) -> None:
        """A watched module is about to run."""
        if not module.training or not sys.modules["torch"].is_grad_enabled():
            self._offer()
            return
        if self._stepped or self._optimizers == 0 or self.overdue:
            self._stepped = False
            self._busy = False
            self._offer()
        self._begin()

    def before_step(self) -> None:
        """A watched optimizer is about to step."""
        if self._stepped:  # no forward pass was seen since the last step, so this is as good as it gets
            self._stepped = False
            self._offer()
        self._begin()

    def after_step(self, optimizer: Any) -> None:
        """A watched optimizer has stepped."""
        if not self._told and self._leader is not None and self._leader() is optimizer:
            self._count()
        self._stepped = True
        self._busy = False

    def _count(self) -> None:
        self.steps += 1
        self.last_step_mono_s = time.monotonic()
        if self.first_step_mono_s is None:
            self.first_step_mono_s = self.last_step_mono_s

    def _offer(self) -> None:
        if not self._told:
            self._reached()

    def _begin(self) -> None:
        """First say busy, then look whether frozen; `freeze` does it the other way round, so one of them notices."""
        self._busy = True
        while self._frozen:
            self._busy = False
            with self._gate:
                pass
            self._busy = True


class Progress:
    """What the engine is told of the steps and their pace. Counts on from the step that was restored."""

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary
        self._before: tuple[int, float] | None = None  # steps, and when the last of them ended, at the last look
        self._step_s: float | None = None
        self.step_restored = 0

    @property
    def step(self) -> int:
        return self.step_restored + self._boundary.steps

    def facts(self) -> dict[str, Any]:
        """Fields of the status, as of now."""
        steps, at_s = self._boundary.steps, self._boundary.last_step_mono_s
        if at_s is not None:
            if self._before is not None and steps > self._before[0]:
                self._step_s = (at_s - self._before[1]) / (steps - self._before[0])
            self._before = (steps, at_s)
        return {
            "step": self.step,
            "units_done": float(self.step),
            "step_s": self._step_s,
            "first_step_mono_s": self._boundary.first_step_mono_s,
            "last_step_mono_s": at_s,
        }


# Hooks travel with their module when a program copies or pickles it (to keep an average of it, say, or to send it to
# another process). So they are plain functions with a number, and do nothing for any object but the one it stands for.
_watched: dict[int, tuple[weakref.ref[Any], Boundary]] = {}
_numbers = itertools.count()


def _boundary_of(number: int, variable: Any) -> Boundary | None:
    reference, boundary = _watched.get(number, (None, None))
    return boundary if reference is not None and reference() is variable else None


def _on_forward(number: int, module: Any, _inputs: Any) -> None:
    if (boundary := _boundary_of(number, module)) is not None:
        boundary.before_forward(module)


def _on_step_begin(number: int, optimizer: Any, *_: Any) -> None:
    if (boundary := _boundary_of(number, optimizer)) is not None:
        boundary.before_step()


def _on_step_end(number: int, optimizer: Any, *_: Any) -> None:
    if (boundary := _boundary_of(number, optimizer)) is not None:
        boundary.after_step(optimizer)
