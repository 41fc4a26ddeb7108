"""How long training stands still for a checkpoint, beside `torch.save` of the same state in the same run.

    python -m benchmarks.checkpoint_stall [--quick] [--json FILE] [--megabytes 100]

A PyTorch model of about 100 MB trains on the CPU. Every few steps its whole state (model and optimizer) is saved, in
turn in three ways: `lent` (what the optimizer owns is copied during forward and backward), `at once` (everything is
copied before training goes on) and `torch.save` (training waits for the file; no fsync, no digest, no rename).

stall   how long the training thread was held up by calls of ours: beginning the save, and the wait before `step()`
extra   how much longer the steps took, from the beginning of the save until it was durable, than the same number of
        steps between saves: it holds the stall, and what the background thread took from the processor and the memory
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sterna.training.checkpoint import CheckpointStore, OptimizerLoan

STALL_P50_MS = 5.0
HELD_TO_MEGABYTES = 110  # the limit is about a state of 100 MB; larger ones are measured to see how it grows
WAYS = ("lent", "at once", "torch.save")
STEPS_BETWEEN = 4  # without a save: what an undisturbed step takes just now, on a machine that others use too


@dataclass(frozen=True)
class Row:
    optimizer: str
    way: str
    state_megabytes: float
    tensors: int
    saves: int
    stall_p50_ms: float
    stall_max_ms: float
    extra_p50_ms: float
    save_p50_ms: float  # until durable
    step_p50_ms: float  # undisturbed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few saves, one optimizer")
    parser.add_argument("--json", metavar="FILE", help="write the rows there as well")
    parser.add_argument("--megabytes", type=int, default=100, help="of the model's parameters")
    parser.add_argument("--saves", type=int, default=None, help="of each way")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("torch is not installed: there is nothing to compare with (pip install 'sterna[torch]')")
        return 0
    rows: list[Row] = []
    saves = arguments.saves or (5 if arguments.quick else 20)
    print("optimizer  way         state MB  tensors  stall p50   max ms  extra p50  durable p50  step p50 ms")
    for optimizer in ("sgd",) if arguments.quick else ("sgd", "adam"):
        for row in measured(torch, optimizer, arguments.megabytes, saves):
            rows.append(row)
            print(
                f"{row.optimizer:11}{row.way:11}{row.state_megabytes:9.0f}{row.tensors:9}{row.stall_p50_ms:11.2f}"
                f"{row.stall_max_ms:9.1f}{row.extra_p50_ms:11.1f}{row.save_p50_ms:13.1f}{row.step_p50_ms:13.1f}",
                flush=True,
            )
    report = {"rows": [asdict(row) for row in rows], "limits": limits(rows)}
    for line in limits(rows):
        print(line)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n")
    return 0


def measured(torch: Any, optimizer_name: str, megabytes: int, saves: int) -> list[Row]:
    """One row per way; the ways take turns, so that a noisy minute hits all of them."""
    training = Training(torch, optimizer_name, megabytes)
    stalls: dict[str, list[float]] = {way: [] for way in WAYS}
    extras: dict[str, list[float]] = {way: [] for way in WAYS}
    durables: dict[str, list[float]] = {way: [] for way in WAYS}
    quiet_steps: list[float] = []
    with tempfile.TemporaryDirectory(prefix="sterna-stall-") as directory:
        saver = Saver(torch, training, Path(directory))
        for _ in range(3):
            training.step()
        saver.prepare()
        for number in range(saves * len(WAYS)):
            way = WAYS[number % len(WAYS)]
            quiet = [training.step() for _ in range(STEPS_BETWEEN)]
            quiet_steps += quiet
            stall_s, durable_s, step_times = saver.save(way)
            stalls[way].append(stall_s)
            durables[way].append(durable_s)
            extras[way].append(sum(step_times) - len(step_times) * statistics.median(quiet))
        saver.close()
    return [
        Row(
            optimizer=optimizer_name,
            way=way,
            state_megabytes=round(training.state_bytes() / 1e6, 1),
            tensors=len(training.tensors()),
            saves=len(stalls[way]),
            stall_p50_ms=_ms(statistics.median(stalls[way])),
            stall_max_ms=_ms(max(stalls[way])),
            extra_p50_ms=_ms(statistics.median(extras[way])),
            save_p50_ms=_ms(statistics.median(durables[way])),
            step_p50_ms=_ms(statistics.median(quiet_steps)),
        )
        for way in WAYS
    ]


class Training:
    """A plain network with as many parameters as asked for, on random data."""

    def __init__(self, torch: Any, optimizer_name: str, megabytes: int) -> None:
        torch.manual_seed(0)
        layers, batch = 16, 32
        width = int((megabytes * 1e6 / 4 / layers) ** 0.5)
        modules = [module for _ in range(layers) for module in (torch.nn.Linear(width, width), torch.nn.ReLU())]
        self._torch = torch
        self._inputs, self._targets = torch.randn(batch, width), torch.randn(batch, width)
        self.model = torch.nn.Sequential(*modules, torch.nn.BatchNorm1d(width))
        parameters = self.model.parameters()
        self.optimizer = (
            torch.optim.Adam(parameters, lr=1e-4) if optimizer_name == "adam" else torch.optim.SGD(parameters, lr=1e-3)
        )

    def step(self) -> float:
        """Seconds that one training step took."""
        began_s = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self._torch.nn.functional.mse_loss(self.model(self._inputs), self._targets)
        loss.backward()
        self.optimizer.step()
        return time.perf_counter() - began_s

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def tensors(self) -> list[Any]:
        states = [value for state in self.optimizer.state.values() for value in state.values() if value is not None]
        return [*self.model.state_dict().values(), *states]

    def state_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors())


class Saver:
    """Saves in each of the ways, and trains on until the save is durable."""

    def __init__(self, torch: Any, training: Training, directory: Path) -> None:
        self._torch = torch
        self._training = training
        self._file = directory / "state.pth"
        self._store = CheckpointStore(directory / "generations", incarnation=1)
        self._loan = OptimizerLoan([training.optimizer])
        self._step = 0

    def prepare(self) -> None:
        self._store.prepare(self._training.state(), {})

    def save(self, way: str) -> tuple[float, float, list[float]]:
        """Seconds of stall, seconds until durable, and what each step took meanwhile (the first with the stall)."""
        self._step += 1
        began_s = time.perf_counter()
        if way == "torch.save":
            self._torch.save(self._training.state(), self._file)
            stall_s = time.perf_counter() - began_s
            return stall_s, stall_s, [stall_s + self._training.step()]
        loan = self._loan if way == "lent" else None
        pending = self._store.begin_save(self._training.state(), {}, step=self._step, about={}, loan=loan)
        begun_s = time.perf_counter() - began_s
        waited_before_s = pending.stall_s
        steps = [begun_s + self._training.step()]
        while not pending.done():
            steps.append(self._training.step())
        waited_s = pending.stall_s - waited_before_s
        return begun_s + waited_s, pending.result(0).save_s, steps

    def close(self) -> None:
        self._store.close()
        self._loan.close()


def limits(rows: list[Row]) -> list[str]:
    lines = []
    for optimizer in dict.fromkeys(row.optimizer for row in rows):
        by_way = {row.way: row for row in rows if row.optimizer == optimizer}
        lent, plain = by_way["lent"], by_way["torch.save"]
        verdict = ""
        if lent.state_megabytes <= HELD_TO_MEGABYTES:
            verdict = f", limit {STALL_P50_MS:g}: {'holds' if lent.stall_p50_ms < STALL_P50_MS else 'MISSED'}"
        lines.append(
            f"{optimizer}: {lent.state_megabytes:.0f} MB, stall p50 {lent.stall_p50_ms:.2f} ms{verdict};"
            f" torch.save stalls {plain.stall_p50_ms / lent.stall_p50_ms:.0f} times as long"
        )
        lines.append(
            f"{optimizer}: with digest and sync beside it, training is later by {lent.extra_p50_ms:.0f} ms per save;"
            f" torch.save, with neither, makes it {plain.extra_p50_ms:.0f} ms"
        )
    return lines


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


if __name__ == "__main__":
    sys.exit(main())
