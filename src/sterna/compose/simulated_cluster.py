"""The nodes of a simulation, and what happens to them: nodes that come and go, serving pods that take room."""

from sterna.compose.simulation_requests import ClusterRequest
from sterna.model.errors import InvalidRequest
from sterna.model.happenings import NodeChange, NodeEvent, ServingPod
from sterna.model.nodes import Node
from sterna.wire.happenings import read_node_events, read_serving
from sterna.wire.traces.clusters import read_cluster, uniform_nodes


def nodes_of(request: ClusterRequest) -> tuple[Node, ...]:
    if request.file is not None:
        return read_cluster(request.file)
    return uniform_nodes(
        request.nodes,
        request.gpus_per_node,
        cpus_per_node=request.cpus_per_node,
        memory_gib_per_node=request.memory_gib_per_node,
    )


def node_events_of(request: ClusterRequest, nodes: tuple[Node, ...]) -> tuple[NodeEvent, ...]:
    events = () if request.node_events is None else read_node_events(request.node_events, like=nodes[0])
    _require_known_nodes(events, nodes)
    return events


def serving_of(request: ClusterRequest) -> tuple[ServingPod, ...]:
    return () if request.serving is None else read_serving(request.serving)


def _require_known_nodes(events: tuple[NodeEvent, ...], nodes: tuple[Node, ...]) -> None:
    """Before the simulation begins rather than an hour into it."""
    known = {node.id for node in nodes}
    for event in sorted(events, key=lambda event: event.at_s):
        added = event.change is NodeChange.ADDED
        if added is (event.node_id in known):
            there = f"{', '.join(sorted(known)[:3])}, ..."
            expected = f"a name that no node has ({there})" if added else f"a node that is there: {there}"
            raise InvalidRequest(field=f"node events: {event.change} node", value=event.node_id, expected=expected)
        known.add(event.node_id)
