"""One rank of a gang in a process of its own, for the tests.

    python -m tests.training.checkpoint.gang '{"directory": ..., "rank": 0, "world_size": 2, ...}'

Prints one line of JSON for each save: the generation it became part of, or the problem.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore
from tests.waiting import paced


def started(directory: Path, rank: int, world_size: int, **more: Any) -> "subprocess.Popen[str]":
    """`more`: steps, incarnation, meet_s, delay_s (before each save), faulty (saves something impossible), wait."""
    job = {"directory": str(directory), "rank": rank, "world_size": world_size, **more}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "tests.training.checkpoint.gang", json.dumps(job)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def answers(process: "subprocess.Popen[str]", timeout_s: float = 120.0) -> list[dict[str, Any]]:
    output, _ = process.communicate(timeout=timeout_s)
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def shared(step: int) -> dict[str, Any]:
    return {"weights": bytes([step % 256]) * 20_000}


def own(step: int, rank: int) -> dict[str, Any]:
    return {"rank": rank, "step": step, "rng": b"%d" % rank * 3000}


def main() -> None:
    job = json.loads(sys.argv[1])
    rank, world_size = job["rank"], job["world_size"]
    store = CheckpointStore(
        Path(job["directory"]),
        incarnation=job.get("incarnation", 1),
        rank=rank,
        world_size=world_size,
        meet_s=job.get("meet_s", 60.0),
    )
    _say("ready")
    sys.stdin.readline()  # the barrier: whoever started us has seen everybody else
    for step in job["steps"]:
        paced(job.get("delay_s", 0.0))
        mine: dict[str, Any] = {"bad": object()} if job.get("faulty") == step else own(step, rank)
        try:
            if step % 2:
                saved = store.save(shared(step) if rank == 0 else {}, mine, step=step, about={"step": step})
            else:
                saved = store.begin_save(shared(step) if rank == 0 else {}, mine, step=step, about={}).result(100)
            _say(json.dumps({"step": step, "name": saved.generation.name, "digest": saved.generation.digest}))
        except CheckpointProblem as problem:
            _say(json.dumps({"step": step, "problem": str(problem)}))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
