"""A week in an hour, whatever it happens to: jobs come and go, and every now and then there is trouble."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping


class Week(ABC):
    """`arrival_s` and `trouble_s` are the mean times between two jobs, and between two troubles."""

    def __init__(self, seed: int, *, arrival_s: float, trouble_s: float) -> None:
        self.met: dict[str, int] = {}  # how often each trouble came
        self.jobs = 0  # that came
        self.chance = random.Random(seed)
        self._arrival_s = arrival_s
        self._trouble_s = trouble_s

    def live(self, for_s: float) -> None:
        """Arrivals, cancellations and troubles for so long; then peace, until every job is over."""
        until_s = time.monotonic() + for_s
        next_job_s = next_trouble_s = time.monotonic()
        while (now_s := time.monotonic()) < until_s:
            if now_s >= next_job_s:
                next_job_s = now_s + self.chance.expovariate(1 / self._arrival_s)
                self.come_or_go()
            if now_s >= next_trouble_s:
                self._trouble()
                next_trouble_s = time.monotonic() + self.chance.expovariate(1 / self._trouble_s)
            self.wait(min(next_job_s, next_trouble_s, until_s) - time.monotonic())
        self.mend()
        self.settle()

    def wait(self, seconds: float) -> None:
        """A part of the week, in which the cluster is left alone."""
        time.sleep(max(0.0, seconds))

    @abstractmethod
    def come_or_go(self) -> None:
        """A job is submitted, or one is cancelled."""

    @abstractmethod
    def troubles(self) -> Mapping[Callable[[], None], int]:
        """What may go wrong, and how often beside the others."""

    @abstractmethod
    def mend(self) -> None:
        """The end of all troubles that last."""

    @abstractmethod
    def settle(self) -> None:
        """Until every job is over; fails if one did not get the verdict that its program earned."""

    def _trouble(self) -> None:
        troubles = self.troubles()
        (trouble,) = self.chance.choices(list(troubles), list(troubles.values()))
        trouble()
        name = trouble.__name__.lstrip("_")
        self.met[name] = self.met.get(name, 0) + 1
