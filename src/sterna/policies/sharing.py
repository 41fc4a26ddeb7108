"""Ways of sharing room out that several policies have in common. Each takes jobs in the policy's own order.

Amounts are in the pool's currency. A job's fixed roles are paid for together with its first worker.
"""

from collections.abc import Callable, Iterable, Sequence

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.resources import Currency
from sterna.model.snapshot import Snapshot
from sterna.model.target import Grant
from sterna.model.why import NEXT_IN_ORDER, SPARE_ROOM


def contenders(view: Snapshot) -> list[Job]:
    """Jobs that take part in sharing out, by (submission, id)."""
    return [job for job in view.jobs if job.wants_workers]


def price(job: Job, workers: int, currency: Currency) -> int:
    """What so many workers of this job cost, fixed roles included."""
    if workers <= 0:
        return 0
    spec = job.spec
    cost = spec.request[currency] * workers
    return cost + spec.fixed_request[currency] if spec.fixed else cost


def whole_or_nothing(
    order: Iterable[Job], room: int, currency: Currency, size_of: Callable[[Job], int], *, strict: bool = False
) -> tuple[dict[JobId, Grant], int]:
    """Give each job in turn `size_of(job)` workers if they fit, else nothing; returns the grants and what is left.

    With `strict` the first job that does not fit blocks all behind it.
    """
    grants: dict[JobId, Grant] = {}
    for job in order:
        workers = size_of(job)
        cost = price(job, workers, currency)
        if cost <= room:
            grants[job.spec.id] = Grant(workers, workers, NEXT_IN_ORDER)
            room -= cost
        elif strict:
            break
    return grants, room


def spread_spare_room(order: Sequence[Job], grants: dict[JobId, Grant], room: int, currency: Currency) -> int:
    """Round robin over the jobs that hold a grant, one step each, until nobody can take more; changes `grants`.

    Returns what is left. Sweeps in which everybody gets one step are taken at once, so the cost is that of the
    distinct sizes rather than of the room.
    """
    growing = [job for job in order if job.spec.id in grants and _may_grow(job, grants[job.spec.id])]
    while growing and room > 0:
        sweep = sum(job.spec.request[currency] * job.spec.workers_step for job in growing)
        shortest = min((job.spec.workers_max - grants[job.spec.id].workers) // job.spec.workers_step for job in growing)
        rounds = max(1, min(shortest, room // sweep)) if sweep else shortest
        affordable = sweep * rounds <= room
        still: list[Job] = []
        for job in growing:
            spec = job.spec
            step = spec.workers_step * (rounds if affordable else 1)
            cost = spec.request[currency] * step
            if cost > room:
                continue  # it leaves the round: the room never grows again
            workers, floor, _ = grants[spec.id]
            grants[spec.id] = Grant(workers + step, floor, SPARE_ROOM)
            room -= cost
            if _may_grow(job, grants[spec.id]):
                still.append(job)
        growing = still
    return room


def _may_grow(job: Job, grant: Grant) -> bool:
    return grant.workers + job.spec.workers_step <= job.spec.workers_max
