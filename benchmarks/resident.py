"""Does anything grow? The resident memory of engine, warden, monitor and operator under load, and its slope.

    python -m benchmarks.resident [--minutes 30] [--only engine,monitor,operator] [--json FILE]

Each load repeats for ever without leaving anything that must be remembered: jobs of a moment that are dropped when
they are over, reports of the same hundred pods, jobs on a cluster that are created, run, end and are deleted. The first
third of the time is for caches to fill. A line is fitted to the rest; it may rise by at most a twentieth of the memory
in half an hour. Exit code 1 if one rises more.

Some tables are bounded, and how soon they are full depends on the machine. The operator remembers the ends of the
latest 1,024 objects of each kind and its latest 4,096 events, some seven for each job; the engine keeps 1 MiB of its
database in memory. So the first third lasts until 1,024 jobs are over, or until the database is larger than that, if
this takes longer, and two thirds of the time follow in any case.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
from tests.cluster.binaries import find_binaries
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import install_crds, make_namespace
from tests.cluster.requests import Api, until
from tests.e2e.up import manifest, running
from tests.kubernetes.rights import USER, grant_shipped_rights

from benchmarks import monitor
from sterna.engines.kubernetes.cache.object_store import TOMBSTONES_MAX
from sterna.engines.local.process.home import Home
from sterna.engines.local.store.database import CACHE_KIB
from sterna.model.errors import SternaError
from sterna.protocol.tokens import bearer, job_token

SAMPLE_S = 1.0
WARM_UP = 1 / 3  # of the time
RISE_MAX, WITHIN_S = 0.05, 1800.0  # so much of the memory in so long
NAMESPACE = "bench"
JOBS = f"/apis/sterna.dev/v1alpha1/namespaces/{NAMESPACE}/elasticjobs"

Pids = Mapping[str, int]
Load = Callable[[threading.Event, threading.Event], None]  # until the first is set; sets the second when it is warm


class Grown(NamedTuple):
    name: str
    mib: float  # on average
    mib_an_hour: float

    @property
    def flat(self) -> bool:
        return self.mib_an_hour * WITHIN_S / 3600 <= RISE_MAX * self.mib


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="of load for each")
    parser.add_argument("--only", default=",".join(STAGES), help="engine (with its warden), monitor, operator")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    given = parser.parse_args()
    found: list[Grown] = []
    for name in given.only.split(","):
        with STAGES[name]() as (pids, load):
            found += watched(pids, load, given.minutes * 60)
        for each in found[-len(pids) :]:
            verdict = "" if each.flat else "  GROWS"
            print(f"{each.name:9} {each.mib:7.1f} MiB, {each.mib_an_hour:+7.2f} MiB an hour{verdict}", flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps([each._asdict() for each in found], indent=2) + "\n")
    return 0 if all(each.flat for each in found) else 1


def watched(pids: Pids, load: Load, seconds: float) -> list[Grown]:
    """The slope of each process's memory while the load goes on."""
    over, warm, hand = threading.Event(), threading.Event(), ThreadPoolExecutor(1)
    processes = {name: psutil.Process(pid) for name, pid in pids.items()}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in pids}
    began_s, from_s = time.monotonic(), seconds * WARM_UP
    loading = hand.submit(load, over, warm)
    try:
        while (at_s := time.monotonic() - began_s) < from_s + seconds * (1 - WARM_UP):
            if not warm.is_set():
                from_s = max(from_s, at_s)
            for name, process in processes.items():
                samples[name].append((at_s, process.memory_info().rss / 2**20))
            wait([loading], SAMPLE_S)
            if loading.done():
                break
    finally:
        over.set()
    loading.result()  # a load that failed tells nothing about memory
    return [_fitted(name, rows, from_s) for name, rows in samples.items()]


def _fitted(name: str, rows: list[tuple[float, float]], from_s: float) -> Grown:
    at_s, mib = np.array([row for row in rows if row[0] >= from_s]).T
    slope = float(np.polyfit(at_s, mib, 1)[0])
    return Grown(name, round(float(mib.mean()), 1), round(slope * 3600, 2))


@contextmanager
def engine() -> Iterator[tuple[Pids, Load]]:
    """`sterna up` and its warden; four jobs at a time, each over in a moment and dropped a second later."""
    with tempfile.TemporaryDirectory(prefix="sterna-resident-") as directory:
        options = ("--nodes", "2", "--gpus-per-node", "4", "--rate-limit", "0.1s")
        with running(Path(directory) / "home", *options) as up:
            database = Home(Path(directory) / "home").database

            def load(over: threading.Event, warm: threading.Event) -> None:
                number = 0
                while not over.is_set():
                    names = [f"job-{number + each}" for each in range(4)]
                    number += 4
                    for name in names:
                        text = manifest(name, "true", runPolicy={"ttlSecondsAfterFinished": 1})
                        up.client.submit(text, cwd=directory)
                    for name in names:
                        with suppress(SternaError):  # over and dropped already
                            up.client.wait(name, timeout_s=60.0)
                    up.client.jobs()
                    up.client.events(limit=50)
                    if database.stat().st_size > CACHE_KIB * 1024:
                        warm.set()

            up.insist(up.client.health)
            pids = {
                "warden" if "warden" in " ".join(process.cmdline()) else "engine": process.pid
                for process in up.processes()
            }
            yield pids, load


@contextmanager
def reports() -> Iterator[tuple[Pids, Load]]:
    """`sterna monitor` with a scheduler behind it; a hundred pods that report in batches."""
    token = bearer(job_token(monitor.SECRET, namespace="team", job="job", uid="1"))
    with monitor.monitoring() as (process, port):

        def load(over: threading.Event, warm: threading.Event) -> None:
            warm.set()
            batches = iter(monitor._batches(token))
            while not over.wait(0.5):  # a connection at a time, as workers come and go
                monitor.drive(process, port, 0.5, lambda: (next(batches), 1), monitor.BATCH)

        yield {"monitor": process.pid}, load


@contextmanager
def operator() -> Iterator[tuple[Pids, Load]]:
    """`sterna operator` before a real API server: four jobs of two workers at a time that run, end and are deleted."""
    with ExitStack() as open_things:
        directory = Path(open_things.enter_context(tempfile.TemporaryDirectory(prefix="sterna-resident-")))
        plane = open_things.enter_context(
            ControlPlane(find_binaries(), directory / "plane", users={USER: ()}, node_lifecycle=False)
        )
        install_crds(plane)
        grant_shipped_rights(plane)
        make_namespace(plane, NAMESPACE)
        nodes = open_things.enter_context(FakeNodes(plane.access(), namespace=NAMESPACE))
        nodes.add(4, gpus=4)
        command = [str(Path(sys.executable).with_name("sterna")), "operator", "--no-leader-elect"]
        command += ["--kubeconfig", str(plane.kubeconfig(USER)), "--namespace", NAMESPACE]
        command += ["--watch-namespace", NAMESPACE, "--rate-limit", "0.1s"]
        with open(directory / "operator.log", "wb") as log, subprocess.Popen(command, stderr=log) as process:
            try:
                yield {"operator": process.pid}, partial(_cluster_load, plane.api(), nodes)
            finally:
                process.kill()


def _cluster_load(api: Api, nodes: FakeNodes, over: threading.Event, warm: threading.Event) -> None:
    number = 0
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"workers": {"min": 2, "max": 2}, "template": {"spec": {"containers": [container]}}}
    kind = {"apiVersion": "sterna.dev/v1alpha1", "kind": "ElasticJob"}
    while not over.is_set():
        names = [f"job-{number + each}" for each in range(4)]
        number += 4
        for name in names:
            api.create(JOBS, {**kind, "metadata": {"name": name}, "spec": spec})
        workers = {f"{name}-worker-{index}" for name in names for index in range(2)}
        until(partial(_all_run, api, workers), f"{', '.join(names)} run")
        for pod in sorted(workers):
            nodes.exit(pod, 0)
        until(partial(_all_over, api, set(names)), f"{', '.join(names)} are over")
        for name in names:
            api.delete(f"{JOBS}/{name}", {"propagationPolicy": "Background"})
        if number >= TOMBSTONES_MAX:
            warm.set()


def _all_run(api: Api, pods: set[str]) -> bool:
    found = api.items(f"/api/v1/namespaces/{NAMESPACE}/pods")
    return pods <= {pod["metadata"]["name"] for pod in found if pod["status"].get("phase") == "Running"}


def _all_over(api: Api, names: set[str]) -> bool:
    return names <= {
        job["metadata"]["name"]
        for job in api.items(JOBS)
        for each in job.get("status", {}).get("conditions", [])
        if each["type"] == "Succeeded" and each["status"] == "True"
    }


STAGES = {"engine": engine, "monitor": reports, "operator": operator}

if __name__ == "__main__":
    sys.exit(main())
