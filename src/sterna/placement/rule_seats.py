"""Seats for one job beside pods that rules relate it to: worker by worker, each where all rules allow it.

A greedy walk first: fixed roles, then as many elastic workers as the grant says. Of the nodes that are open and have
room, those come first whose domains hold fewest of what a spread counts, then the job's own nodes, then those that its
owner likes, then the tightest that takes all the rest. Where workers must be together, each domain is tried. If that
seats less than the job needs, its least size is searched for with backtracking, `STEPS_MAX` steps at most.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.neighbours import PlacedPod
from sterna.model.target import Grant
from sterna.placement.packing import free_ordinals, numbered
from sterna.placement.room import Room
from sterna.placement.shrinking import is_elastic, shrunk
from sterna.placement.tenants import Bools, Gate, Ints, Tenants, node_positions

DOMAINS_MAX = 64  # that are tried one by one where workers must be together
STEPS_MAX = 300  # workers put down in the search for the least size
_BRANCHES_MAX = 16  # nodes that are tried for one worker

Member = tuple[Role, int]


def seated_by_rules(
    room: Room, tenants: Tenants, spec: JobSpec, kept: tuple[Worker, ...], grant: Grant, *, searching: bool = True
) -> tuple[Worker, ...] | None:
    """`kept`, which room and tenants hold, and what the grant adds: as much as fits, in sizes that the job may have.

    None if that is below the grant's floor; room and tenants are then as if the job were not there. Without `searching`
    the walk is all that is tried.
    """
    size = sum(map(is_elastic, kept))
    held = {worker[:2] for worker in kept}
    fixed = [(role, n) for role, replicas, _, _ in spec.fixed for n in range(replicas) if (role, n) not in held]
    more = [(Role.WORKER, ordinal) for ordinal in free_ordinals(spec, kept, max(0, grant.workers - size))]
    floor = max(1, grant.floor)
    search = _Search(room, tenants, spec, kept)
    new = search.most(fixed, more)
    if new is None or spec.allowed_size(size + len(new) - len(fixed)) < floor:
        search.take_back(new or [])
        least = max(spec.workers_min, spec.allowed_size(grant.floor))
        enough = max(0, least - size)
        members = [*fixed, *more[:enough]]
        new = search.exactly(members) if searching and enough <= len(more) and search.has_room_for(members) else None
        if new is None:
            room.release(spec, kept)
            tenants.release(spec, kept)
            return None
    goal = spec.allowed_size(size + len(new) - len(fixed))
    if goal < size:  # what is left of it is between two sizes that it may have
        remaining = shrunk(spec, kept, goal)
        gone = [worker for worker in kept if worker not in remaining]
        room.release(spec, gone)
        tenants.release(spec, gone)
        kept, size = remaining, goal
    surplus = new[len(fixed) + goal - size :]
    search.take_back(surplus)
    return numbered(spec, kept, new[: len(fixed) + goal - size])


def let_back(room: Room, tenants: Tenants, spec: JobSpec, workers: Sequence[Worker]) -> bool:
    """Put these workers where they say, in any order in which rules allow it; says whether it can be. If not, room and
    tenants are as before."""
    done: list[Worker] = []
    waiting = list(workers)
    while waiting:
        fits = next((worker for worker in waiting if _goes_back(room, tenants, spec, worker)), None)
        if fits is None:
            room.release(spec, done)
            tenants.release(spec, done)
            return False
        waiting.remove(fits)
        done.append(fits)
    return True


def _goes_back(room: Room, tenants: Tenants, spec: JobSpec, worker: Worker) -> bool:
    at = room.frame.index.get(worker.node)
    if at is None or not room.frame.admits(at, spec) or not tenants.admits(spec, worker):
        return False
    room.occupy(at, spec.request_of(worker.role), worker.devices)
    if room.is_overfull(at):
        room.release(spec, (worker,))
        return False
    tenants.hold(spec, (worker,))
    return True


class _Search:
    """One job's seats in the making. `new` is what was put down, in its order."""

    def __init__(self, room: Room, tenants: Tenants, spec: JobSpec, kept: tuple[Worker, ...]) -> None:
        self.room, self.tenants, self.spec = room, tenants, spec
        frame = room.frame
        self.where: Ints = node_positions(tenants.around, (node.id for node in frame.nodes))
        mask = frame.admitting(spec)
        self.admitting: Bools = np.ones(len(frame.nodes), np.bool_) if mask is None else mask
        self.gates: dict[Role, Gate] = {
            role: tenants.gate(spec, spec.traits_of(role))
            for role in {*(each.role for each in spec.fixed), Role.WORKER}
        }
        self.own: Ints = np.zeros(len(frame.nodes), np.int64)  # pods of the job by node
        for worker in kept:
            if (at := frame.index.get(worker.node)) is not None:
                self.own[at] += 1
        self.liked: Ints = np.zeros(len(frame.nodes), np.int64)
        for rank, at in enumerate(reversed(frame.liked(spec.node_wishes) if spec.node_wishes else []), 1):
            self.liked[at] = rank
        if spec.node_preference is not None and (at := frame.index.get(spec.node_preference)) is not None:
            self.liked[at] = len(frame.nodes) + 1
        self._steps = 0

    def most(self, fixed: Sequence[Member], more: Sequence[Member]) -> list[Worker] | None:
        """All fixed roles and as many of the others as the walk finds a place for; None if one fixed role has none."""
        best: list[Worker] | None = None
        for scope in self._scopes():
            new = self._walk(fixed, more, scope)
            if new is not None and len(new) == len(fixed) + len(more):
                return new
            if new is not None:
                self.take_back(new)
                if best is None or len(new) > len(best):
                    best = new
        if best is not None:  # the same again: it is put down and not kept twice
            for worker in best:
                self._hold(worker)
        return best

    def has_room_for(self, members: Sequence[Member]) -> bool:
        """Are there as many slots as each role needs, rules aside? If not, no search finds any."""
        for role in {role for role, _ in members}:
            slots = self.room.slots(self.spec.request_of(role)) * self.admitting
            if int(slots.sum()) < sum(role is each for each, _ in members):
                return False
        return True

    def exactly(self, members: Sequence[Member]) -> list[Worker] | None:
        """All of these; None if the search finds no places for them, or has looked long enough."""
        self._steps = 0
        new: list[Worker] = []
        return new if self._deeper(members, new) else None

    def take_back(self, workers: Sequence[Worker]) -> None:
        for worker in reversed(workers):
            self._release(worker)

    def _walk(self, fixed: Sequence[Member], more: Sequence[Member], scope: Bools | None) -> list[Worker] | None:
        new: list[Worker] = []
        for number, member in enumerate((*fixed, *more)):
            at = next(self._offers(member, len(fixed) + len(more) - number, scope), None)
            if at is not None:
                new.append(self._put(member, at))
            elif number < len(fixed):
                self.take_back(new)
                return None
            else:
                break
        return new

    def _deeper(self, members: Sequence[Member], new: list[Worker]) -> bool:
        if not members:
            return True
        for at in list(self._offers(members[0], len(members), None))[:_BRANCHES_MAX]:
            self._steps += 1
            if self._steps > STEPS_MAX:
                return False
            new.append(self._put(members[0], at))
            if self._deeper(members[1:], new):
                return True
            self._release(new.pop())
        return False

    def _offers(self, member: Member, left: int, scope: Bools | None) -> Iterator[int]:
        """Nodes that take this one now, best first. `left` are to come, this one among them."""
        request, gate = self.spec.request_of(member[0]), self.gates[member[0]]
        slots = self.room.slots(request)
        fits = self.admitting & gate.open()[self.where] & (slots > 0)
        if scope is not None:
            fits &= scope
        found = fits.nonzero()[0]
        if not len(found):
            return
        slots, free = slots[found], self.room.free(request)[found]
        enough = slots >= left
        order = np.lexsort(
            (
                found,
                np.where(enough, free, -slots),
                ~enough,
                -self.liked[found],
                -self.own[found],
                gate.crowd()[self.where][found],
            )
        )
        yield from found[order].tolist()

    def _scopes(self) -> Iterator[Bools | None]:
        """Everywhere; where workers must be with their like, each domain by itself, that with most slots first."""
        yield None
        keys = {term.key for _, traits in self.spec.pods for term in traits.together}
        slots = self.room.slots(self.spec.request) * self.admitting
        for key in sorted(keys):
            domains, count = self.tenants.domains.of(key)
            here = domains[self.where]
            sums = np.bincount(here[here >= 0], weights=np.minimum(slots, 1 << 20)[here >= 0], minlength=count)
            for domain in np.argsort(-sums, kind="stable").tolist()[:DOMAINS_MAX]:
                if sums[domain] > 0:
                    yield here == domain

    def _put(self, member: Member, at: int) -> Worker:
        devices = self.room.take(at, self.spec.request_of(member[0]))
        worker = Worker(*member, self.room.frame.nodes[at].id, devices)
        self._count(worker, 1)
        return worker

    def _hold(self, worker: Worker) -> None:
        self.room.hold(self.spec, (worker,))
        self._count(worker, 1)

    def _release(self, worker: Worker) -> None:
        self.room.release(self.spec, (worker,))
        self._count(worker, -1)

    def _count(self, worker: Worker, by: int) -> None:
        traits = self.spec.traits_of(worker.role)
        self.tenants.put((PlacedPod(traits, worker.node),), by=by)
        at = self.tenants.around.index[worker.node]
        for gate in self.gates.values():
            gate.note(traits, at, by)
        self.own[self.room.frame.index[worker.node]] += by
