"""The room on the nodes while one layout is being made: what is free, and how much fits where.

A `Room` changes as workers are put on it, and lives inside one call only. It chooses nothing but cards (`cards.py`):
which node is better is the placements' question, which nodes are allowed at all is `frame.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sterna.model.ids import DeviceId, JobId
from sterna.model.jobs import Job, JobSpec, Worker
from sterna.model.resources import WHOLE_GPU_MILLI, Resources
from sterna.model.snapshot import Snapshot
from sterna.placement.cards import Cards
from sterna.placement.frame import Frame, Mask, frame_of

Vector = NDArray[np.int64]
Demand = Sequence[tuple[Resources, int]]  # so many workers of each request

ENDLESS = 1 << 30  # slots for workers that ask for nothing
_HUGE = 1 << 62  # more than any node has, and still a number that vectors can hold


class Room:
    """Lists rather than arrays hold the truth: workers come and go one by one. Arrays follow when vectors are asked."""

    __slots__ = ("_arrays", "_share_slots", "_synced", "_touched", "cards", "cpu", "frame", "gpus", "memory")

    def __init__(self, frame: Frame, *, cpu: list[int], memory: list[int], cards: Cards) -> None:
        self.frame = frame
        self.cpu = cpu
        self.memory = memory
        self.cards = cards
        self.gpus = cards.wholly_free
        self._arrays: tuple[Vector, Vector, Vector] | None = None
        self._touched: list[int] = []  # nodes that changed since the arrays were made
        self._synced = 0  # how many of those the arrays know
        self._share_slots: dict[Resources, tuple[int, Vector]] = {}  # how many of those it knows, and the slots

    @staticmethod
    def empty(frame: Frame) -> "Room":
        """What guests leave to training."""
        return _left_by_guests(frame).copy()

    def copy(self) -> "Room":
        return Room(self.frame, cpu=self.cpu.copy(), memory=self.memory.copy(), cards=self.cards.copy())

    @staticmethod
    def bare(frame: Frame) -> "Room":
        """`empty` for callers that put nothing into it: not a copy."""
        return _left_by_guests(frame)

    @staticmethod
    def of(view: Snapshot, *, leaving: bool = False) -> "Room":
        """What is free now. With `leaving`, workers that were told to go and are not gone take room as well."""
        room = Room.empty(frame_of(view.cluster))
        for job in view.jobs:
            if job.workers:
                room.hold(job.spec, job.workers)
            if leaving and job.leaving:
                room.hold(job.spec, job.leaving)
        return room

    # -- how much fits

    def slots_at(self, at: int, request: Resources) -> int:
        """How many workers with this request fit on this node."""
        cpu, memory, milli, gpu_bytes = request
        fit = ENDLESS
        if milli % WHOLE_GPU_MILLI:
            fit = self.cards.shares_at(at, milli, gpu_bytes)
        elif milli:
            fit = self.gpus[at] // (milli // WHOLE_GPU_MILLI)
        if cpu:
            fit = min(fit, self.cpu[at] // cpu)
        if memory:
            fit = min(fit, self.memory[at] // memory)
        return fit if fit > 0 else 0

    def slots(self, request: Resources, mask: Mask = None) -> Vector:
        """`slots_at` for every node at once; 0 outside `mask`. Not to be written to."""
        cpu, memory, milli, _ = request
        if milli % WHOLE_GPU_MILLI:
            fit = self._share_vector(request)
        else:
            free_cpu, free_memory, free_gpus = self._vectors()
            fit = np.maximum(free_gpus // (milli // WHOLE_GPU_MILLI), 0) if milli else np.full_like(free_gpus, ENDLESS)
            if cpu:
                fit = np.minimum(fit, np.maximum(free_cpu // min(cpu, _HUGE), 0))
            if memory:
                fit = np.minimum(fit, np.maximum(free_memory // min(memory, _HUGE), 0))
        return fit if mask is None else fit * mask

    def free(self, request: Resources) -> Vector:
        """What nodes are compared by for such a request: wholly free cards, or CPU where it asks for no GPU."""
        cpu, _, gpus = self._vectors()
        return gpus if request.gpu_milli else cpu

    def tightest(self, demand: Demand, mask: Mask = None) -> int | None:
        """Best fit: of the nodes that hold all of `demand` the one with least room; ties go to the lower id."""
        cpu = memory = milli = 0
        shares: list[tuple[Resources, int]] = []
        for request, count in demand:
            cpu += request[0] * count
            memory += request[1] * count
            if request[2] % WHOLE_GPU_MILLI:
                shares.append((request, count))
            else:
                milli += request[2] * count
        free_cpu, free_memory, free_gpus = self._vectors()
        fits = free_gpus >= milli // WHOLE_GPU_MILLI
        if cpu:
            fits &= free_cpu >= min(cpu, _HUGE)
        if memory:
            fits &= free_memory >= min(memory, _HUGE)
        if mask is not None:
            fits &= mask
        for request, count in shares:
            fits &= self._share_vector(request) >= count
        where = fits.nonzero()[0]
        if not len(where):
            return None
        free = (free_gpus if milli or shares else free_cpu)[where]
        if not shares or len(demand) == 1:
            return int(where[free.argmin()])
        ordered = where[free.argsort(kind="stable")]  # shares and others compete for cards, so each node is tried
        return next((at for at in ordered.tolist() if self.holds(at, demand)), None)

    def roomiest(self, request: Resources, mask: Mask = None, *, beside: Resources | None = None) -> int | None:
        """The node with most slots for `request`; ties go to the lower id.

        With `beside`, of the nodes on which one worker of that request fits, even if there is no slot next to it.
        """
        slots = self.slots(request, mask)
        if beside is not None:
            slots = (slots + 1) * (self.slots(beside, mask) > 0)
        if not len(slots):
            return None
        at = int(slots.argmax())
        return at if slots[at] > 0 else None

    def holds(self, at: int, demand: Demand) -> bool:
        """Do all of these fit here, in this order? Tried out and taken back."""
        taken: list[tuple[Resources, tuple[DeviceId, ...]]] = []
        fits = True
        for request in (request for request, count in demand for _ in range(count)):
            fits = self.slots_at(at, request) > 0
            if not fits:
                break
            taken.append((request, self.take(at, request)))
        for request, devices in reversed(taken):
            self.give(at, request, devices)
        return fits

    def overfull(self) -> list[int]:
        """Nodes on which more is held than there is: guests came, or a card broke."""
        short = {at for at in self.cards.shared if self.cards.is_overdrawn(at)}
        for free in (self.cpu, self.memory, self.gpus):
            if free and min(free) < 0:
                short.update(at for at, left in enumerate(free) if left < 0)
        return sorted(short)

    def is_overfull(self, at: int) -> bool:
        return self.cpu[at] < 0 or self.memory[at] < 0 or self.gpus[at] < 0 or self.cards.is_overdrawn(at)

    # -- coming and going

    def take(self, at: int, request: Resources) -> tuple[DeviceId, ...]:
        """Put one worker here and say on which cards. It must fit."""
        devices = self.cards.pick(at, request[2], request[3]) if request[2] else ()
        self.occupy(at, request, devices)
        return devices

    def occupy(self, at: int, request: Resources, devices: tuple[DeviceId, ...]) -> None:
        """One worker or guest is here, on these cards where it says so, whether it fits or not."""
        cpu, memory, milli, gpu_bytes = request
        self.cpu[at] -= cpu
        self.memory[at] -= memory
        if milli:
            self.cards.occupy(at, milli, gpu_bytes, devices)
        if self._arrays is not None:
            self._touched.append(at)

    def give(self, at: int, request: Resources, devices: tuple[DeviceId, ...]) -> None:
        """One worker leaves: `occupy` undone."""
        cpu, memory, milli, gpu_bytes = request
        self.cpu[at] += cpu
        self.memory[at] += memory
        if milli:
            self.cards.give(at, milli, gpu_bytes, devices)
        if self._arrays is not None:
            self._touched.append(at)

    def hold(self, spec: JobSpec, workers: Iterable[Worker]) -> None:
        """These workers are where they say; those on a node that is gone take no room."""
        cpu, memory, milli, _ = spec.request
        index = self.frame.index
        if spec.fixed or milli % WHOLE_GPU_MILLI or self._arrays is not None:
            for role, _, node, devices in workers:
                at = index.get(node)
                if at is not None:
                    self.occupy(at, spec.request_of(role), devices)
            return
        gpus, named, bits = self.gpus, self.cards.named, self.frame.bits
        count, also = milli // WHOLE_GPU_MILLI, cpu or memory
        for _, _, node, devices in workers:  # `occupy` by hand: every worker of the cluster passes here in every cycle
            at = index.get(node)
            if at is None:
                continue
            bit = bits[at].get(devices[0], 0) if len(devices) == 1 else 0
            if not devices or (bit and not named[at] & bit):
                gpus[at] -= count
                named[at] |= bit
            else:
                self.cards.occupy(at, milli, 0, devices)
            if also:
                self.cpu[at] -= cpu
                self.memory[at] -= memory

    def release(self, spec: JobSpec, workers: Iterable[Worker]) -> None:
        """`hold` undone."""
        for role, _, node, devices in workers:
            at = self.frame.index.get(node)
            if at is not None:
                self.give(at, spec.request_of(role), devices)

    # -- vectors

    def _vectors(self) -> tuple[Vector, Vector, Vector]:
        if self._arrays is None:
            self._arrays = (
                np.array(self.cpu, np.int64),
                np.array(self.memory, np.int64),
                np.array(self.gpus, np.int64),
            )
        elif self._synced < len(self._touched):
            cpu, memory, gpus = self._arrays
            for at in self._touched[self._synced :]:
                cpu[at], memory[at], gpus[at] = self.cpu[at], self.memory[at], self.gpus[at]
        self._synced = len(self._touched)
        return self._arrays

    def _share_vector(self, request: Resources) -> Vector:
        self._vectors()  # from now on changes are noted
        seen, slots = self._share_slots.get(request, (0, None))
        if slots is None or len(self._touched) - seen > len(slots):
            slots = np.fromiter((self.slots_at(at, request) for at in range(len(self.cpu))), np.int64, len(self.cpu))
        else:
            for at in set(self._touched[seen:]):
                slots[at] = self.slots_at(at, request)
        self._share_slots[request] = (len(self._touched), slots)
        return slots


@lru_cache(maxsize=32)
def _left_by_guests(frame: Frame) -> Room:
    """Never negative: where guests overbooked a node there is simply nothing left."""
    nodes = frame.nodes
    cpu = [node.allocatable.cpu_milli for node in nodes]
    memory = [node.allocatable.memory_bytes for node in nodes]
    room = Room(frame, cpu=cpu, memory=memory, cards=Cards(frame, frame.gpus.copy()))
    for at, node in enumerate(nodes):
        for guest in node.guests:
            room.occupy(at, guest.request, guest.devices)
    for free in (cpu, memory):
        free[:] = [max(0, left) for left in free]
    room.cards.forgive()
    return room


class _Held(NamedTuple):
    """The latest room of a frame with what it holds; brought up to date rather than made anew."""

    by_job: dict[JobId, tuple[JobSpec, tuple[Worker, ...]]]
    room: Room


def holding(frame: Frame, jobs: Mapping[JobId, Job], workers: Mapping[JobId, tuple[Worker, ...]]) -> Room:
    """A room in which these workers are, for the caller to change.

    From one cycle to the next few of thousands come or go, so the latest room is kept and only the difference is
    applied. Not where nodes are overfull: there, which worker has which card depends on which came first.
    """
    known: _Held | None = frame.latest_room if frame.found_sound else None
    frame.latest_room = None  # so that a failure halfway leaves no room behind that is half updated
    if known is None:
        known = _Held({}, Room.empty(frame))
    by_job, room = known
    for job_id, (spec, held) in tuple(by_job.items()):
        if workers.get(job_id) is not held or jobs[job_id].spec is not spec:
            room.release(spec, held)
            del by_job[job_id]
    for job_id, kept in workers.items():
        if kept and job_id not in by_job:
            spec = jobs[job_id].spec
            room.hold(spec, kept)
            by_job[job_id] = (spec, kept)
    frame.latest_room = known
    return Room(frame, cpu=room.cpu.copy(), memory=room.memory.copy(), cards=room.cards.copy())
