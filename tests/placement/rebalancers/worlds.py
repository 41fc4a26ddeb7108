"""Small worlds for rebalancers, and a clock: cycles of the core with nobody between it and the world."""

from collections.abc import Iterable, Mapping
from typing import Any

from sterna.model.considering import ConsideredMove
from sterna.model.growth import Category, Growth
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.nodes import Node
from sterna.model.plan import Decision
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant, PolicyMemory, Target
from sterna.model.why import KEPT
from sterna.placement.packed import packed
from sterna.placement.rebalancers.registry import rebalancing
from sterna.planner.decide import Settings, decide
from tests.worlds import GIB, cluster, job, node

CONVERGED = Growth(Category.CONVERGED, 0.01)
PROGRESSING = Growth(Category.PROGRESSING, 0.9)
WATCHING = Growth(Category.WATCHING, 0.05)


def small_node(name: str, **more: Any) -> Node:
    """As container-migration's: four CPUs, 16 GiB."""
    return node(name, cpus=4, memory_gib=16, **more)


def task(name: str, *on: str, growth: Growth | None = None, left: float | None = 1000.0, **more: Any) -> Job:
    """A job of CPU workers that ask for nothing and share what there is, as SpeCon's do."""
    more.setdefault("gpus_each", 0)
    return job(name, needs=len(on), on=on, growth=growth, left=left, **more)


def limited(name: str, *on: str, cpus: float, memory_gib: float, left: float | None = 1000.0, **more: Any) -> Job:
    """A job whose workers may use so much, and ask for a little of it."""
    spec = {"limit": Resources(int(cpus * 1000), int(memory_gib * GIB)), **more.pop("spec", {})}
    return task(name, *on, left=left, cpus_each=0.25, spec=spec, **more)


def hold(view: Snapshot) -> Target:
    """A policy that leaves every job what it has: what moves is the rebalancers' doing."""
    return Target({job.id: Grant(job.size, job.spec.workers_min, KEPT) for job in view.jobs if job.size})


def look(view: Snapshot, *names: str, **settings: object) -> Decision:
    """One decision with these rebalancers; `specon__round_s=5` is the setting `specon.round-s=5`."""
    written = {key.replace("__", ".").replace("_", "-"): str(value) for key, value in settings.items()}
    return decide(view, hold, packed, Settings(rebalance=rebalancing(names, written)))


def after(view: Snapshot, decision: Decision, *, at_s: float, jobs: Mapping[str, Mapping[str, Any]] = {}) -> Snapshot:
    """The world once the plan is carried out and time has passed; `jobs` says what else changed."""
    moved = [
        each.but(
            **{
                "workers": decision.layout.workers_of(each.id),
                "units_left": each.units_left_at(at_s) if each.units_left is not None else None,
                "as_of_s": at_s,
                **jobs.get(each.id, {}),
            }
        )
        for each in view.jobs
    ]
    return Snapshot.of(now_s=at_s, nodes=view.nodes, jobs=moved, memory=decision.memory, usage=view.usage)


def rows(moves: Iterable[ConsideredMove]) -> list[tuple[str, str, str]]:
    """As SpeCon's log has them: job, original node, target; empty where it stays."""
    return [(move.job_id, move.worker.node, move.to or "") for move in moves]


def nodes_of(decision: Decision, job_id: str) -> list[str]:
    return [worker.node for worker in decision.layout.workers_of(JobId(job_id))]


def world(
    nodes: Iterable[Node], jobs: Iterable[Job], *, now_s: float = 100.0, memory: PolicyMemory | None = None
) -> Snapshot:
    counted = [each.but(as_of_s=now_s) for each in jobs]
    return cluster(nodes=nodes, jobs=counted, now_s=now_s, memory=memory)
