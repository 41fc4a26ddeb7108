"""What Sterna's engine is told of the training while it goes on: steps, their pace, the program's own numbers."""

from collections.abc import Mapping
from typing import Any

from sterna.training.migrator.boundary import Boundary


class Progress:
    """Counts on from the step that was restored."""

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


def numbers_in(variables: Mapping[str, Any]) -> dict[str, float]:
    """The numbers in the program's own dicts of metrics."""
    return {
        str(name): value
        for variable in tuple(variables.values())
        if isinstance(variable, dict)
        for name, value in tuple(variable.items())
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
