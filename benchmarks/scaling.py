"""How the operator's work grows with the number of objects of each kind.

    python -m benchmarks.scaling [--kinds jobs,pods,...] [--least 100] [--most 10000] [--json FILE]

The whole operator runs in this process before a cluster in memory (`tests/engines/kubernetes/memory_api.py`), so what
is measured is its own work: listing, caches, snapshots, decisions, looks at jobs, statuses, Migrations, SharePods,
events. HTTP, TLS and the API server are not in it. Of one kind there are 100 to 10,000 objects, of the others a few.
Two figures for each point, in seconds of CPU time:

* `start`: from nothing until everything is known, decided, written and at rest; where objects are about jobs that must
  run first (Migrations), from the moment they come;
* `again`: one more cycle and one more look at everything, although nothing has changed.

The exponent is the slope of a line through the upper half of the points, where what is the same for any number does not
matter any more, in double logarithmic scale: 1 is linear, 2 is quadratic; points below `FROM_S` say nothing. Exit
status 1: one of them exceeds `EXPONENT_MAX`.
"""

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.engines.kubernetes.memory_api import Body, MemoryCluster, memory_api

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, MIGRATIONS, NODES, PODS, SHARE_PODS
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.status.event_recorder import About, Recorder
from sterna.protocol.reports import Batch, Report
from sterna.wire.manifests import read_migration, workload_of_object

EXPONENT_MAX = 1.3
FROM_S = 0.02  # shorter times say more about the machine than about the work
FEW = 10
RATE_LIMIT_S = 0.2  # between cycles: without one, the number of cycles grows with what happens, as it never does
NAMESPACE = "bench"


class Point(NamedTuple):
    objects: int
    start_s: float
    again_s: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS), help="which, with commas between them")
    parser.add_argument("--least", type=int, default=100)
    parser.add_argument("--most", type=int, default=10_000)
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    for kind in given.kinds.split(","):
        points = []
        for count in counts(given.least, given.most):
            points.append(measured(kind, count))
            print(
                f"{kind:12} {count:6}  start {points[-1].start_s:8.3f} s  again {points[-1].again_s:8.3f} s", flush=True
            )
        exponents = {
            "start": exponent([(point.objects, point.start_s) for point in points]),
            "again": exponent([(point.objects, point.again_s) for point in points]),
        }
        print(f"{kind:12} exponents  start {exponents['start']:.2f}  again {exponents['again']:.2f}", flush=True)
        figures[kind] = {"points": [point._asdict() for point in points], "exponents": exponents}
    worst = max(value for figure in figures.values() for value in figure["exponents"].values())
    fine = worst <= EXPONENT_MAX
    print(f"{'as promised' if fine else 'NOT as promised'}: no exponent above {EXPONENT_MAX} (worst: {worst:.2f})")
    if given.json:
        report = {"exponent_max": EXPONENT_MAX, "kinds": figures}
        Path(given.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0 if fine else 1


def counts(least: int, most: int) -> list[int]:
    """From the least to the most, each about three times the one before."""
    steps = max(1, round(2 * math.log10(most / least)))
    return [round(least * (most / least) ** (step / steps)) for step in range(steps + 1)]


def exponent(points: Iterable[tuple[int, float]]) -> float:
    """Of the power law that fits best; 0 where there are not two points that say anything."""
    found = list(points)
    upper = found[len(found) // 2 :] if len(found) > 2 else found
    logs = [(math.log(count), math.log(took_s)) for count, took_s in upper if took_s >= FROM_S]
    if len(logs) < 2:
        return 0.0
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def measured(kind: str, count: int) -> Point:
    point: Point = asyncio.run(KINDS[kind](count))
    return point


# -- the operator in memory -------------------------------------------------------------------------------------------


async def operated(
    cluster: MemoryCluster, count: int, then: Callable[[MemoryCluster], None] | None = None, **settings: Any
) -> Point:
    """An operator before this cluster: from its start, or from `then`, to its rest, and once more."""
    config = OperatorConfig(
        namespace=NAMESPACE,
        watch=(NAMESPACE,),  # by name, or jobs in the operator's own namespace would be refused
        elect=False,
        rate_limit_s=RATE_LIMIT_S,
        retry_s=0.05,
        migrations_max=10**9,
        **settings,
    )
    operator = Operator(config, memory_api(cluster), parse=workload_of_object, read_migration=read_migration)
    began_s = time.process_time()
    running = asyncio.create_task(operator.run())
    try:
        await operator.ready()
        await at_rest(operator)
        if then is not None:
            began_s = time.process_time()
            then(cluster)
            await at_rest(operator)
        start_s = time.process_time() - began_s
        began_s = time.process_time()
        operator.look_again()
        await at_rest(operator)
        return Point(count, start_s, time.process_time() - began_s)
    finally:
        operator.stop()
        await running


async def at_rest(operator: Operator) -> None:
    """Until nothing is left to do; looked at so seldom that looking costs nothing."""
    calm = 0
    while calm < 3:
        await asyncio.sleep(0.02)
        calm = calm + 1 if operator.decider.cycles and operator.at_rest else 0


def scene(*, jobs: int = FEW, pods: int = FEW, nodes: int = FEW) -> MemoryCluster:
    cluster = MemoryCluster()
    gpus = max(8, math.ceil(2 * jobs / nodes))
    for number in range(nodes):
        cluster.put(NODES, node(f"node-{number}", gpus=gpus))
    for number in range(jobs):
        cluster.put(ELASTIC_JOBS, elastic_job(f"job-{number}"))
    for number in range(pods):
        cluster.put(PODS, stranger(f"stranger-{number}", f"node-{number % nodes}"))
    return cluster


def asking(count: int, spec: Callable[[int], Body]) -> Callable[[MemoryCluster], None]:
    """So many Migrations."""

    def asked(cluster: MemoryCluster) -> None:
        for number in range(count):
            meta = {"name": f"move-{number}", "namespace": NAMESPACE}
            cluster.put(MIGRATIONS, {"metadata": meta, "spec": spec(number)})

    return asked


def node(name: str, *, gpus: int) -> Body:
    offers = {"cpu": "10000", "memory": "10000Gi", "pods": "100000", "nvidia.com/gpu": str(gpus)}
    conditions = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name},
        "spec": {},
        "status": {"allocatable": offers, "capacity": offers, "conditions": conditions},
    }


def elastic_job(name: str, *, workers: int = 1) -> Body:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "workers": {"min": workers, "max": workers},
            "image": "none",
            "command": ["sleep", "1"],
            "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": 1}},
        },
    }


def stranger(name: str, where: str) -> Body:
    container = {"name": "main", "resources": {"requests": {"cpu": "1m"}}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"nodeName": where, "containers": [container]},
        "status": {"phase": "Running"},
    }


def share_pod(name: str, where: str = "") -> Body:
    notes = {
        "kubeshare/gpu_request": "0.5",
        "kubeshare/gpu_limit": "1.0",
        "kubeshare/gpu_mem": "1073741824",
        "lsalab.nthu/priority": "high",
    }
    placed = {"kubeshare/GPUID": f"card{name[-5:]}"} if where else {}
    container = {"name": "main", "resources": {"requests": {"cpu": "1m"}}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {**notes, **placed}},
        "spec": {"containers": [container], **({"nodeName": where} if where else {})},
    }


# -- kinds ------------------------------------------------------------------------------------------------------------


async def jobs_(count: int) -> Point:
    """As many jobs of one worker, all of which run in the end."""
    return await operated(scene(jobs=count), count)


async def waiting_jobs(count: int) -> Point:
    """As many jobs, of which ten find room."""
    cluster = scene(jobs=0, nodes=1)
    cluster.put(NODES, node("node-0", gpus=FEW))
    for number in range(count):
        cluster.put(ELASTIC_JOBS, elastic_job(f"job-{number}"))
    return await operated(cluster, count)


async def workers_(count: int) -> Point:
    """As many pods of ten jobs."""
    cluster = scene(jobs=0, nodes=FEW)
    for number in range(FEW):
        cluster.put(NODES, node(f"node-{number}", gpus=count))
        cluster.put(ELASTIC_JOBS, elastic_job(f"job-{number}", workers=count // FEW))
    return await operated(cluster, count)


async def pods_(count: int) -> Point:
    """As many pods of strangers on ten nodes."""
    return await operated(scene(pods=count), count)


async def nodes_(count: int) -> Point:
    return await operated(scene(nodes=count), count)


async def migrations_(count: int) -> Point:
    """As many requests, each for another worker of ten jobs, most of whom there are not."""
    wish = asking(count, lambda number: {"job": f"job-{number % FEW}", "worker": number // FEW})
    return await operated(scene(), count, wish)


async def moves(count: int) -> Point:
    """As many jobs, and for each a request to move it."""
    wish = asking(count, lambda number: {"job": f"job-{number}", "worker": 0})
    return await operated(scene(jobs=count), count, wish)


async def drains(count: int) -> Point:
    """As many requests to empty the same node: one does it, and the others find nothing to move."""
    return await operated(scene(), count, asking(count, lambda _: {"node": "node-0"}))


async def share_pods(count: int) -> Point:
    """As many SharePods that somebody has placed on ten nodes."""
    cluster = scene()
    for number in range(count):
        cluster.put(SHARE_PODS, share_pod(f"share-{number:05}", f"node-{number % FEW}"))
    return await operated(cluster, count, kubeshare=True)


async def waiting_share_pods(count: int) -> Point:
    """As many SharePods that wait, of which some find room."""
    cluster = scene()
    for number in range(count):
        cluster.put(SHARE_PODS, share_pod(f"share-{number:05}"))
    return await operated(cluster, count, kubeshare=True)


async def events_(count: int) -> Point:
    """As many events about as many objects, recorded and written; and again, so that they are counted."""
    recorder = Recorder(memory_api(MemoryCluster()))
    running = asyncio.create_task(recorder.run())
    took = []
    for _ in range(2):
        began_s = time.process_time()
        for number in range(count):
            about = About("v1", "Pod", NAMESPACE, f"pod-{number}", f"uid-{number}")
            recorder.record(about, reason="Placed", message=f"on node-{number % FEW}")
            if number % 500 == 499:
                await recorder.flush()
        await recorder.flush()
        took.append(time.process_time() - began_s)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return Point(count, *took)


async def reports(count: int) -> Point:
    """As many reports of ten jobs in one batch, and again with higher numbers."""
    cluster = scene()
    config = OperatorConfig(namespace=NAMESPACE, watch=(NAMESPACE,), elect=False, rate_limit_s=0.0)
    operator = Operator(config, memory_api(cluster), parse=workload_of_object, read_migration=read_migration)
    running = asyncio.create_task(operator.run())
    await operator.ready()
    await at_rest(operator)
    took = []
    for turn in range(2):
        said = tuple(
            Report(
                pod=f"{NAMESPACE}/job-{number % FEW}-worker-0",
                seq=turn * count + number + 1,
                at_s=1000.0 * turn + number,
                units_done=float(turn * count + number),
            )
            for number in range(count)
        )
        began_s = time.process_time()
        operator.reporting.take(Batch(node="", reports=said))
        took.append(time.process_time() - began_s)
    operator.stop()
    await running
    return Point(count, *took)


KINDS: dict[str, Callable[[int], Any]] = {
    "jobs": jobs_,
    "waiting": waiting_jobs,
    "workers": workers_,
    "pods": pods_,
    "nodes": nodes_,
    "migrations": migrations_,
    "moves": moves,
    "drains": drains,
    "sharepods": share_pods,
    "sharewaits": waiting_share_pods,
    "events": events_,
    "reports": reports,
}


def calls(kind: str, count: int) -> int:
    """How many Python functions are called: work that is the same on every machine, loaded or not."""
    number = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal number
        number += event == "call"

    sys.setprofile(note)
    try:
        measured(kind, count)
    finally:
        sys.setprofile(None)
    return number


if __name__ == "__main__":
    sys.exit(main())
