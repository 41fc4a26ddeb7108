"""What no plan does, whatever the world and the policy. Worlds come from seeds; a failure names its seed."""

import os

import pytest
from tests.oracle.worlds import small_world
from tests.random_worlds import changed, churned, random_world, shares_by_card, used_by_node

from sterna.model.ids import JobId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.plan import Decision, Grow, Shrink
from sterna.model.snapshot import Snapshot
from sterna.placement.strategies import placement
from sterna.planner.decide import Settings, decide
from sterna.policies.registry import ENTRIES, policy

WORLDS = int(os.environ.get("STERNA_WORLDS", "80"))  # `make soak` asks for 10,000
BATCHES = 4
VARIANTS = [
    *((entry.name, {}) for entry in ENTRIES),
    *(("dragon", {"variant": variant}) for variant in ("balanced", "erudite", "prototype")),
    ("afs-l", {"variant": "voda"}),
    ("tiresias", {"promotion": "voda"}),
    ("elastic-tiresias", {"promotion": "voda"}),
    ("elastic-fifo", {"variant": "afs"}),
]
PLACEMENTS = ("packed", "repack", "widest", "widest-smallest-first", "spread")
WORLD = pytest.mark.parametrize("world", [random_world, small_world], ids=["random", "mixed"])


def names(case: tuple[str, dict[str, str]]) -> str:
    name, settings = case
    return "-".join([name, *settings.values()])


@WORLD
@pytest.mark.parametrize("batch", range(BATCHES), ids=lambda batch: f"batch {batch}")
@pytest.mark.parametrize("case", VARIANTS, ids=names)
def test_dragon_48_no_plan_breaks_a_promise(case, batch, world):
    """Row 48 and S1: no node overfull, sizes within bounds, worker 0 and fixed roles kept, at every step."""
    chosen = policy(*case)
    for seed in range(batch, WORLDS, BATCHES):
        view = world(seed)
        check(view, decide(view, chosen, placement(chosen.placement), _settings(seed)), seed)
        later = churned(_after(view, decide(view, chosen, placement(chosen.placement))), seed)
        check(later, decide(later, chosen, placement(chosen.placement), _settings(seed)), seed)


@WORLD
@pytest.mark.parametrize("where", PLACEMENTS)
def test_dragon_48_other_placements_keep_the_promises_too(where, world):
    chosen = policy("elastic-fifo")
    for seed in range(WORLDS):
        view = world(seed)
        check(view, decide(view, chosen, placement(where)), seed)


def _settings(seed: int) -> Settings:
    return Settings(starving_after_s=60.0 if seed % 3 == 0 else None)


def check(view: Snapshot, decision: Decision, seed: int) -> None:
    """Walk through the plan as an engine would, and look at the world after every step."""
    jobs = view.by_id
    holds: dict[JobId, tuple[Worker, ...]] = {}
    leaving = {job.id: job.leaving for job in view.jobs}
    fine_before = not _overfull(view, view.jobs)
    assert decision.wake_s is None or decision.wake_s > view.now_s, f"seed {seed}: a moment that is past"
    for step in decision.steps:
        if step.after_release:
            leaving = {}
        for action in step.actions:
            job = jobs[action.job_id]
            before = holds.get(job.id, job.workers)
            if isinstance(action, Shrink):
                assert set(action.to) < set(before), f"seed {seed}: a shrink that lets nothing go"
                gone = tuple(worker for worker in before if worker not in action.to)
                leaving[job.id] = leaving.get(job.id, ()) + gone
            else:
                assert isinstance(action, Grow)
                assert set(before) < set(action.to), f"seed {seed}: growth that drops a worker or adds none"
            assert action.because.sentence
            holds[job.id] = action.to
        after = tuple(job.but(leaving=leaving.get(job.id, ())) for job in changed(view, holds))
        if fine_before:
            assert not _overfull(view, after), f"seed {seed}: overfull after {step}"
    for job in changed(view, holds):
        _check_job(view, job, seed)


def _check_job(view: Snapshot, job, seed: int) -> None:
    spec = job.spec
    if not job.workers:
        return
    assert job.phase is not Phase.SUSPENDED, f"seed {seed}: {job.id} is suspended and holds workers"
    assert spec.workers_min <= job.size <= spec.workers_max, f"seed {seed}: {job.id} holds {job.size}"
    assert (job.size - spec.workers_min) % spec.workers_step == 0, f"seed {seed}: {job.id} is between two sizes"
    fixed = [(worker.role, worker.ordinal) for worker in job.workers if worker.role is not Role.WORKER]
    assert sorted(fixed) == sorted((role.role, n) for role in spec.fixed for n in range(role.replicas))
    before = view.by_id[job.id]
    if before.size and job.size < before.size and set(job.workers) <= set(before.workers):
        first = min((w for w in before.workers if w.role is Role.WORKER), key=lambda w: w.ordinal)
        node = view.cluster.by_id.get(first.node)
        if node is not None and node.keeps(spec.tolerations):
            assert first in job.workers, f"seed {seed}: worker 0 of {job.id} went"
    for worker in job.workers:
        node = view.cluster.by_id[worker.node]
        assert spec.accelerator in (None, node.accelerator), f"seed {seed}: {job.id} is in another pool"
        if worker not in before.workers:
            assert node.admits(spec.demands), f"seed {seed}: {job.id} does not belong on {node.id}"
        else:
            assert node.keeps(spec.tolerations), f"seed {seed}: {job.id} stays on {node.id}"


def _overfull(view: Snapshot, jobs) -> list[str]:
    wrong = []
    for node_id, used in used_by_node(jobs).items():
        node = view.cluster.by_id.get(node_id)
        if node is None or not node.ready:
            continue  # whatever is there is lost with it
        room = node.free_of_guests
        wrong += [f"{node_id}: {have}" for have, take in zip(room[:3], used[:3], strict=True) if take > have]
    wrong += [f"{card}: {milli}" for card, milli in shares_by_card(jobs).items() if milli > 1000]
    return wrong


def _after(view: Snapshot, decision: Decision) -> Snapshot:
    """The world once the plan is carried out."""
    jobs = []
    for job in view.jobs:
        workers = decision.layout.workers_of(job.id)
        phase = job.phase if job.phase is Phase.SUSPENDED else Phase.RUNNING if workers else Phase.WAITING
        started_s = (job.started_s if job.workers else view.now_s) if workers else None
        waiting_s = None if workers else job.waiting_since_s if job.waiting_since_s is not None else view.now_s
        first_s = job.first_started_s if job.first_started_s is not None else started_s
        jobs.append(
            job.but(
                workers=workers,
                leaving=(),
                phase=phase,
                started_s=started_s,
                waiting_since_s=waiting_s,
                first_started_s=first_s,
            )
        )
    return Snapshot.of(now_s=view.now_s, nodes=view.nodes, jobs=jobs, memory=decision.memory, revision=2)


@pytest.mark.parametrize("case", VARIANTS, ids=names)
def test_dragon_50_the_same_world_in_any_order_gives_the_same_plan(case):
    import random

    chosen = policy(*case)
    for seed in range(12):
        view = random_world(seed)
        expected = decide(view, chosen, placement(chosen.placement))
        chance = random.Random(seed)
        for _ in range(8):
            jobs, nodes = list(view.jobs), list(view.nodes)
            chance.shuffle(jobs)
            chance.shuffle(nodes)
            again = Snapshot.of(now_s=view.now_s, nodes=nodes, jobs=jobs, memory=view.memory, revision=view.revision)
            assert decide(again, chosen, placement(chosen.placement)) == expected
