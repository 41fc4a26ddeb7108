"""What a scenario lets happen to a cluster beside jobs coming and going: nodes and serving pods. Values only."""

from enum import StrEnum
from typing import NamedTuple

from sterna.model.ids import NodeId
from sterna.model.nodes import Node
from sterna.model.resources import Resources


class NodeChange(StrEnum):
    ADDED = "added"
    LOST = "lost"  # at once, with whatever runs there: work since the latest checkpoint is gone
    SILENT = "silent"  # it does not answer: what runs there trains on, and is lost if the silence lasts
    RETURNED = "returned"
    DRAINED = "drained"  # cordoned: work moves away, nothing is lost
    UNCORDONED = "uncordoned"


class NodeEvent(NamedTuple):
    at_s: float
    change: NodeChange
    node_id: NodeId
    node: Node | None = None  # only for ADDED: what comes


class ServingPod(NamedTuple):
    """A pod that is not Sterna's and goes before training; bound to the first node that has room."""

    id: str
    at_s: float
    lasts_s: float
    request: Resources
