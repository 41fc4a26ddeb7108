"""How fast a job trains with how many workers. Values only: learning such a curve is `learning.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

from sterna.model.errors import InvalidRequest


@dataclass(frozen=True, slots=True, weakref_slot=True)  # so that it can be kept for as long as some job has it
class SpeedupCurve:
    """Seconds per unit of work at 1, 2, ... workers. Beyond its end a curve is flat: more workers bring nothing known.

    Pace is stored rather than speed-up, because remaining time is then one product of two measured numbers and
    does not pick up a rounding on the way.
    """

    pace_s: tuple[float, ...]

    @staticmethod
    def linear(workers_max: int, *, unit_s: float = 1.0) -> "SpeedupCurve":
        return SpeedupCurve(tuple(unit_s / count for count in range(1, max(1, workers_max) + 1)))

    @staticmethod
    def flat(unit_s: float = 1.0) -> "SpeedupCurve":
        """The same pace whatever the size: for rigid jobs, whose duration is known only at the size they ask for."""
        return SpeedupCurve((unit_s,))

    @staticmethod
    def from_speedups(speedups: Sequence[float], *, unit_s: float = 1.0) -> "SpeedupCurve":
        """From speed-ups at 1, 2, ... workers."""
        for position, speedup in enumerate(speedups):
            if not speedup > 0 or speedup == float("inf"):
                raise InvalidRequest(field=f"speedup[{position}]", value=speedup, expected="a finite number above 0")
        return SpeedupCurve(tuple(unit_s / speedup for speedup in speedups))

    @property
    def known_to(self) -> int:
        return len(self.pace_s)

    def unit_s(self, workers: int) -> float:
        """Seconds for one unit of work; infinite with no workers."""
        if workers <= 0:
            return float("inf")
        pace = self.pace_s
        return pace[workers - 1] if workers <= len(pace) else pace[-1]

    def speedup(self, workers: int) -> float:
        """How many times faster than one worker; 0 with none."""
        return self.pace_s[0] / self.unit_s(workers) if workers > 0 else 0.0
