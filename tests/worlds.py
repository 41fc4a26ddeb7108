"""Builders that keep each row of a test to what matters: `job`, `node`, `cluster`."""

from collections.abc import Iterable, Sequence
from typing import Any

from sterna.model.curves import SpeedupCurve
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import FixedRole, Job, JobSpec, Role, Worker
from sterna.model.nodes import Guest, Node, cards
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import PolicyMemory

GIB = 1 << 30


def node(name: str, *, gpus: int = 0, cpus: int = 64, memory_gib: int = 512, gpu_gib: int = 0, **more: Any) -> Node:
    """A node with `gpus` whole cards; further fields of `Node` by name."""
    more.setdefault("accelerator", "gpu" if gpus else "")
    return Node(
        id=NodeId(name),
        allocatable=Resources(cpus * 1000, memory_gib * GIB, gpus * 1000, gpus * gpu_gib * GIB),
        devices=cards(gpus, memory_bytes=gpu_gib * GIB),
        **more,
    )


def job(
    name: str,
    *,
    needs: int | None = None,
    at_least: int = 1,
    at_most: int | None = None,
    initial: int | None = None,
    step: int = 1,
    gpus_each: float = 1,
    cpus_each: float = 0,
    ps: int = 0,
    ps_cpus: float = 0,
    submitted_s: float = 0.0,
    left: float | None = None,
    speedups: Sequence[float] | None = None,
    holds: Iterable[Worker] = (),
    on: Sequence[str] = (),
    spec: dict[str, Any] | None = None,
    **state: Any,
) -> Job:
    """A job. `needs=n` makes it rigid; `on=["a", "a", "b"]` gives it workers 0.. there and lets it run."""
    if needs is not None:
        at_least = at_most = initial = needs
    at_most = max(at_least, at_most if at_most is not None else at_least)
    fixed = (FixedRole(Role.PS, ps, Resources(int(ps_cpus * 1000))),) if ps else ()
    held = tuple(holds) or tuple(Worker(Role.WORKER, index, NodeId(name)) for index, name in enumerate(on))
    if held:
        state.setdefault("phase", Phase.RUNNING)
        state.setdefault("started_s", submitted_s)
        state.setdefault("first_started_s", submitted_s)
    else:
        state.setdefault("waiting_since_s", submitted_s)
    curve = SpeedupCurve.from_speedups(speedups) if speedups else SpeedupCurve.linear(at_most)
    return Job(
        spec=JobSpec(
            id=JobId(name),
            submitted_s=submitted_s,
            request=Resources(cpu_milli=int(cpus_each * 1000), gpu_milli=int(gpus_each * 1000)),
            workers_min=at_least,
            workers_max=at_most,
            workers_initial=initial if initial is not None else at_least,
            workers_step=step,
            fixed=fixed,
            **(spec or {}),
        ),
        workers=held,
        units_left=left,
        curve=curve,
        **state,
    )


def cluster(
    *,
    jobs: Iterable[Job] = (),
    gpus: int = 0,
    nodes: Iterable[Node] = (),
    now_s: float = 0.0,
    memory: PolicyMemory | None = None,
    serving: Iterable[Guest] = (),
) -> Snapshot:
    """A snapshot. `gpus=n` is one node with n cards, for tests that do not care where."""
    there = tuple(nodes) or (node("n1", gpus=gpus),)
    return Snapshot.of(now_s=now_s, nodes=there, jobs=jobs, memory=memory, serving=serving)
