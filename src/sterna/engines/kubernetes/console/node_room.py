"""Nodes of a cluster and what takes room on them, as records. What the user may not see is said beside the numbers."""

import asyncio
from dataclasses import dataclass

from sterna.engines.kubernetes.apiserver.objects import NodeObject, OwnerReference, Pod
from sterna.engines.kubernetes.apiserver.port import NODES, PODS, Api, Missing, Refused
from sterna.engines.kubernetes.console.finding import JOB_KINDS
from sterna.engines.kubernetes.world.node_objects import DRAIN, node_of, takes_room
from sterna.engines.kubernetes.world.pod_amounts import request_of_pod
from sterna.engines.shared_records import node_record
from sterna.lifecycle.job_record import Record
from sterna.model.errors import InvalidRequest, NotFound
from sterna.model.nodes import Node
from sterna.model.resources import NOTHING, Resources

_KINDS = frozenset(resource.kind for resource in JOB_KINDS)


@dataclass(frozen=True)
class Room:
    nodes: list[NodeObject]  # by name
    pods: list[Pod]
    limits: str  # what of the pods is not counted. Empty: nothing

    def rooms(self) -> list[tuple[Node, Resources]]:
        """What is free on each node."""
        used = self.used()
        return [(node, node.allocatable.minus(used.get(node.id, NOTHING))) for node in map(node_of, self.nodes)]

    def used(self) -> dict[str, Resources]:
        used: dict[str, Resources] = {}
        for pod in self.pods:
            if takes_room(pod):
                node = pod.spec.node_name
                used[node] = used.get(node, NOTHING).plus(_request(pod))
        return used

    def records(self) -> list[Record]:
        used, workers = self.used(), self._workers()
        return [
            self._record(found, used.get(found.metadata.name, NOTHING), workers.get(found.metadata.name, []))
            for found in self.nodes
        ]

    def _workers(self) -> dict[str, list[str]]:
        """Pods of our jobs, as job and pod."""
        found: dict[str, list[str]] = {}
        for pod in self.pods:
            owner = _owner(pod)
            if owner is not None and takes_room(pod):
                words = f"{pod.metadata.namespace}/{owner.name}/{pod.metadata.name}"
                found.setdefault(pod.spec.node_name, []).append(words)
        return found

    def _record(self, found: NodeObject, used: Resources, workers: list[str]) -> Record:
        node = node_of(found)
        return node_record(
            node,
            used=used,
            workers=sorted(workers),
            limits=[_state(found), self.limits],
            schedulable=node.schedulable and not found.spec.unschedulable,
        )  # nothing is measured: monitors tell the operator, which writes none of it down


async def room_of(api: Api, *, namespace: str) -> Room:
    """`namespace`: whose pods are counted where the user may not see all of them."""
    listing, (pods, limits) = await asyncio.gather(api.listing(NODES, shape=NodeObject), _pods(api, namespace))
    return Room(sorted(listing.items, key=lambda node: node.metadata.name), pods, limits)


async def set_drained(api: Api, name: str, *, drained: bool) -> None:
    """A cordon, which all schedulers understand, and our own annotation: what runs there is to go."""
    body = {
        "spec": {"unschedulable": True if drained else None},
        "metadata": {"annotations": {DRAIN: "true" if drained else None}},
    }
    try:
        await api.patch(NODES, name, body, shape=NodeObject)
    except Missing:
        raise NotFound("node", name) from None


async def _pods(api: Api, namespace: str) -> tuple[list[Pod], str]:
    try:
        return (await api.listing(PODS, shape=Pod)).items, ""
    except Refused:
        limits = f"only pods of namespace {namespace} are counted: this user may not list those of others"
    try:
        return (await api.listing(PODS, namespace=namespace, shape=Pod)).items, limits
    except Refused:
        return [], "what is in use is not known: this user may not list pods"


def _request(pod: Pod) -> Resources:
    try:
        return request_of_pod(pod)
    except InvalidRequest:  # amounts of a kind that we cannot count
        return NOTHING


def _owner(pod: Pod) -> OwnerReference | None:
    owners = pod.metadata.owner_references or ()
    return next((owner for owner in owners if owner.controller and owner.kind in _KINDS), None)


def _state(found: NodeObject) -> str:
    if found.metadata.annotation(DRAIN) == "true":
        return "it is being emptied, by sterna drain"
    return "cordoned: nothing new comes, what runs there stays" if found.spec.unschedulable else ""
