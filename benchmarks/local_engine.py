"""What the local engine itself costs: 200 jobs queued, short ones started all the time, for a minute.

    python -m benchmarks.local_engine [--seconds 60] [--queued 200] [--json FILE]

A real `sterna up`, asked over its API as a user would. Counted are CPU seconds and resident memory of the engine, the
warden and the warden's guard; not those of the jobs, nor of this client. Asked for: under 5 % of one core and under
150 MiB at 50 starts a minute.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from sterna.interfaces.client import Client
from sterna.model.errors import EngineUnavailable

MANIFEST = """
apiVersion: sterna.dev/v1alpha1
kind: ElasticJob
metadata: {{name: job-{number:05d}}}
spec:
  workers: {{min: 1, max: 1}}
  template:
    spec:
      containers:
        - {{name: main, image: none, resources: {{limits: {{nvidia.com/gpu: 1}}}}, command: [sleep, "{sleep_s}"]}}
"""
GPUS = 3
JOB_S = 1.6  # with cycles every 2 s, three cards then start some 50 to 90 jobs a minute
CORE_SHARE_MAX = 0.05
MEMORY_MIB_MAX = 150.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--queued", type=int, default=200)
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sterna-bench-") as directory:
        found = measured(Path(directory) / "home", arguments.seconds, arguments.queued)
    print(f"queued {arguments.queued} jobs, kept full; {found['starts_per_minute']:.0f} started a minute")
    print(f"CPU    {found['core_share']:.1%} of one core (limit {CORE_SHARE_MAX:.0%})")
    print(f"memory {found['memory_mib']:.0f} MiB at most (limit {MEMORY_MIB_MAX:.0f} MiB)")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=2) + "\n")
    return 0


def measured(home: Path, seconds: float, queued: int) -> dict[str, float]:
    home.mkdir()
    command = [sys.executable, "-m", "sterna.interfaces.cli.main", "up", "--home", str(home), "--policy", "fifo"]
    options = ["--nodes", "1", "--gpus-per-node", str(GPUS), "--quiet"]
    engine = subprocess.Popen([*command, *options])
    client = Client(str(home))
    try:
        _patiently(client)
        submitted = _submit(client, 0, queued)
        ours = _processes(engine.pid, home)
        before_s, began_s, first = _cpu_s(ours), time.monotonic(), _started(client)
        memory_bytes = 0
        while time.monotonic() - began_s < seconds:
            time.sleep(5.0)
            submitted += _submit(client, submitted, queued - int(client.health()["jobs"]["Waiting"]))
            memory_bytes = max(memory_bytes, sum(process.memory_info().rss for process in ours))
        took_s = time.monotonic() - began_s
        return {
            "starts_per_minute": (_started(client) - first) * 60 / took_s,
            "core_share": (_cpu_s(ours) - before_s) / took_s,
            "memory_mib": memory_bytes / 2**20,
        }
    finally:
        engine.terminate()
        engine.wait()


def _patiently(client: Client) -> None:
    for _ in range(600):
        try:
            client.health()
            return
        except EngineUnavailable:
            time.sleep(0.1)


def _submit(client: Client, first: int, count: int) -> int:
    """In one request, as a script with many jobs would."""
    texts = [MANIFEST.format(number=number, sleep_s=JOB_S) for number in range(first, first + max(0, count))]
    if texts:
        client.submit("---".join(texts), cwd="/")
    return len(texts)


def _processes(pid: int, home: Path) -> list[psutil.Process]:
    """The engine, and whoever was started for its home and is no job."""
    wardens = [one for one in psutil.process_iter(["cmdline"]) if _is_warden(one.info["cmdline"] or [], home)]
    return [psutil.Process(pid), *wardens]


def _is_warden(cmdline: list[str], home: Path) -> bool:
    words = " ".join(cmdline)
    return "warden" in words and str(home) in words


def _started(client: Client) -> int:
    return sum(job["startedAt"] is not None for job in client.jobs())


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(process.cpu_times().user + process.cpu_times().system for process in processes)


if __name__ == "__main__":
    sys.exit(main())
