"""The walk of the local engine: `sterna submit` to a `sterna up`, until the worker's program begins.

Real processes are recorded: the command, the engine and the warden. The walk has four parts:

- `command`: from the command's own function, with its arguments parsed, to the answer to its request;
- `api`: the engine's process before and after its door, which is where `submit` is called;
- `engine`: from there to the request to the warden. The limits are about this part;
- `warden`: until its child becomes the program, by `exec`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.walk import recorder
from benchmarks.walk.account import Notes, PartOf, Visit, Walk, Window, walk_of

TITLE = "From submit to a launched process"
_MANIFEST = """
apiVersion: sterna.dev/v1alpha1
kind: ElasticJob
metadata: {{name: {name}}}
spec:
  workers: {{min: 1, max: 1}}
  template:
    spec:
      containers:
        - {{name: main, image: none, resources: {{limits: {{nvidia.com/gpu: 1}}}}, command: [sleep, "600"]}}
"""
_COMMAND = ("sterna.interfaces.cli.submit", "submit")
_DOOR = "LocalScheduler.submit"
_WITHIN_S = 120.0


def local_walk(directory: Path, *, jobs: int, idle_s: float) -> Walk:
    """Jobs one after the other in an engine of their own below `directory`, which is watched idle first."""
    home, recorded = directory / "home", directory / "notes"
    engine = _started(recorded, "up", "--home", str(home), "--nodes", "1", "--gpus-per-node", "1", "--quiet")
    try:
        _until(lambda: (home / "endpoint.json").exists(), "the engine answers", engine)
        ready_s = time.time()
        _run(directory / "unrecorded", "get", "jobs", "--home", str(home))  # a request, but no job
        time.sleep(idle_s)
        idle = Window(ready_s, time.time())
        for number in range(jobs):
            manifest = directory / f"walker-{number}.yaml"
            manifest.write_text(_MANIFEST.format(name=manifest.stem), encoding="utf-8")
            _run(recorded, "submit", "-f", str(manifest), "--home", str(home), "--quiet")
            _until(partial(_launched, recorded, number + 1), "a process is launched", engine)
            _run(directory / "unrecorded", "delete", manifest.stem, "--home", str(home), "--quiet")
            time.sleep(idle_s / 2)  # until all that follows is done
    finally:
        engine.terminate()
        engine.wait(_WITHIN_S)
    return accounted(Notes.read(recorded), idle)


def accounted(notes: Notes, idle: Window) -> Walk:
    """The walk of the jobs in these notes."""
    commands = [visit for visit in notes.visits if (visit.module, visit.function) == _COMMAND]
    windows = [Window(one.entered_s, ended_s) for one, ended_s in zip(commands, notes.executed_s, strict=True)]
    parts = [_parts(notes, command, window) for command, window in zip(commands, windows, strict=True)]
    return walk_of(TITLE, notes, windows, parts, idle=idle, judged="engine")


def _parts(notes: Notes, command: Visit, window: Window) -> PartOf:
    door = next(visit for visit in notes.visits if window.holds(visit) and visit.function == _DOOR)
    request = notes.ancestry(door)[-1]

    def part_of(visit: Visit) -> str | None:
        if visit.process == command.process:
            return "command" if visit.entered_s <= door.entered_s else None  # printing the answer launches nothing
        if visit.process != door.process:
            return "warden"
        if visit.entered_s < door.entered_s:
            return "api"
        ancestry = notes.ancestry(visit)
        return "api" if request in ancestry and door not in ancestry else "engine"

    return part_of


def _launched(recorded: Path, count: int) -> bool:
    return len(Notes.read(recorded).executed_s) >= count


def _run(notes: Path, *arguments: str) -> None:
    if _started(notes, *arguments).wait(_WITHIN_S) != 0:
        raise RuntimeError(f"sterna {arguments[0]} failed")


def _started(notes: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, recorder.__file__, str(notes), "sterna", *arguments]
    environment = {**os.environ, "PYTHONPATH": recorder.SOURCE}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def _until(holds: Callable[[], bool], what: str, engine: "subprocess.Popen[bytes]") -> None:
    until_s = time.monotonic() + _WITHIN_S
    while not holds():
        if engine.poll() is not None or time.monotonic() > until_s:
            raise RuntimeError(f"not within {_WITHIN_S:g} s: {what}")
        time.sleep(0.1)
