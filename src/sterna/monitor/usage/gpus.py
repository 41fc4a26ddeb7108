"""What the GPUs of this machine do, process by process, as NVIDIA's management library says. Nothing where it is not.

The library is looked for once. Whatever it answers with an error is left out: a card that has fallen off the bus must
not take the measurements of the others with it.
"""

import contextlib
import importlib
import logging
from typing import Any, NamedTuple

log = logging.getLogger(__name__)


class GpuUse(NamedTuple):
    busy: float = 0.0  # cards: 0.5 is one card half of the time
    memory_bytes: int = 0

    def __add__(self, other: object) -> "GpuUse":
        assert isinstance(other, GpuUse)
        return GpuUse(self.busy + other.busy, self.memory_bytes + other.memory_bytes)


class Gpus:
    def __init__(self, nvml: Any = None) -> None:
        """`nvml`: the library's Python module; None: the installed one, if there is one and it works here."""
        self._nvml: Any = None
        self._since_us = 0  # of the samples that were used already
        with contextlib.suppress(ImportError):
            module: Any = nvml or importlib.import_module("pynvml")
            try:
                module.nvmlInit()
                self._nvml = module
            except module.NVMLError as error:
                log.info("no nvml", extra={"why": str(error)})

    @property
    def present(self) -> bool:
        return self._nvml is not None

    def by_process(self) -> dict[int, GpuUse]:
        """Since last asked, by process id as the host counts them."""
        used: dict[int, GpuUse] = {}
        newest_us = self._since_us
        for card in self._cards():
            for pid, memory_bytes in self._memory(card):
                used[pid] = used.get(pid, GpuUse()) + GpuUse(0.0, memory_bytes)
            shares: dict[int, list[float]] = {}
            for pid, at_us, percent in self._samples(card):
                shares.setdefault(pid, []).append(percent)
                newest_us = max(newest_us, at_us)
            for pid, percents in shares.items():
                used[pid] = used.get(pid, GpuUse()) + GpuUse(sum(percents) / len(percents) / 100)
        self._since_us = newest_us
        return used

    def whole(self) -> GpuUse | None:
        """All cards together. None: there are none."""
        total: GpuUse | None = None
        for card in self._cards():
            with contextlib.suppress(self._nvml.NVMLError):
                busy = self._nvml.nvmlDeviceGetUtilizationRates(card).gpu / 100
                memory_bytes = int(self._nvml.nvmlDeviceGetMemoryInfo(card).used)
                total = (total or GpuUse()) + GpuUse(busy, memory_bytes)
        return total

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            self._nvml = None

    def _cards(self) -> list[Any]:
        cards: list[Any] = []
        if self._nvml is None:
            return cards
        with contextlib.suppress(self._nvml.NVMLError):
            for number in range(self._nvml.nvmlDeviceGetCount()):
                with contextlib.suppress(self._nvml.NVMLError):
                    cards.append(self._nvml.nvmlDeviceGetHandleByIndex(number))
        return cards

    def _memory(self, card: Any) -> list[tuple[int, int]]:
        try:
            running = self._nvml.nvmlDeviceGetComputeRunningProcesses(card)
        except self._nvml.NVMLError:
            return []
        return [(process.pid, int(process.usedGpuMemory or 0)) for process in running]

    def _samples(self, card: Any) -> list[tuple[int, int, float]]:
        try:  # "not found" is how it says that nothing ran since then
            samples = self._nvml.nvmlDeviceGetProcessUtilization(card, self._since_us)
        except self._nvml.NVMLError:
            return []
        return [(sample.pid, int(sample.timeStamp), float(sample.smUtil)) for sample in samples]
