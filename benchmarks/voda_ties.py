"""What becomes of our testbed runs when placement breaks ties as Voda's did: by chance.

Voda packed jobs in order of size, and jobs of one size in the order in which Go walks a map, another one each time. On
12 GPUs with six jobs of two workers that pairs other jobs on a node after every decision, and whoever changes partner
moves. Ours breaks ties by the id. Here jobs are dealt names by lot before each placement, and their own ones after it.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import NamedTuple

from benchmarks.prepared import prepared
from benchmarks.voda_testbed import testbed_request
from sterna.engines.simulator.simulate import simulate
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot, arrival_order
from sterna.model.target import Target

SEEDS = 40


class Spread(NamedTuple):
    """Average completion times of many runs, and their usual number of migrations."""

    jct_mean_s: float
    jct_deviation_s: float
    migrations: float


def with_ties_by_lot(directory: Path, name: str, *, seeds: int = SEEDS) -> Spread:
    jcts: list[float] = []
    migrations: list[int] = []
    for seed in range(seeds):
        setup = prepared(testbed_request(directory, name))
        summary = simulate(replace(setup, place=_ties_by_lot(setup.place, random.Random(seed)))).summary()
        jcts.append(summary.jct_avg_s)
        migrations.append(summary.migrations)
    return Spread(fmean(jcts), pstdev(jcts), fmean(migrations))


def _ties_by_lot(
    place: Callable[[Snapshot, Target], Layout], chance: random.Random
) -> Callable[[Snapshot, Target], Layout]:
    def placed(view: Snapshot, target: Target) -> Layout:
        true = [job.id for job in view.jobs]
        dealt = dict(zip(true, chance.sample(true, len(true)), strict=True))
        back = {name: job_id for job_id, name in dealt.items()}
        jobs = [job.but(spec=replace(job.spec, id=dealt[job.id])) for job in view.jobs]
        renamed = replace(view, jobs=tuple(sorted(jobs, key=arrival_order)))
        grants = {dealt[job_id]: grant for job_id, grant in target.grants.items()}
        layout = place(renamed, replace(target, grants=grants))
        workers = {back[name]: held for name, held in layout.workers.items()}
        return Layout(workers, {back[name]: because for name, because in layout.becauses.items()})

    return placed
