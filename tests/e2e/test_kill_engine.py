"""`sterna up` is killed with -9 again and again while jobs come, go, move and change size: nothing is lost.

Only the engine is killed, so not one step may be trained twice or left out: every step of every job must be in its
trace exactly once, and everything ends as it does in a run that nobody disturbed.
"""

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from sterna.model.errors import Conflict, NotFound
from tests.e2e.up import Up, results_of, running, soak, toy

KILLS = soak("STERNA_ENGINE_KILLS", 20)
_OPTIONS = ("--nodes", "3", "--gpus-per-node", "2", "--rate-limit", "0.5s")

JOBS = {  # name: steps, seconds a step takes one worker, workers
    "alpha": (260, 0.08, (1, 4)),
    "beta": (120, 0.06, (1, 2)),
    "gamma": (60, 0.05, (2, 2)),
    "delta": (90, 0.05, (1, 1)),
    "epsilon": (150, 0.06, (1, 3)),
    "zeta": (40, 0.05, (1, 1)),
    "eta": (400, 0.08, (1, 1)),
    "theta": (30, 0.05, (1, 2)),
}


@pytest.mark.slow
def test_r1_killing_the_engine_again_and_again_changes_nothing(tmp_path):
    seed = int(os.environ.get("STERNA_SEED") or random.randrange(2**32))
    print(f"seed {seed}")
    with ThreadPoolExecutor(2) as both:  # each waits most of the time
        calm = both.submit(played, tmp_path / "calm", kills=0, seed=seed)
        wild = both.submit(played, tmp_path / "wild", kills=KILLS, seed=seed)
    assert wild.result() == calm.result()


def played(place: Path, *, kills: int, seed: int) -> dict[str, tuple[str, int, str]]:
    """Phase, steps and result of every job after the busy hour."""
    place.mkdir()
    with running(place / "home", *_OPTIONS) as engine:
        stop = threading.Event()
        killer = threading.Thread(target=killing, args=(engine, kills, random.Random(seed), stop))
        killer.start()
        try:
            busy_hour(engine, place)
            lasting = [name for name in JOBS if name != "eta"]
            ended = engine.finished(*lasting, patience_s=600.0)
        finally:
            killer.join(600.0) if kills and not stop.is_set() else None
            stop.set()
            killer.join()
        found = {job["name"]: (job["phase"], job["step"], result(engine, job["name"])) for job in ended}
        for name in lasting:
            assert steps_of(place / name) == list(range(JOBS[name][0])), f"{name}: a step left out, or trained twice"
        engine.until(lambda: trainers(engine) == [], "no training process is left")
        assert engine.insist(lambda: [job["name"] for job in engine.client.jobs() if job["name"] == "eta"]) == []
        assert engine.stop() == 0
        engine.until(lambda: engine.processes() == [], "nothing is left running")
    return found


def busy_hour(engine: Up, place: Path) -> None:
    """Compressed to half a minute: arrivals, a drain, moves, a suspension, new bounds, a deletion."""
    began = time.monotonic()
    never = threading.Event()

    def at(moment_s: float, act: Callable[[], object]) -> None:
        never.wait(max(0.0, began + moment_s - time.monotonic()))
        engine.insist(lambda: tolerated(act))

    client = engine.client
    for number, (name, (steps, step_s, workers)) in enumerate(JOBS.items()):
        text = toy(name, place, steps=steps, step_s=step_s, workers=workers)
        at(number * 1.5, partial(client.submit, text, cwd=str(place)))
        if name == "gamma":
            at(number * 1.5 + 0.5, lambda: client.drain("node-2"))
        if name == "epsilon":
            at(number * 1.5 + 0.5, lambda: client.suspend("beta"))
    at(13.0, lambda: client.uncordon("node-2"))
    at(13.5, lambda: client.scale("alpha", minimum=2, maximum=3))
    at(14.5, lambda: client.resume("beta"))
    at(15.0, lambda: client.migrate("eta", to="node-3"))
    at(17.0, lambda: client.delete("eta"))


def tolerated(act: Callable[[], object]) -> None:
    """A request that was carried out before its answer was lost is refused when it is made again, rightly."""
    with contextlib.suppress(Conflict, NotFound):
        act()


def killing(engine: Up, kills: int, chance: random.Random, stop: threading.Event) -> None:
    for _ in range(kills):
        if stop.wait(chance.uniform(0.0, 2.5)):
            return
        engine.kill()
        engine.start(wait=chance.random() < 0.5)  # sometimes it is killed before it is up


def steps_of(trace: Path) -> list[int]:
    """What the first rank trained, in the order in which it did."""
    lines = (line.split() for line in trace.read_text().splitlines())
    return [int(step) for _, rank, _, step in lines if rank == "0"]


def trainers(engine: Up) -> list[int]:
    return [process.pid for process in engine.processes() if "toy_trainer" in " ".join(process.cmdline())]


def result(engine: Up, name: str) -> str:
    """Told more than once where a rank was through when the others were stopped; told differently never."""
    (line,) = set(results_of(engine.log_of(name)))
    return line
