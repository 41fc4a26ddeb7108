"""What `run.report()` costs a training step when it also goes to the node's monitor: there, away, and slow.

    python -m benchmarks.reporting [--json FILE]

Promised: under 50 microseconds a step, in the mean. Every call is measured on its own: mean, median, 99th percentile
and the longest, in microseconds, of calls that come as fast as steps of two milliseconds do, with the thread that sends
at work beside them. On a machine that has other things to do the last two show those rather than the call.

* `there` is a monitor in a process of its own that answers at once; `away` is a port where nobody listens;
* `slow` takes a connection and answers each batch after a second; `nobody` is the same program without a monitor;
* `burst` is `there`, with calls one right after the other: what the interpreter's lock makes of it.
"""

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

from sterna import training
from sterna.protocol import STERNA_VARIABLES, worker_environment

MEAN_US_MAX = 50.0
STEP_S = 0.002


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reporting", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures there, too")
    parser.add_argument("--quick", action="store_true", help="a second each instead of eight")
    arguments = parser.parse_args()
    steps = 500 if arguments.quick else 4000
    figures: dict[str, dict[str, float]] = {"nobody": measured(None, steps)}
    with monitor(answers_after_s=0.0) as url:
        figures["there"] = measured(url, steps)
        figures["burst"] = measured(url, 50_000, step_s=0.0)
    figures["away"] = measured(f"http://127.0.0.1:{_port_of_nobody()}", steps)
    with monitor(answers_after_s=1.0) as url:
        figures["slow"] = measured(url, steps)
    for name, row in figures.items():
        print(f"{name:8}" + "".join(f"  {key} {value:8.2f}" for key, value in row.items()))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    fine = all(row["mean_us"] < MEAN_US_MAX for row in figures.values())
    print(f"{'as promised' if fine else 'NOT as promised'}: under {MEAN_US_MAX:.0f} microseconds a step")
    return 0 if fine else 1


def measured(url: str | None, steps: int, step_s: float = STEP_S) -> dict[str, float]:
    took_us = []
    with inside(url) as run:
        for number in range(steps):
            loss = 1.0 / (number + 1)
            began = time.perf_counter_ns()
            run.report(loss=loss, accuracy=0.5, learning_rate=0.1)
            took_us.append((time.perf_counter_ns() - began) / 1e3)
            if step_s:
                time.sleep(step_s)
    cuts = statistics.quantiles(took_us, n=100)
    return {
        "mean_us": statistics.fmean(took_us),
        "median_us": cuts[49],
        "p99_us": cuts[98],
        "most_us": max(took_us),
    }


@contextmanager
def inside(url: str | None) -> Iterator[training.Run]:
    """This process as a worker of Sterna."""
    with tempfile.TemporaryDirectory() as home:
        variables = worker_environment(
            job="default/benchmark",
            worker="benchmark",
            rank=0,
            world_size=1,
            incarnation=0,
            checkpoint_dir=None,
            mailbox=home,
        )
        if url is not None:
            variables |= {"STERNA_MONITOR_URL": url, "STERNA_POD": "benchmark-worker-0"}
        os.environ.update(variables)
        try:
            with training.attach() as run:
                yield run
        finally:
            for name in STERNA_VARIABLES:
                os.environ.pop(name, None)


@contextmanager
def monitor(*, answers_after_s: float) -> Iterator[str]:
    """The address of one that takes everything."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, answers_after_s), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}"
    finally:
        process.terminate()
        process.join()


def _serve(told: Connection, answers_after_s: float) -> None:
    class Taker(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(answers_after_s)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Not into the figures."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    told.send(server.server_address[1])
    server.serve_forever()


def _port_of_nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    raise SystemExit(main())
