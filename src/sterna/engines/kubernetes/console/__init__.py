"""A cluster as a user at a terminal sees it: every request of a user, answered from the API server alone.

Nothing here decides, and no operator is asked: jobs stand in their own status, and what a user wants is written where
the operator reads it. So it works while no operator runs, with the rights of the user and no others.
"""

from sterna.engines.kubernetes.console.finding import Submitted
from sterna.engines.kubernetes.console.scheduler import ClusterScheduler

__all__ = ["ClusterScheduler", "Submitted"]
