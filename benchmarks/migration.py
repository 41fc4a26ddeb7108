"""How long a move keeps training still: Sterna's warm migration beside the delete-and-apply of pytorchjob-migration.

    python -m benchmarks.migration [--moves N] [--json FILE]

Both move the same PyTorch model on this machine, one after the other in one run. Downtime is from the end of the last
step before the move to the end of the first step after it.

- warm: `sterna migrate` on a local engine with two virtual nodes. The replacement is started and has imported torch
  before the old worker stops. The limit is save + load + 0.3 s, with save and load as the engine recorded them.
- delete and apply: the protocol that pytorchjob-migration describes. The hook writes `save` and looks every second for
  `resume`, the listener in the program looks every second for `save`, then the process is ended and a new interpreter
  imports torch and loads. What a cluster adds (scheduling, image, network) is left out, and steps that were trained
  between the save and the end, and are lost, are not counted: the ratio is a lower bound.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from sterna.interfaces.client import Client
from sterna.model.errors import Conflict, EngineUnavailable

SLACK_S = 0.3
RATIO_MIN = 10.0
PATIENCE_S = 180.0
WIDTHS = {"1 MB": 256, "85 MB": 2304}  # of state, momentum included; the larger one is about ResNet-18
ROOT = Path(__file__).parents[1]
TRAINER = Path(__file__).with_name("migration_trainer.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the times there as well")
    arguments = parser.parse_args()
    found = {name: compared(width, arguments.moves, name) for name, width in WIDTHS.items()}
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"ratio_asked_for": RATIO_MIN, **found}, indent=2) + "\n")
    return 0


def compared(width: int, moves: int, name: str) -> dict[str, Any]:
    """Both ways with a model of one size."""
    with tempfile.TemporaryDirectory(prefix="sterna-bench-") as directory:
        warm = warm_moves(Path(directory) / "warm", moves, width)
        cold = [delete_and_apply(Path(directory) / f"cold-{number}", width) for number in range(moves)]
    for move in warm:
        print(
            f"{name}, warm: downtime {move['downtime_s']:.3f} s, save {move['save_s']:.3f} s, "
            f"load {move['load_s']:.3f} s, beyond save and load {move['beyond_s']:+.3f} s (limit {SLACK_S} s)"
        )
    for downtime_s in cold:
        print(f"{name}, delete and apply: downtime {downtime_s:.3f} s")
    ratio = median(cold) / median(move["downtime_s"] for move in warm)
    print(f"{name}, medians: delete and apply takes {ratio:.1f} times as long (asked for: {RATIO_MIN:.0f})")
    return {"warm": warm, "delete_and_apply_s": cold, "ratio_of_medians": ratio}


def warm_moves(home: Path, moves: int, width: int) -> list[dict[str, float]]:
    """One job moved to and fro."""
    command = [sys.executable, "-m", "sterna.interfaces.cli.main", "up", "--home", str(home), "--quiet"]
    home.mkdir()
    options = ["--nodes", "2", "--gpus-per-node", "1", "--rate-limit", "0.1s"]
    engine = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    client = Client(str(home))
    try:
        until(lambda: client.health()["ok"])
        client.submit(job(width), cwd=str(home))
        for number in range(moves):
            reached = until(lambda: client.job("moved")["step"])
            until(lambda reached=reached: (client.job("moved")["step"] or 0) > reached + 20)
            until(lambda number=number: asked(client, "node-2" if number % 2 == 0 else "node-1"))
            until(lambda number=number: len(succeeded(client)) == number + 1)
        return [times(move) for move in succeeded(client)]
    finally:
        client.delete("moved")
        engine.terminate()
        engine.wait(PATIENCE_S)


def asked(client: Client, to: str) -> bool:
    """A node that the process before has not left yet refuses, and is asked again."""
    try:
        client.migrate("moved", to=to)
    except Conflict:
        return False
    return True


def succeeded(client: Client) -> list[dict[str, Any]]:
    return [move for move in client.migrations("moved") if move["phase"] == "Succeeded"]


def times(move: dict[str, Any]) -> dict[str, float]:
    downtime_s, save_s, load_s = move["downtimeSeconds"], move["saveSeconds"], move["loadSeconds"]
    beyond_s = downtime_s - save_s - load_s
    return {"downtime_s": downtime_s, "save_s": save_s, "load_s": load_s, "beyond_s": beyond_s, "warm": move["warm"]}


def job(width: int) -> str:
    container = {
        "name": "trainer",
        "command": [sys.executable, str(TRAINER), str(width), "sterna"],
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}, {"name": "PYTHONPATH", "value": str(ROOT / "src")}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    return json.dumps(
        {
            "apiVersion": "sterna.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "moved"},
            "spec": {"workers": {"min": 1, "max": 1}, "template": {"spec": {"containers": [container]}}},
        }
    )


def delete_and_apply(place: Path, width: int) -> float:
    """One move by hand: hook, end, new process."""
    place.mkdir()
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "src"),
        "MIGRATION_CKPT_PATH": str(place / "migration.pth"),
        "MIGRATION_SIGNAL_PATH": str(place / "signal"),
    }
    command = [sys.executable, str(TRAINER), str(width), "migrator", str(place)]
    old = subprocess.Popen(command, env=environment)
    until(lambda: len(steps(place, old.pid)) > 20)
    (place / "signal").write_text("save")  # what the hook does, and then it looks every second
    while (place / "signal").read_text().strip() != "resume":
        time.sleep(1.0)
    old.terminate()
    old.wait()
    new = subprocess.Popen(command, env=environment)
    try:
        until(lambda: steps(place, new.pid))
        return steps(place, new.pid)[0] - steps(place, old.pid)[-1]
    finally:
        new.kill()
        new.wait()


def steps(place: Path, pid: int) -> list[float]:
    """When each step of a process ended, by the clock that all processes share."""
    trace = place / f"steps-{pid}"
    return [float(line) for line in trace.read_text().splitlines()] if trace.exists() else []


def until(holds: Any) -> Any:
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if answer := holds():
                return answer
        except EngineUnavailable:
            pass
        if time.monotonic() > until_s:
            raise TimeoutError("the benchmark waited in vain")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
