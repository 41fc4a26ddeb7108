"""The Kubernetes engine beside its limits, on a real API server and nodes without kubelets.

    python -m benchmarks.kubernetes [--pods 5000] [--nodes 500] [--idle 60] [--json FILE]

Placing: the operator places the pods of waiting jobs; then a bare loop sends the very same creates, as many at a time
and with the same rights, for the same jobs;
then kube-scheduler (its client limit out of the way) places the same pods, created by such a loop without a node. Each
begins with an API server of its own. Asked for: 0.9 of the bare loop, and 1.3 times kube-scheduler.

Restart: with as many pods of strangers besides, a new operator process: seconds until its first decision (under 5),
resident memory (under 200 MiB), CPU and writes while nothing happens (under 2 % of a core; nothing but the Lease).
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from tests.cluster.binaries import find_binaries
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import install_crds, make_namespace
from tests.cluster.ports import free_port
from tests.cluster.requests import Body
from tests.cluster.talking import Talk
from tests.kubernetes.rights import USER, grant_shipped_rights

from sterna.engines.kubernetes.apiserver.client import connect, from_kubeconfig
from sterna.engines.kubernetes.apiserver.port import PODS, SERVICES, Resource
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.wire.manifests import read_migration, workload_of_object

NAMESPACE = "bench"
JOBS = f"/apis/sterna.dev/v1alpha1/namespaces/{NAMESPACE}/elasticjobs"
WORKERS = 50  # of a job
AT_ONCE = 32
BARE_MIN, SCHEDULER_MIN = 0.9, 1.3
FIRST_DECISION_MAX_S, MEMORY_MAX_MIB, IDLE_CORE_MAX = 5.0, 200.0, 0.02


class Made(NamedTuple):
    resource: Resource
    body: Body


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=5000, help="a multiple of 50")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds to watch it do nothing")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sterna-bench-") as directory:
        found = asyncio.run(measured(Path(directory), given.pods, given.nodes, given.idle))
    bare, scheduler = found["sterna_per_s"] / found["bare_per_s"], found["sterna_per_s"] / found["kube_scheduler_per_s"]
    print(f"placed         {found['sterna_per_s']:.0f} pods/s, from the first create to the last")
    print(f"bare loop      {found['bare_per_s']:.0f} pods/s: {bare:.2f} of it (asked for: {BARE_MIN})")
    print(
        f"kube-scheduler {found['kube_scheduler_per_s']:.0f} pods/s: {scheduler:.2f} of it (asked for: {SCHEDULER_MIN})"
    )
    print(f"first decision {found['first_decision_s']:.1f} s after the start (limit {FIRST_DECISION_MAX_S:g} s)")
    print(f"memory         {found['memory_mib']:.0f} MiB (limit {MEMORY_MAX_MIB:g} MiB)")
    print(f"idle           {found['idle_core']:.2%} of a core (limit {IDLE_CORE_MAX:.0%})")
    print(f"idle writes    {found['idle_writes']:.0f} besides the Lease in {given.idle:g} s (limit 0)")
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=2) + "\n")
    return 0


async def measured(directory: Path, pods: int, nodes: int, idle_s: float) -> dict[str, float]:
    found: dict[str, float] = {}
    with plane_with_nodes(directory / "sterna", audit=True) as plane:
        await prepared(plane, pods, nodes)
        made, seconds = await placed_by_operator(plane, pods)
        found["sterna_per_s"] = pods / seconds
        talk = Talk(plane.access())
        strangers = [stranger(number, nodes) for number in range(pods)]
        await gathered(talk.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body) for body in strangers)
        await talk.close()
        found |= await restarted(plane, idle_s)
    with plane_with_nodes(directory / "bare", audit=True) as plane:
        await prepared(plane, pods, nodes)
        found["bare_per_s"] = pods / await created(plane, await adopted(plane, made), user=USER)
    with plane_with_nodes(directory / "scheduler", scheduler=True) as plane:
        await add_nodes(plane, nodes, gpus=-(-pods // nodes))
        found["kube_scheduler_per_s"] = pods / await scheduled(plane, [_orphan(one, bound=False) for one in made], pods)
    return found


def plane_with_nodes(directory: Path, **more: Any) -> ControlPlane:
    return ControlPlane(find_binaries(), directory, users={USER: ()}, node_lifecycle=False, **more)


async def prepared(plane: ControlPlane, pods: int, nodes: int) -> None:
    """Our kinds, nodes with room for all pods, and the jobs that wait for them."""
    install_crds(plane)
    grant_shipped_rights(plane)
    await add_nodes(plane, nodes, gpus=-(-pods // nodes))
    talk = Talk(plane.access())
    await gathered(talk.ask("POST", JOBS, job(number)) for number in range(pods // WORKERS))
    await talk.close()


async def add_nodes(plane: ControlPlane, count: int, *, gpus: int) -> None:
    make_namespace(plane, NAMESPACE)
    talk = Talk(plane.access())
    room = {"cpu": "64", "memory": "512Gi", "pods": "250", "nvidia.com/gpu": str(gpus)}
    ready = {"type": "Ready", "status": "True", "reason": "Bench", "message": ""}

    async def add(number: int) -> None:
        name = f"node-{number:03d}"
        labels = {"kubernetes.io/hostname": name}
        await talk.ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
        await talk.ask("PATCH", f"/api/v1/nodes/{name}/status", status)

    await gathered(add(number) for number in range(count))
    await talk.close()


def job(number: int) -> Body:
    resources = {"limits": {"cpu": "100m", "nvidia.com/gpu": 1}}
    return {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": f"job-{number:03d}"},
        "spec": {
            "workers": {"min": WORKERS, "max": WORKERS},
            "image": "localhost/none:1",
            "command": ["train"],
            "resources": resources,
        },
    }


def stranger(number: int, nodes: int) -> Body:
    container = {"name": "main", "image": "localhost/none:1", "resources": {"requests": {"cpu": "10m"}}}
    spec = {"nodeName": f"node-{number % nodes:03d}", "containers": [container]}
    return {"metadata": {"name": f"stranger-{number}"}, "spec": spec}


class Noting:
    """An `Api` that notes what is created, and when."""

    def __init__(self, api: Any) -> None:
        self.made: list[Made] = []
        self.first_s = self.last_s = 0.0
        self.pods = 0
        self.enough = asyncio.Event()
        self.wanted = 0
        self._api = api

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._api, verb)

    async def create(self, resource: Resource, body: Body, **named: Any) -> Any:
        if resource in (PODS, SERVICES):
            self.first_s = self.first_s or time.monotonic()
            self.made.append(Made(resource, body))
        answer = await self._api.create(resource, body, **named)
        if resource is PODS:
            self.pods += 1
            self.last_s = time.monotonic()
            if self.pods == self.wanted:
                self.enough.set()
        return answer


async def placed_by_operator(plane: ControlPlane, pods: int) -> tuple[list[Made], float]:
    config = OperatorConfig(
        namespace=NAMESPACE, watch=(NAMESPACE,), elect=False, rate_limit_s=0.0, in_flight=AT_ONCE, policy="fifo"
    )
    async with connect(from_kubeconfig([plane.kubeconfig(USER)])) as client:
        noting = Noting(client)
        noting.wanted = pods
        operator = Operator(config, noting, parse=workload_of_object, read_migration=read_migration)
        running = asyncio.create_task(operator.run())
        async with asyncio.timeout(900):
            await noting.enough.wait()
            while not operator.at_rest:
                await asyncio.sleep(0.1)
        operator.stop()
        await running
    return noting.made, noting.last_s - noting.first_s


async def created(plane: ControlPlane, made: Iterable[Made], *, user: str = "admin") -> float:
    """Seconds for the creates alone."""
    talk = Talk(plane.access(user))
    began_s = time.monotonic()
    await gathered(talk.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/{r.plural}", body) for r, body in made)
    took_s = time.monotonic() - began_s
    await talk.close()
    return took_s


async def scheduled(plane: ControlPlane, made: list[Made], pods: int) -> float:
    """Seconds until the last of them has a node, creation included."""
    began_s = time.monotonic()
    await created(plane, made)
    talk = Talk(plane.access())
    waiting = f"/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=spec.nodeName%3D&limit=1"
    while (await talk.ask("GET", waiting))["items"]:
        await asyncio.sleep(0.1)
    took_s = time.monotonic() - began_s
    await talk.close()
    assert pods == sum(resource is PODS for resource, _ in made)
    return took_s


async def adopted(plane: ControlPlane, made: Iterable[Made]) -> list[Made]:
    """The same objects, owned by the jobs of the same names in this cluster."""
    talk = Talk(plane.access())
    uids = {found["metadata"]["name"]: found["metadata"]["uid"] for found in (await talk.ask("GET", JOBS))["items"]}
    await talk.close()
    return [Made(resource, _owned(body, uids)) for resource, body in made]


def _owned(body: Body, uids: dict[str, str]) -> Body:
    owners = [owner | {"uid": uids[owner["name"]]} for owner in body["metadata"]["ownerReferences"]]
    return {**body, "metadata": {**body["metadata"], "ownerReferences": owners}}


def _orphan(one: Made, *, bound: bool = True) -> Made:
    """Without its owner, whom another cluster does not have and whose absence would be its end."""
    metadata = {key: value for key, value in one.body["metadata"].items() if key != "ownerReferences"}
    body = {**one.body, "metadata": metadata}
    if one.resource is PODS and not bound:
        body["spec"] = {key: value for key, value in body["spec"].items() if key != "nodeName"}
    return Made(one.resource, body)


async def restarted(plane: ControlPlane, idle_s: float) -> dict[str, float]:
    port = free_port()
    command = [sys.executable, "-c", "from sterna.interfaces.cli.main import main; main()", "operator"]
    command += ["--kubeconfig", str(plane.kubeconfig(USER)), "--namespace", NAMESPACE, "--health-port", str(port)]
    began_s = time.monotonic()
    process = subprocess.Popen([*command, "--policy", "fifo"], stderr=subprocess.DEVNULL)
    try:
        while not _cycles(port):
            await asyncio.sleep(0.02)
            assert process.poll() is None, "the operator ended by itself"
        first_s = time.monotonic() - began_s
        await asyncio.sleep(20)  # whatever it does after its first decision is done by then
        operator = psutil.Process(process.pid)
        before, writes = _cpu_s(operator), _writes(plane)
        await asyncio.sleep(idle_s)
        return {
            "first_decision_s": first_s,
            "memory_mib": operator.memory_info().rss / 2**20,
            "idle_core": (_cpu_s(operator) - before) / idle_s,
            "idle_writes": float(_writes(plane) - writes),
        }
    finally:
        process.terminate()
        process.wait()


def _cycles(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return int(json.load(answer)["cycles"])
    except OSError:
        return 0


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _writes(plane: ControlPlane) -> int:
    """All but the Lease, as the API server noted them."""
    reading = ("get", "list", "watch")
    return sum(
        event["verb"] not in reading and event["objectRef"]["resource"] != "leases"
        for event in plane.audited()
        if event["user"].get("username") == USER
    )


async def gathered(works: Iterable[Any]) -> None:
    """`AT_ONCE` at a time, which is what a Talk allows."""
    await asyncio.gather(*works)


if __name__ == "__main__":
    sys.exit(main())
