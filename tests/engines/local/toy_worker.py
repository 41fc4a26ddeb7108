"""A training program without the SDK: speaks the mailbox protocol with nothing but json and os, and trains nothing.

    python -S toy_worker.py STEPS STEP_S [slow=SECONDS] [deaf] [mute] [fail_at=STEP] [trace=FILE] [loss=RATE]

`slow` is how long it takes to come up, `deaf` ignores SIGTERM, `mute` never attaches, `fail_at` exits with code 3 at a
step when it gets there for the first time. Every step is appended to the trace: incarnation, rank, step and moment.
With `loss` it tells of a loss that falls towards 1 at that rate, and of an accuracy that rises step by step.
"""

import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
from typing import Any

options = dict(word.partition("=")[::2] for word in sys.argv[3:])
steps, step_s = int(sys.argv[1]), float(sys.argv[2])
mailbox, checkpoints = os.environ["STERNA_MAILBOX"], os.environ["STERNA_CHECKPOINT_DIR"]
rank, world = int(os.environ["STERNA_RANK"]), int(os.environ["STERNA_WORLD_SIZE"])
incarnation = int(os.environ["STERNA_INCARNATION"])
standby = os.environ.get("STERNA_STANDBY") == "1"
status: dict[str, Any] = {
    "pid": os.getpid(),
    "phase": "attached",
    "ack": 0,
    "world_size": world,
    "units_total": float(steps),
}


def mono() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def write(path: str, body: object) -> None:
    aside = f"{path}.{os.getpid()}"
    with open(aside, "w") as out:
        json.dump(body, out)
    os.replace(aside, path)


def read(path: str) -> Any:
    try:
        with open(path) as source:
            return json.load(source)
    except (OSError, ValueError):
        return {}


def say(**news: object) -> None:
    status.update(news)
    if "mute" in options:
        return
    write(f"{mailbox}/status.json", status)
    if "phase" in news:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            with contextlib.suppress(OSError):
                sender.sendto(os.environ["STERNA_WORKER"].encode(), os.environ["STERNA_WAKE"])


def orders() -> tuple[int, str]:
    said = read(f"{mailbox}/orders.json")
    return said.get("seq", 0), said.get("order", "hold" if standby else "run")


def save(step: int) -> None:
    fence = read(f"{checkpoints}/fence.json")
    lowest = max((value for value in fence.values() if type(value) is int), default=0) if fence else 0
    if rank == 0 and incarnation >= lowest:
        began = mono()
        write(f"{checkpoints}/toy.json", {"step": step})
        status["save_s"] = mono() - began


if "deaf" in options:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(float(options.get("slow", 0)))
say()
while orders()[1] == "hold":
    if status["phase"] != "ready":
        say(phase="ready")
    time.sleep(0.005)
say(phase="restoring")
began = mono()
step = read(f"{checkpoints}/toy.json").get("step", 0)
say(phase="training", restored_step=step or None, load_s=mono() - began, step=step, units_done=float(step))
while step < steps:
    time.sleep(step_s)
    step += 1
    now = mono()
    status.setdefault("first_step_mono_s", now)
    status.update(step=step, units_done=float(step), last_step_mono_s=now, step_s=step_s)
    if "loss" in options:
        status["metrics"] = {"loss": 1 + math.exp(-float(options["loss"]) * step), "accuracy": 0.0001 * step}
    if "trace" in options:
        with open(options["trace"], "a") as trace:
            trace.write(f"{incarnation} {rank} {step} {now:.4f} {os.getpid()}\n")
    if step == int(options.get("fail_at", -1)) and incarnation == 1:
        say()
        sys.exit(3)
    if step % 20 == 0:
        save(step)
    if step % 10 == 1:
        say()
    seq, order = orders()
    if order == "stop" and "mute" not in options:
        save(step)
        say(phase="committed", ack=seq)
        sys.exit(0)
say(phase="finished")
sys.stdout.write(f"rank {rank} of {world} is done at step {step}\n")
