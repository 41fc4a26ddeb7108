"""Who waits although all minimums fit: small worlds in which a joint packing exists, by policy and placement.

    python -m benchmarks.packing [--worlds 300] [--seed 0]

Worlds: two to four nodes of 2, 4 or 8 GPUs with 8, 16 or 32 CPUs; three to six jobs that all wait, of 1 to 4 workers
at least and up to 4 more, each worker with 1 or 2 GPUs and 0 to 4 CPUs, a quarter of them with one or two parameter
servers of 1 or 2 CPUs. Counted are worlds whose minimums fit jointly, by trying every way, and that hold between a half
and all of the GPUs, since loose ones tell nothing. A cell is the number of them in which somebody waits once nothing
changes any more.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.decision import carried_out
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import FixedRole, Job, JobSpec, Role
from sterna.model.nodes import Node, cards
from sterna.model.resources import Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.frame import frame_of
from sterna.placement.room import Room
from sterna.placement.strategies import placement
from sterna.planner.decide import decide
from sterna.policies.registry import policy

POLICIES = ("fifo", "elastic-fifo")
PLACEMENTS = ("packed", "repack", "widest", "spread")
CYCLES = 8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=300, help="worlds to draw; fewer than half of them count")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    worlds = list(tight_worlds(arguments.seed, arguments.worlds))
    print(f"{len(worlds)} of {arguments.worlds} worlds are tight and can hold all minimums")
    print("somebody waits   " + "".join(f"{name:>10}" for name in PLACEMENTS))
    for name in POLICIES:
        counts = [sum(somebody_waits(view, name, where) for view in worlds) for where in PLACEMENTS]
        print(f"{name:17}" + "".join(f"{count:10}" for count in counts))
    return 0


def tight_worlds(seed: int, count: int) -> Iterator[Snapshot]:
    for number in range(seed, seed + count):
        view = world(random.Random(number))
        asked = sum(job.spec.min_request.gpu_milli for job in view.jobs)
        if view.capacity // 2 <= asked <= view.capacity and all_minimums_fit(view):
            yield view


def world(chance: random.Random) -> Snapshot:
    nodes = []
    for number in range(chance.randint(2, 4)):
        gpus = chance.choice([2, 4, 8])
        amounts = Resources(chance.choice([8, 16, 32]) * 1000, 64 << 30, gpus * 1000)
        nodes.append(Node(id=NodeId(f"n{number}"), allocatable=amounts, accelerator="gpu", devices=cards(gpus)))
    return Snapshot.of(now_s=0.0, nodes=nodes, jobs=[_job(chance, number) for number in range(chance.randint(3, 6))])


def _job(chance: random.Random, number: int) -> Job:
    least = chance.randint(1, 4)
    servers = FixedRole(Role.PS, chance.randint(1, 2), Resources(chance.randint(1, 2) * 1000))
    spec = JobSpec(
        id=JobId(f"j{number}"),
        submitted_s=float(number),
        request=Resources(chance.randint(0, 4) * 1000, 0, chance.choice([1000, 1000, 2000])),
        workers_min=least,
        workers_max=least + chance.randint(0, 4),
        workers_initial=least,
        fixed=(servers,) if chance.random() < 0.25 else (),
    )
    return Job(spec=spec, waiting_since_s=spec.submitted_s)


def all_minimums_fit(view: Snapshot) -> bool:
    """Is there a packing of all minimums at once? Every way is tried: first workers on the lowest nodes first."""
    gangs = [
        (request, count)
        for job in view.jobs
        for request, count in (
            *((role.request, role.replicas) for role in job.spec.fixed),
            (job.spec.request, job.spec.workers_min),
        )
    ]
    gangs.sort(key=lambda gang: (-gang[0].gpu_milli, -gang[0].cpu_milli))
    room = Room.empty(frame_of(view.cluster))
    dead: set[tuple[object, ...]] = set()

    def fit(gang: int, left: int, first: int) -> bool:
        if left == 0:
            return gang + 1 == len(gangs) or fit(gang + 1, gangs[gang + 1][1], 0)
        state = (gang, left, first, tuple(room.cpu), tuple(room.gpus))
        if state in dead:
            return False
        request = gangs[gang][0]
        for at in range(first, len(room.cpu)):
            if room.slots_at(at, request):
                devices = room.take(at, request)
                found = fit(gang, left - 1, at)
                room.give(at, request, devices)
                if found:
                    return True
        dead.add(state)
        return False

    return fit(0, gangs[0][1], 0)


def somebody_waits(view: Snapshot, name: str, where: str) -> bool:
    chosen, place = policy(name), placement(where)
    for _ in range(CYCLES):
        view = carried_out(replace(view), decide(view, chosen, place))
    return any(not job.workers for job in view.jobs)


if __name__ == "__main__":
    sys.exit(main())
