"""Training at a pace: so many units of work, each taking so many seconds with so many workers.

Progress is exact and real-valued; rounding a finish to whole seconds is the simulator's choice, restarts its business.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sterna.model.curves import SpeedupCurve
from sterna.model.ids import NodeId
from sterna.model.jobs import Worker


class PacedTraining:
    """The curve is the truth while the workers share a node; every further node stretches each unit by `crossing`."""

    __slots__ = ("_crossing", "_units", "curve", "units_left")

    def __init__(self, units: float, curve: SpeedupCurve, *, crossing: float = 0.0) -> None:
        self.units_left = units
        self._units = units  # all of the work: losing some of it cannot make it more
        self.curve = curve
        self._crossing = crossing

    def advance(self, workers: Sequence[Worker], from_s: float, to_s: float) -> float | None:
        if not workers:
            return None
        unit_s = self.unit_s(workers)
        # The very product of `finish_s`: a rounding must not make a job miss the moment that was announced for it.
        finish_s = from_s + self.units_left * unit_s
        if finish_s <= to_s:
            self.units_left = 0.0
            return finish_s
        self.units_left -= (to_s - from_s) / unit_s
        return None

    def finish_s(self, workers: Sequence[Worker], from_s: float) -> float | None:
        return from_s + self.units_left * self.unit_s(workers) if workers else None

    def rewind(self, workers: Sequence[Worker], seconds: float) -> None:
        if workers:
            self.units_left = min(self._units, self.units_left + seconds / self.unit_s(workers))

    def unit_s(self, workers: Sequence[Worker]) -> float:
        """Seconds for one unit of work where these workers are."""
        unit_s = self.curve.unit_s(len(workers))
        if self._crossing and len(workers) > 1:
            return unit_s * (1.0 + self._crossing * (len({worker.node for worker in workers}) - 1))
        return unit_s


class TypeCurves(NamedTuple):
    """Speed on one GPU type."""

    one_node: SpeedupCurve
    several_nodes: SpeedupCurve


class TypedTraining(PacedTraining):
    """Work whose speed depends on the GPU type of its nodes, and on whether they are several."""

    __slots__ = ("_by_node", "_usual")

    def __init__(self, units: float, usual: TypeCurves, by_node: Mapping[NodeId, TypeCurves]) -> None:
        super().__init__(units, usual.one_node)
        self._usual = usual
        self._by_node = by_node  # nodes whose GPUs are of a known type; on all others the usual one is assumed

    def unit_s(self, workers: Sequence[Worker]) -> float:
        first = workers[0].node
        curves = self._by_node.get(first, self._usual)
        crosses = any(worker.node != first for worker in workers)
        return (curves.several_nodes if crosses else curves.one_node).unit_s(len(workers))
