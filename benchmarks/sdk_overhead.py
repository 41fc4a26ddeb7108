"""What the training SDK costs: per step at 50 steps a second, per report, and per boundary alone and among ranks.

    python -m benchmarks.sdk_overhead [--quick] [--json FILE]

cpu       processor time of the whole process (the status thread and periodic checkpoints included) at 50 steps/s, with
          the SDK minus without it, over the length of a step. Robust on a machine that others use too
wall      median length of a step whose work is fixed, with the SDK and without it, in alternating blocks
boundary  what coming back for the next batch takes when the step itself does nothing: alone, and with other ranks,
          whose agreement is then looked at
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sterna import training
from sterna.protocol import STERNA_VARIABLES, worker_environment

STEP_S = 0.02  # 50 steps a second
SHARE_MAX = 0.01
REPORT_US_MAX = 50.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of a minute")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    arguments = parser.parse_args()
    seconds = 4.0 if arguments.quick else 20.0
    figures = {
        **cpu_share(seconds),
        **wall_share(blocks=4 if arguments.quick else 16, steps=25),
        "boundary_alone_us": empty_step_us(ranks=1, steps=20_000),
        "boundary_of_two_us": empty_step_us(ranks=2, steps=20_000),
        "boundary_of_four_us": empty_step_us(ranks=4, steps=20_000),
        "report_us": report_us(50_000),
    }
    for name, value in figures.items():
        print(f"{name:24} {value:10.3f}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    fine = figures["cpu_share_percent"] < 100 * SHARE_MAX and figures["report_us"] < REPORT_US_MAX
    print(f"{'as promised' if fine else 'NOT as promised'}: under {SHARE_MAX:.0%} of a step at 50 steps/s")
    return 0 if fine else 1


def cpu_share(seconds: float) -> dict[str, float]:
    """Processor time that a step costs more because of the SDK, in percent of its length."""
    steps = int(seconds / STEP_S)
    without_s = _cpu_per_step(range(steps), lambda: None)
    with inside() as run:
        state = {"weights": bytes(1_000_000)}
        run.register(state=state)
        run.restore()
        numbers = (number for _, number in run.steps(steps))
        with_s = _cpu_per_step(numbers, lambda: _report_and_ask(run))
    return {
        "cpu_per_step_us": 1e6 * (with_s - without_s),
        "cpu_share_percent": 100 * (with_s - without_s) / STEP_S,
    }


def _report_and_ask(run: training.Run) -> None:
    run.report(loss=0.5, accuracy=0.5)
    run.should_stop()


def _cpu_per_step(numbers: Any, after_step: Callable[[], object]) -> float:
    began_s = time.process_time()
    count = 0
    for _ in numbers:
        time.sleep(STEP_S)
        after_step()
        count += 1
    return (time.process_time() - began_s) / count


def wall_share(*, blocks: int, steps: int) -> dict[str, float]:
    """Steps of fixed work, in turn with the SDK and without."""
    turns = _turns_of_work()
    plain_s: list[float] = []
    within_s: list[float] = []
    with inside() as run:
        run.restore()
        numbers = run.steps(blocks * steps + 1)
        next(numbers)
        for _ in range(blocks):
            for _ in range(steps):
                began_s = time.perf_counter()
                _work(turns)
                plain_s.append(time.perf_counter() - began_s)
            for _ in range(steps):
                began_s = time.perf_counter()
                _work(turns)
                _report_and_ask(run)
                next(numbers)
                within_s.append(time.perf_counter() - began_s)
    plain, within = statistics.median(plain_s), statistics.median(within_s)
    return {
        "wall_step_without_ms": 1e3 * plain,
        "wall_step_with_ms": 1e3 * within,
        "wall_ratio": within / plain,
    }


def _work(turns: int) -> int:
    total = 0
    for number in range(turns):
        total += number & 7
    return total


def _turns_of_work() -> int:
    began_s = time.perf_counter()
    _work(1_000_000)
    return int(1_000_000 * STEP_S / (time.perf_counter() - began_s))


def empty_step_us(*, ranks: int, steps: int) -> float:
    """As rank 0 sees it. The others run beside it and do the same."""
    with tempfile.TemporaryDirectory() as home:
        context = multiprocessing.get_context("fork")
        others = [context.Process(target=_empty_steps, args=(home, rank, ranks, steps)) for rank in range(1, ranks)]
        for process in others:
            process.start()
        step_us = _empty_steps(home, 0, ranks, steps)
        for process in others:
            process.join()
    return step_us


def _empty_steps(home: str, rank: int, ranks: int, steps: int) -> float:
    with inside(Path(home), rank=rank, world_size=ranks) as run:
        run.restore()
        took_s = []
        began_s = time.perf_counter()
        for _ in run.steps(steps):
            now_s = time.perf_counter()
            took_s.append(now_s - began_s)
            began_s = now_s
    return 1e6 * statistics.median(took_s)


def report_us(calls: int) -> float:
    with inside() as run:
        began_s = time.perf_counter()
        for number in range(calls):
            run.report(loss=number, accuracy=0.5, learning_rate=0.1)
        return 1e6 * (time.perf_counter() - began_s) / calls


@contextmanager
def inside(home: Path | None = None, *, rank: int = 0, world_size: int = 1) -> Iterator[training.Run]:
    """This process as a worker of Sterna, with a mailbox of its own."""
    with tempfile.TemporaryDirectory() as own:
        mailbox = Path(own)
        os.environ.update(
            worker_environment(
                job="default/benchmark",
                worker=f"benchmark-{rank}",
                rank=rank,
                world_size=world_size,
                incarnation=0,
                checkpoint_dir=(home or mailbox) / "checkpoints",
                mailbox=mailbox,
                wake=mailbox / "engine.sock",
            )
        )
        try:
            with training.attach() as run:
                yield run
        finally:
            for name in STERNA_VARIABLES:
                os.environ.pop(name, None)


if __name__ == "__main__":
    raise SystemExit(main())
