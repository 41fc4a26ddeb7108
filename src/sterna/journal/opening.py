"""What opens a journal: everything that deciding again depends on beside the snapshots."""

from collections.abc import Mapping, Sequence

from sterna import __version__
from sterna.journal.journal import Record
from sterna.planner.decide import Settings


def opening(
    *,
    engine: str,
    policy: str,
    policy_settings: Mapping[str, str],
    placement: str,
    settings: Settings,
    rebalance: Sequence[str],
    rebalance_settings: Mapping[str, str],
    version: str = __version__,
) -> Record:
    """`rebalance_settings` are those of rebalancers alone: how growth was judged, the snapshots say."""
    return {
        "sterna": version,
        "engine": engine,
        "policy": policy,
        "settings": dict(policy_settings),
        "placement": placement,
        "starvingAfterSeconds": settings.starving_after_s,
        "idleCpuShare": settings.idle_cpu_share,
        "rebalance": list(rebalance),
        "rebalanceSettings": dict(rebalance_settings),
    }
