"""The scheduler's door, the same for every engine: move a worker, show the cluster, take reports of how jobs train.

An engine implements `Household` and has `serve_door` open it. Everything that is refused is refused in here.
"""

from sterna.engines.door.answers import Answer
from sterna.engines.door.cluster_info import cluster_info
from sterna.engines.door.door import PORT, Door
from sterna.engines.door.household import FoundPod, Household, Taken
from sterna.engines.door.serving import secrets_in, serve_door

__all__ = ["PORT", "Answer", "Door", "FoundPod", "Household", "Taken", "cluster_info", "secrets_in", "serve_door"]
