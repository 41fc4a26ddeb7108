"""How many reports a second one monitor takes on one core, and how much memory it needs for that.

    python -m benchmarks.monitor [--quick] [--json FILE]

A real `sterna monitor` with a real scheduler's door behind it that takes every batch. `single` is container-migration's
`POST /monitor` with one report a request, pipelined over kept connections; `batched` is the SDK's `POST /reports` with
100 in each. Rates are per second of processor time of the monitor, forwarding included, which is what one core can do
and does not depend on who else uses the machine; `wall` is what was seen on the clock, the sender's own work included.
The ratio is to a server of the same library that does nothing but read and answer, in the same run.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from sterna.httpd import HttpServer, Reply, Request
from sterna.protocol.reports import Answer
from sterna.protocol.tokens import bearer, job_token

REPORTS_PER_S_MIN = 10_000
RSS_MIB_MAX = 60.0
SECRET = "a-secret-of-this-benchmark"
PODS, CONNECTIONS, DEPTH, BATCH = 100, 4, 32, 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of half a minute")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.echo:
        asyncio.run(echo())
        return 0
    figures = measure(2.0 if arguments.quick else 8.0)
    print(json.dumps(figures, indent=2))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    fine = figures["batched_per_cpu_s"] >= REPORTS_PER_S_MIN and figures["rss_mib_most"] < RSS_MIB_MAX
    promise = f"{REPORTS_PER_S_MIN} a second in batches, {RSS_MIB_MAX:.0f} MiB"
    print(f"{'as promised' if fine else 'NOT as promised'}: {promise}")
    return 0 if fine else 1


def measure(seconds: float) -> dict[str, float]:
    token = bearer(job_token(SECRET, namespace="team", job="job", uid="1"))
    singles = [_single(token, pod) for pod in range(PODS)]
    with echoing() as (process, port):
        echo_cpu, echo_wall, _ = drive(process, port, seconds, lambda: (b"".join(singles[:DEPTH]), DEPTH), 1)
    with monitoring() as (process, port):
        idle_mib = memory_mib(process, "VmRSS")
        turn = iter(_turns(singles))
        single_cpu, single_wall, _ = drive(process, port, seconds, lambda: (next(turn), DEPTH), 1)
        batches = iter(_batches(token))
        batched_cpu, batched_wall, _ = drive(process, port, seconds, lambda: (next(batches), 1), BATCH)
        most_mib = memory_mib(process, "VmHWM")
    return {
        "single_per_cpu_s": round(single_cpu),
        "batched_per_cpu_s": round(batched_cpu),
        "single_wall_per_s": round(single_wall),
        "batched_wall_per_s": round(batched_wall),
        "echo_per_cpu_s": round(echo_cpu),
        "echo_wall_per_s": round(echo_wall),
        "single_to_echo": round(single_cpu / echo_cpu, 3),
        "rss_mib_idle": round(idle_mib, 1),
        "rss_mib_most": round(most_mib, 1),
    }


def drive(
    process: subprocess.Popen[bytes], port: int, seconds: float, make: Callable[[], tuple[bytes, int]], worth: int
) -> tuple[float, float, int]:
    """Keep all connections busy: units per second of the process's processor time, per second of the clock, and all."""
    lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    for line in lines:
        line.settimeout(60)
    done, began_s, began_cpu_s = 0, time.monotonic(), cpu_s(process)
    while time.monotonic() - began_s < seconds:
        expected = []
        for line in lines:
            data, count = make()
            line.sendall(data)
            expected.append(count)
        for line, count in zip(lines, expected, strict=True):
            _receive(line, count)
            done += count * worth
    used_s, took_s = cpu_s(process) - began_cpu_s, time.monotonic() - began_s
    for line in lines:
        line.close()
    return done / used_s, done / took_s, done


def _receive(line: socket.socket, count: int) -> None:
    answers = b""
    while answers.count(b"HTTP/1.1 ") < count or not answers.endswith((b"Ok", b"}")):
        data = line.recv(1 << 16)
        if not data:
            raise SystemExit(f"the server hung up after {answers[-300:]!r}")
        answers += data
    if answers.count(b"HTTP/1.1 200 ") != count:
        raise SystemExit(f"refused: {answers[:300]!r}")


def _single(token: str, pod: int) -> bytes:
    body = b'{"pod":"job-worker-%d","value":0.8712345}' % pod
    head = f"POST /monitor HTTP/1.1\r\nHost: node\r\nAuthorization: {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _turns(singles: list[bytes]) -> Iterator[bytes]:
    place = 0
    while True:
        yield b"".join(singles[(place + each) % PODS] for each in range(DEPTH))
        place += DEPTH


def _batches(token: str) -> Iterator[bytes]:
    seq = int(time.time() * 2e6)  # above what the monitor gave to those that came without one
    form = '{"pod":"job-worker-%d","seq":%d,"at_s":%f,"value":0.87,"metric":"accuracy","step":%d,"step_s":0.021}'
    while True:
        rows = []
        for pod in range(BATCH):
            seq += 1
            rows.append(form % (pod % PODS, seq, time.time(), seq % 10**6))
        body = '{"reports":[' + ",".join(rows) + "]}"
        head = f"POST /reports HTTP/1.1\r\nHost: node\r\nAuthorization: {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        yield (head + body).encode()


@contextmanager
def monitoring() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with tempfile.TemporaryDirectory() as directory, door() as door_port:
        token_file = Path(directory) / "token"
        token_file.write_text(SECRET)
        command = [
            str(Path(sys.executable).with_name("sterna")),
            "monitor",
            "--port",
            "0",
            "--health-port",
            "0",
            "--token-file",
            str(token_file),
        ]
        command += ["--scheduler", f"http://127.0.0.1:{door_port}", "--log-format", "json"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            try:
                assert process.stderr is not None
                said = json.loads(process.stderr.readline())
                threading.Thread(target=process.stderr.read, daemon=True).start()
                yield process, int(said["port"])
            finally:
                process.terminate()


@contextmanager
def echoing() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with subprocess.Popen([sys.executable, "-m", "benchmarks.monitor", "--echo"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


@contextmanager
def door() -> Iterator[int]:
    """A scheduler that takes everything, on a thread of its own."""
    loop = asyncio.new_event_loop()

    def take(request: Request) -> Reply:
        return Reply(Answer(instance="one").to_json())

    server = HttpServer({("POST", "/reports"): take})
    port = loop.run_until_complete(server.start("127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def echo() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        await request.read()
        return web.Response(body=b"Ok")

    server = await asyncio.get_running_loop().create_server(web.Server(answer, access_log=None), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(process: subprocess.Popen[bytes], field: str) -> float:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    sys.exit(main())
