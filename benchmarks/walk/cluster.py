"""The walk of the Kubernetes engine: an ElasticJob is created in a real API server, until its pod is created there.

`sterna operator` is recorded, elected, before nodes without kubelets. The walk begins when the object is sent, and ends
when the API server receives the request that creates its pod, by its own audit log. All of it is the part `engine`.
"""

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.binaries import find_binaries
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import install_crds, make_namespace
from tests.cluster.ports import free_port
from tests.cluster.requests import ApiError
from tests.cluster.talking import Talk
from tests.kubernetes.rights import USER, grant_shipped_rights

from benchmarks.walk import recorder
from benchmarks.walk.account import Notes, Visit, Walk, Window, walk_of

TITLE = "From an API object to a created pod"
_OWN = "sterna-system"  # the operator's: jobs are refused there
_NAMESPACE = "walk"
_JOBS = f"/apis/sterna.dev/v1alpha1/namespaces/{_NAMESPACE}/elasticjobs"
_PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_POD_CREATED = ("create", "pods", None)  # verb, kind, part of it
_WITHIN_S = 120.0


def cluster_walk(directory: Path, *, jobs: int, idle_s: float) -> Walk:
    """Jobs one after the other in a control plane below `directory`; the operator is watched idle first."""
    plane = ControlPlane(find_binaries(), directory / "plane", users={USER: ()}, node_lifecycle=False, audit=True)
    with plane:
        install_crds(plane)
        grant_shipped_rights(plane)
        for namespace in (_OWN, _NAMESPACE):
            make_namespace(plane, namespace)
        return asyncio.run(_played(plane, directory / "notes", jobs, idle_s))


async def _played(plane: ControlPlane, notes: Path, jobs: int, idle_s: float) -> Walk:
    talk = Talk(plane.access())
    await _add_node(talk)
    port = free_port()
    operator = _started(notes, "operator", "--kubeconfig", str(plane.kubeconfig(USER)), "--namespace", _OWN,
                        "--health-port", str(port), "--log-level", "error")  # fmt: skip
    try:
        await _until(partial(_answers, port), "the operator is ready", operator)
        ready_s = time.time()
        await asyncio.sleep(idle_s)
        idle, windows = Window(ready_s, time.time()), []
        for number in range(jobs):
            began_s = time.time()
            await talk.ask("POST", _JOBS, _job(f"walker-{number}"))
            await _until(partial(_created, plane, number + 1), "a pod is created", operator)
            windows.append(Window(began_s, _pods_created_s(plane)[number]))
            await talk.ask("DELETE", f"{_JOBS}/walker-{number}")
            await talk.ask("DELETE", f"{_PODS}?gracePeriodSeconds=0")  # which a kubelet would do
            await _gone(talk, f"{_JOBS}/walker-{number}")
            await asyncio.sleep(idle_s / 2)  # until all that follows is done
    finally:
        operator.terminate()
        operator.wait(_WITHIN_S)
        await talk.close()
    parts = [_everything] * len(windows)
    return walk_of(TITLE, Notes.read(notes), windows, parts, idle=idle, judged="engine")


def _everything(_: Visit) -> str:
    return "engine"


async def _add_node(talk: Talk) -> None:
    room = {"cpu": "64", "memory": "512Gi", "pods": "250", "nvidia.com/gpu": "1"}
    ready = {"type": "Ready", "status": "True", "reason": "Walk", "message": ""}
    labels = {"kubernetes.io/hostname": "node"}
    await talk.ask("POST", "/api/v1/nodes", {"metadata": {"name": "node", "labels": labels}})
    status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
    await talk.ask("PATCH", "/api/v1/nodes/node/status", status)


def _job(name: str) -> dict[str, Any]:
    main = {"name": "main", "image": "localhost/none:1", "command": ["sleep", "600"]}
    container = {**main, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"workers": {"min": 1, "max": 1}, "template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "sterna.dev/v1alpha1", "kind": "ElasticJob", "metadata": {"name": name}, "spec": spec}


def _started(notes: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, recorder.__file__, str(notes), "sterna", *arguments]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": recorder.SOURCE})


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _created(plane: ControlPlane, count: int) -> bool:
    return len(_pods_created_s(plane)) >= count


def _pods_created_s(plane: ControlPlane) -> list[float]:
    """When the API server received the requests of the operator that create pods."""
    return sorted(
        datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        for event in plane.audited()
        if (about := event.get("objectRef")) is not None  # probes are about no object
        and (event["verb"], about["resource"], about.get("subresource")) == _POD_CREATED
    )


async def _gone(talk: Talk, path: str) -> None:
    until_s = time.monotonic() + _WITHIN_S
    while time.monotonic() < until_s:
        try:
            await talk.ask("GET", path)
        except ApiError as error:
            if error.status == 404:
                return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"{path} is still there")


async def _until(holds: Callable[[], bool], what: str, operator: "subprocess.Popen[bytes]") -> None:
    until_s = time.monotonic() + _WITHIN_S
    while not holds():
        if operator.poll() is not None or time.monotonic() > until_s:
            raise RuntimeError(f"not within {_WITHIN_S:g} s: {what}")
        await asyncio.sleep(0.1)
