"""How often a job may be moved: moves per hour and lineage, rest after a move, no way back for a while.

What was moved when is kept in the memory of each job, as plain numbers, and so survives restarts. A worker's lineage is
its role and ordinal, which a move does not change. A move counts from the decision on, whatever becomes of it: one that
an engine could not carry out leaves a job alone for longer than need be, never for less.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import Job, Worker
from sterna.model.options import option
from sterna.model.why import Because, Why
from sterna.placement.rebalancers.scene import Unit
from sterna.placement.rebalancing import MEMORY

_HOUR_S = 3600.0
_MOVED = f"{MEMORY}moved/"  # role/ordinal: when it last moved
_COUNT = f"{MEMORY}count/"  # role/ordinal: how often it moved
_LEFT = f"{MEMORY}left/"  # role/ordinal/node: when it left that node
_DELAYED = f"{MEMORY}delayed_s"  # seconds that moves are expected to have cost the job, its own and others'
_HOUR = f"{MEMORY}hour/"  # 0, 1, ...: when the job was moved within the last hour, oldest first


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    moves_per_hour: int = option(6, "how often one job may be moved within an hour", at_least=0)
    moves_per_worker: int = option(3, "how often one worker may be moved in its life; 0: any number", at_least=0)
    rest_s: float = option(3.0, "how long a worker that moved is left alone", at_least=0, at_most=1e9)
    cooldown_s: float = option(600.0, "how long a worker does not return to a node it left", at_least=0, at_most=1e9)


class Ledger:
    """What rebalancers did to jobs, as the memory has it, with what they do in this cycle. Lives inside one call."""

    def __init__(self, jobs: Iterable[Job], memory: Mapping[JobId, Mapping[str, float]], now_s: float) -> None:
        self._now_s = now_s
        self._entries = {
            job.id: {key: value for key, value in memory[job.id].items() if key.startswith(MEMORY)}
            for job in jobs
            if job.id in memory
        }

    def why_not(self, unit: Unit, options: BudgetOptions, *, beside: int = 0) -> Because | None:
        """Why the unit must stay where it is, wherever it would go. None: it may move.

        `beside`: so many others of its job are about to move with it.
        """
        moves = max(len(self._last_hour(unit.job.id)), _migrations(unit.job, self._now_s)) + beside
        if moves >= options.moves_per_hour:
            return Because(Why.RESTING, (("moves_in_the_last_hour", moves), ("most", options.moves_per_hour)))
        entry = self._entries.get(unit.job.id, {})
        for worker in unit.workers:
            name = _name(worker)
            count = int(entry.get(_COUNT + name, 0))
            if options.moves_per_worker and count >= options.moves_per_worker:
                return Because(Why.RESTING, (("moves_of_this_worker", count), ("most", options.moves_per_worker)))
            moved_s = entry.get(_MOVED + name)
            if moved_s is not None and self._now_s - moved_s < options.rest_s:
                return Because(Why.RESTING, (("seconds_since_its_last_move", round(self._now_s - moved_s, 3)),))
        return None

    def may_go(self, unit: Unit, to: NodeId, options: BudgetOptions) -> bool:
        """False while one of them left that node too recently."""
        entry = self._entries.get(unit.job.id, {})
        left = (entry.get(f"{_LEFT}{_name(worker)}/{to}") for worker in unit.workers)
        return not any(at_s is not None and self._now_s - at_s < options.cooldown_s for at_s in left)

    def note(self, unit: Unit) -> None:
        """The unit is moved now: one disruption of its job."""
        entry = self._entries.setdefault(unit.job.id, {})
        for worker in unit.workers:
            name = _name(worker)
            entry[_MOVED + name] = self._now_s
            entry[_COUNT + name] = entry.get(_COUNT + name, 0.0) + 1.0
            entry[f"{_LEFT}{name}/{worker.node}"] = self._now_s
        self._set_last_hour(unit.job.id, [*self._last_hour(unit.job.id), self._now_s])

    def delayed_s(self, job_id: JobId) -> float:
        """By how much moves so far are expected to have delayed this job; what they sped up is made good first."""
        return self._entries.get(job_id, {}).get(_DELAYED, 0.0)

    def note_effects(self, effects_s: Mapping[JobId, float]) -> None:
        """Jobs end so much later, or sooner where below 0."""
        for job_id, delay_s in effects_s.items():
            total_s = max(0.0, self.delayed_s(job_id) + delay_s)
            if total_s or job_id in self._entries:
                self._entries.setdefault(job_id, {})[_DELAYED] = total_s

    def kept(self, options: BudgetOptions) -> dict[JobId, Mapping[str, float]]:
        """What is worth remembering; what has run out is not."""
        kept: dict[JobId, Mapping[str, float]] = {}
        for job_id in self._entries:
            self._set_last_hour(job_id, self._last_hour(job_id))
            entry = {
                key: value
                for key, value in self._entries[job_id].items()
                if not key.startswith(_LEFT) or self._now_s - value < options.cooldown_s
            }
            if entry:
                kept[job_id] = entry
        return kept

    def _last_hour(self, job_id: JobId) -> list[float]:
        entry = self._entries.get(job_id, {})
        return sorted(at_s for key, at_s in entry.items() if key.startswith(_HOUR) and at_s > self._now_s - _HOUR_S)

    def _set_last_hour(self, job_id: JobId, moments: list[float]) -> None:
        entry = {key: value for key, value in self._entries[job_id].items() if not key.startswith(_HOUR)}
        entry |= {f"{_HOUR}{position}": at_s for position, at_s in enumerate(moments)}
        self._entries[job_id] = entry


def _migrations(job: Job, now_s: float) -> int:
    """Moves that the engine has recorded, whatever asked for them."""
    return sum(kind == "migration" and at_s > now_s - _HOUR_S for at_s, kind, _ in job.disruptions)


def _name(worker: Worker) -> str:
    return f"{worker.role}/{worker.ordinal}"
