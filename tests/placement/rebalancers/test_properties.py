"""What no rebalancer does over many cycles, whatever the curves and loads: ping-pong, too many moves, overfull nodes.

A world is made from one seed and lived through with a clock of its own; a failure names its seed.
"""

import os
import random
from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from sterna.model.growth import Category, Growth
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Role
from sterna.model.nodes import Taint
from sterna.model.plan import Decision, Shrink
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.packed import packed
from sterna.placement.rebalancers.registry import REBALANCERS, rebalancing
from sterna.planner.decide import Settings, decide
from tests.placement.rebalancers.worlds import after, hold, small_node, task
from tests.random_worlds import used_by_node
from tests.worlds import GIB
from tests.worlds import job as made_job

WORLDS = int(os.environ.get("STERNA_WORLDS", "200")) // 10  # `make soak` asks for many more
CYCLES = 60
HOUR_S, COOLDOWN_S, MOVES_PER_HOUR = 3600.0, 400.0, 3
SETTINGS = {
    "budget.cooldown-s": str(COOLDOWN_S),
    "budget.moves-per-hour": str(MOVES_PER_HOUR),
    "budget.moves-per-worker": "0",
    "imbalance.gap": "0.01",
    "imbalance.two-nodes-gap": "0.1",
}
EVERYONE = tuple(entry.name for entry in REBALANCERS)
CASES = [*((name,) for name in EVERYONE), EVERYONE]


@dataclass
class History:
    """What was seen of every worker and every job, by looking at where workers are and not at what was promised."""

    left_s: dict[tuple[JobId, Role, int, NodeId], float] = field(default_factory=dict)
    moved_s: dict[JobId, list[float]] = field(default_factory=lambda: defaultdict(list))

    def note(self, view: Snapshot, decision: Decision) -> None:
        for job in view.jobs:
            now = {(worker.role, worker.ordinal): worker.node for worker in decision.layout.workers_of(job.id)}
            moved = [worker for worker in job.workers if now[worker.role, worker.ordinal] != worker.node]
            for worker in moved:
                to = now[worker.role, worker.ordinal]
                left_s = self.left_s.get((job.id, worker.role, worker.ordinal, to))
                assert left_s is None or view.now_s - left_s >= COOLDOWN_S, f"{job.id} is back on {to} too soon"
                self.left_s[job.id, worker.role, worker.ordinal, worker.node] = view.now_s
            disruptions = min(1, len(moved)) if job.spec.restarts_on_resize else len(moved)
            self.moved_s[job.id] += [view.now_s] * disruptions
            lately = [at_s for at_s in self.moved_s[job.id] if at_s > view.now_s - HOUR_S]
            assert len(lately) <= MOVES_PER_HOUR, f"{job.id} was moved {len(lately)} times within an hour"
            if not job.spec.restarts_on_resize:
                assert all(worker.role is Role.WORKER for worker in moved), f"{job.id} lost what holds its state"


@pytest.mark.parametrize("names", CASES, ids="+".join)
@pytest.mark.parametrize("mode", ["full", "off"])
def test_no_ping_pong_no_more_moves_than_budgeted_and_nothing_overfull(names, mode):
    total = 0
    for seed in range(WORLDS):
        chance, history = random.Random(f"{names}{mode}{seed}"), History()
        said = {key: value for key, value in SETTINGS.items() if key.partition(".")[0] in (*names, "budget")}
        settings = Settings(rebalance=rebalancing(names, {**said, "cost.mode": mode}))
        view = first_world(chance)
        for _ in range(CYCLES):
            decision = decide(view, hold, packed, settings)
            assert_never_overfull(view, decision, f"seed {seed}")
            history.note(view, decision)
            assert decision.wake_s is None or decision.wake_s > view.now_s
            view = next_world(chance, view, decision)
        total += sum(map(len, history.moved_s.values()))
    assert total > 0  # a rebalancer that never moves anything keeps every promise


def first_world(chance: random.Random) -> Snapshot:
    nodes = [small_node(f"n{number}") for number in range(chance.randint(2, 5))]
    jobs = [random_job(chance, number, [node.id for node in nodes]) for number in range(chance.randint(2, 12))]
    jobs.append(made_job("waiting", needs=1, gpus_each=0, cpus_each=chance.choice([3, 3.5, 4]), submitted_s=900.0))
    view = Snapshot.of(now_s=1000.0, nodes=nodes, jobs=jobs)
    return Snapshot.of(now_s=1000.0, nodes=nodes, jobs=fitting(view))


def random_job(chance: random.Random, number: int, nodes: list[NodeId]) -> Job:
    home = chance.choice(nodes[:2])  # most of them pile up
    where = [home if chance.random() < 0.7 else chance.choice(nodes) for _ in range(chance.randint(1, 3))]
    spec = {
        "limit": Resources(chance.choice([0, 1000, 4000]), chance.choice([0, 2, 8]) * GIB),
        "restarts_on_resize": chance.random() < 0.25,
    }
    ps = chance.random() < 0.2
    made = task(
        f"j{number:02}",
        *where,
        growth=random_growth(chance),
        left=chance.choice([None, 30.0, 900.0, 9000.0]),
        submitted_s=float(number),
        cpus_each=chance.choice([0, 0, 0.5, 1.0]),
        ps=int(ps),
        ps_cpus=0.25,
        spec=spec,
        as_of_s=1000.0,
        checkpoint_s=chance.choice([0.0, 2.0]),
        restart_s=chance.choice([0.0, 5.0]),
    )
    if ps:
        made = made.but(workers=(made.workers[0]._replace(role=Role.PS), *made.workers))
    return made


def random_growth(chance: random.Random) -> Growth | None:
    return chance.choice(
        [None, Growth(), Growth(Category.WATCHING), Growth(Category.CONVERGED), Growth(Category.CONVERGED)]
    )


def fitting(view: Snapshot) -> list[Job]:
    """Those of the jobs that fit beside the ones before them: a world begins with no node overfull."""
    kept: list[Job] = []
    for job in view.jobs:
        used = used_by_node((*kept, job))
        room = {node.id: node.allocatable for node in view.nodes}
        if all(
            take <= have
            for name, used_there in used.items()
            for take, have in zip(used_there[:3], room[name][:3], strict=True)
        ):
            kept.append(job)
    return kept


def next_world(chance: random.Random, view: Snapshot, decision: Decision) -> Snapshot:
    """A while later: the plan is carried out, models grow or converge, loads and nodes change, jobs end and come."""
    later_s = view.now_s + chance.choice([1.0, 3.0, 10.0, 30.0, 200.0])
    view = after(view, decision, at_s=later_s)
    jobs = [
        job.but(growth=random_growth(chance)) if chance.random() < 0.3 else job
        for job in view.jobs
        if chance.random() > 0.02
    ]
    nodes = list(view.nodes)
    if chance.random() < 0.2:  # somebody closes a node, or opens it again
        at = chance.randrange(len(nodes))
        taints = () if nodes[at].taints else (Taint("closed"),)
        nodes[at] = small_node(nodes[at].id, taints=taints)
    if chance.random() < 0.1:
        jobs.append(random_job(chance, 50 + int(later_s) % 1000, [node.id for node in nodes]))
    usage = {node.id: Resources(chance.randint(0, 4000), chance.randint(0, 16) * GIB) for node in nodes}
    ordered = {job.id: job for job in jobs}
    draft = Snapshot.of(now_s=later_s, nodes=nodes, jobs=ordered.values(), memory=view.memory, usage=usage)
    return Snapshot.of(now_s=later_s, nodes=nodes, jobs=fitting(draft), memory=view.memory, usage=usage)


def assert_never_overfull(view: Snapshot, decision: Decision, where: str) -> None:
    """At every step, with those that are on their way out still there."""
    holds = {job.id: job.workers for job in view.jobs}
    going = {job.id: job.leaving for job in view.jobs}
    for step in decision.steps:
        if step.after_release:
            going = dict.fromkeys(going, ())
        for action in step.actions:
            if isinstance(action, Shrink):
                gone = tuple(worker for worker in holds[action.job_id] if worker not in action.to)
                going[action.job_id] += gone
            holds[action.job_id] = action.to
        jobs = [job.but(workers=holds[job.id], leaving=going[job.id]) for job in view.jobs]
        for name, used in used_by_node(tuple(jobs)).items():
            have = view.cluster.by_id[name].allocatable
            assert all(take <= there for take, there in zip(used[:3], have[:3], strict=True)), f"{where}: {name}"
