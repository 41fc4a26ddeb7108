"""What changes cost a simulated job, and the bad luck that a simulation may be told to have. Values only."""

from dataclasses import dataclass
from typing import NamedTuple


class Costs(NamedTuple):
    """Seconds in which a job holds its workers and makes no progress, after each kind of change."""

    start_s: float = 0.0
    rescale_s: float = 0.0
    migrate_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Bad luck, from a seed. Chances are per event; losses are per day over the whole cluster."""

    node_losses_per_day: float = 0.0
    node_repair_s: float = 1800.0
    lost_wakes: float = 0.0  # the chance that an event wakes no cycle; the resync finds it
    crashes_mid_plan: float = 0.0  # the chance that the scheduler dies between two steps of a plan
    resync_s: float = 30.0  # look at least this often while faults are on
