"""What a simulation, or a single decision, is asked to do: small requests by topic, in the words of the command line.

Values only; None means: what suits the rest. Whether a name exists, the module that looks it up says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class TraceRequest:
    """Which jobs arrive: those of a file, or made up."""

    file: str | None = None
    format: str | None = None  # None: by its columns
    generate: str | None = None  # a pattern of arrivals, instead of a file
    jobs: int = 120  # of a generated trace


@dataclass(frozen=True, kw_only=True)
class ClusterRequest:
    """On which nodes, and what happens to them."""

    nodes: int = 16
    gpus_per_node: int = 4
    cpus_per_node: int = 128
    memory_gib_per_node: int = 1024
    file: str | None = None  # nodes from there, instead of equal ones
    node_events: str | None = None  # a file: nodes that come, go or are drained
    serving: str | None = None  # a file: serving pods that come and go


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """How jobs train."""

    name: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    profiles: str | None = None  # a directory of measured speeds
    sizing: str | None = None  # how large a job may grow: as it asks, or as far as it scales
    contention: str = "none"  # what containers on a node compete for


@dataclass(frozen=True, kw_only=True)
class CostsRequest:
    """Seconds in which a job holds its workers and makes no progress, after each kind of change."""

    start_s: float = 0.0
    rescale_s: float = 0.0
    migrate_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TimingRequest:
    """When decisions are made, and how time is counted."""

    interval_s: float | None = None  # decide in rounds. None: at every event, or as the model needs it
    rate_limit_s: float | None = None  # between two decisions
    grace_s: float = 0.0  # how long workers that were told to go still take room
    whole_seconds: bool = False
    foretells_again: bool = False  # every finish is worked out anew at each event


@dataclass(frozen=True, kw_only=True)
class RebalanceRequest:
    """What moves work beyond what placement does."""

    names: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)  # theirs, and `judge.*` of how growth is judged


@dataclass(frozen=True, kw_only=True)
class RulesRequest:
    """How decisions are made: all that one depends on beside the snapshot."""

    policy: str = "fifo"
    settings: Mapping[str, str] = field(default_factory=dict)  # of that policy
    placement: str | None = None  # None: the policy's own
    starving_after_s: float | None = None
    idle_cpu_share: float | None = None  # of nodes with GPUs, for jobs without
    rebalance: RebalanceRequest = RebalanceRequest()


@dataclass(frozen=True, kw_only=True)
class SimulationRequest:
    trace: TraceRequest = TraceRequest()
    cluster: ClusterRequest = ClusterRequest()
    model: ModelRequest = ModelRequest()
    rules: RulesRequest = RulesRequest()
    costs: CostsRequest = CostsRequest()
    timing: TimingRequest = TimingRequest()
    estimates: str = "exact"  # what policies know of speed and work left: exact, or learned
    pin: str | None = None  # a file that says where jobs start
    seed: int = 0  # for everything that is drawn by lot
