"""A job's pods beside its seats: which are in their seats, which are not, which are missing. Values only."""

from dataclasses import dataclass
from functools import cached_property

from sterna.engines.kubernetes.reconcile.job_view import JobView
from sterna.engines.kubernetes.reconcile.observed_pods import Seen, seen_of
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.lifecycle.gang_roles import Place
from sterna.model.conditions import ConditionType, is_true
from sterna.model.jobs import Worker
from sterna.model.workload import Workload


@dataclass(frozen=True)
class Look:
    """A job's pods beside its seats."""

    view: JobView
    workload: Workload
    standing: Standing

    def but(self, standing: Standing) -> "Look":
        """The same pods beside other seats."""
        if standing is self.standing:
            return self
        twin = Look(self.view, self.workload, standing)
        twin.__dict__.update({name: self.__dict__[name] for name in ("pods", "vanished") if name in self.__dict__})
        return twin

    @cached_property
    def pods(self) -> tuple[Seen, ...]:
        return tuple(seen_of(self.view, self.workload, pod) for pod in self.view.pods)

    @cached_property
    def vanished(self) -> tuple[Seen, ...]:
        still = {pod.metadata.uid for pod in self.view.pods}
        return tuple(
            seen_of(self.view, self.workload, pod) for pod in self.view.vanished if pod.metadata.uid not in still
        )

    @cached_property
    def seats(self) -> dict[Place, Seat]:
        return {seat.worker[:2]: seat for seat in self.standing.seats}

    @cached_property
    def current(self) -> dict[Place, Seen]:
        """Pods that are in their seats, by place."""
        return {seen.place: seen for seen in self.pods if seen.place is not None and self.is_seated(seen)}

    @cached_property
    def strays(self) -> tuple[Seen, ...]:
        """Pods that have no seat, or whose seat is another pod's by now."""
        return tuple(seen for seen in self.pods if not self.is_seated(seen))

    @cached_property
    def done(self) -> frozenset[Place]:
        """Places whose pods ended well and are not started again."""
        return frozenset(self.standing.done)

    @cached_property
    def gang(self) -> tuple[Worker, ...]:
        """The workers of the job: those in its seats, else those it let go of last, else those of the pods found."""
        standing = self.standing
        latest = standing.change or (standing.history[-1] if standing.history else None)
        there = (seen.worker for seen in (*self.pods, *self.vanished))
        return (
            standing.assigned
            or (latest.before if latest is not None else ())
            or tuple(worker for worker in there if worker is not None)
        )

    @property
    def had_begun(self) -> bool:
        """Was this very gang complete before? Then a pod that is missing was taken away."""
        recorded = self.view.status.recorded
        was_ready = is_true(self.view.status.conditions, ConditionType.GANG_READY)
        return was_ready and recorded.incarnation == self.standing.incarnation

    def is_seated(self, seen: Seen) -> bool:
        seat = self.seats.get(seen.place) if seen.place is not None else None
        return (
            seat is not None
            and not seen.lingers
            and seen.incarnation == self.standing.incarnation
            and seen.slot == seat.slot
            and seen.node in ("", seat.worker.node)
        )

    def is_out_of_reach(self, seen: Seen) -> bool:
        """Is its node gone or not ready?"""
        facts = self.view.nodes.get(seen.node)
        return bool(seen.node) and (facts is None or not facts.ready)

    @property
    def all_run(self) -> bool:
        """Does the pod of every seat run, or has it ended well?"""
        return all(place in self.done or (place in self.current and self.current[place].runs) for place in self.seats)

    @property
    def all_ready(self) -> bool:
        return bool(self.seats) and all(
            place in self.done or (place in self.current and self.current[place].ready) for place in self.seats
        )
