"""Where what was granted and what was seated disagree, and the world as it is asked about again after that."""

from collections.abc import Mapping, Set
from dataclasses import replace

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.layout import Layout
from sterna.model.snapshot import Snapshot
from sterna.model.target import Target


def stranded(target: Target, layout: Layout) -> list[JobId]:
    """Jobs that were granted workers and found no nodes, in the policy's order."""
    grants, placed = target.grants, layout.workers
    if len(placed) >= len(grants) and all(placed.values()):
        return []  # the common case, and a cheap one
    return [job_id for job_id, grant in grants.items() if grant.workers > 0 and not placed.get(job_id)]


def short_of_grant(view: Snapshot, target: Target, layout: Layout) -> dict[JobId, int]:
    """Sizes of jobs that were seated with less than their grant, where others could use what they cannot."""
    jobs, placed, currency = view.by_id, layout.workers, view.currency
    sizes: dict[JobId, int] = {}
    for job_id, (workers, floor, _) in target.grants.items():
        if floor < workers and (there := placed.get(job_id)):
            spec = jobs[job_id].spec
            size = len(there) - spec.fixed_count if spec.fixed else len(there)
            if size < workers and spec.request[currency]:
                sizes[job_id] = size
    if not sizes or len(target.grants) < len(view.wanting):
        return sizes
    for job_id, grant in target.grants.items():
        if job_id not in sizes and grant.workers < jobs[job_id].spec.size_largest:
            return sizes
    return {}  # no other job has a use for it


def narrowed(view: Snapshot, gone: Set[JobId], sizes: Mapping[JobId, int]) -> Snapshot:
    """The same world without some jobs, whose room counts as free, and with smaller maximums for others."""
    return replace(
        view,
        jobs=tuple(
            at_most(job, sizes[job.spec.id]) if job.spec.id in sizes else job
            for job in view.jobs
            if job.spec.id not in gone
        ),
    )


def at_most(job: Job, size: int) -> Job:
    """The same job, were this the largest size that its owner asked for."""
    spec = job.spec
    return job.but(spec=replace(spec, workers_max=size, workers_initial=min(spec.workers_initial, size)))
