"""How nodes, their GPUs and their guests look in a snapshot file, and how they become ours."""

from typing import Annotated

from pydantic import Field

from sterna.model.ids import DeviceId, NodeId
from sterna.model.node_affinity import NodeWish
from sterna.model.nodes import Device, Doubt, Effect, Guest, GuestKind, Node, Taint, Toleration
from sterna.model.resources import Resources
from sterna.wire.fields import CpuMilli, GpuMilli, MemoryBytes, Name
from sterna.wire.pod_shape import PodBody, RequirementBody
from sterna.wire.problems import Body

EffectName = Annotated[Effect, Field(strict=False)]  # not strict: a file says it in text


class ResourcesBody(Body):
    cpu: CpuMilli = Field(default=0, description="CPUs")
    memory: MemoryBytes = Field(default=0, description="memory in bytes")
    gpu: GpuMilli = Field(default=0, description="GPUs, or a share of one GPU")
    gpu_memory: MemoryBytes = Field(
        default=0, description="memory on the GPU in bytes, where a share of a GPU is asked for"
    )

    def to_model(self) -> Resources:
        return Resources(self.cpu, self.memory, self.gpu, self.gpu_memory)


class DeviceBody(Body):
    id: Name = Field(description="the GPU's UUID, or its number on the node")
    memory: MemoryBytes = Field(default=0, description="0: unknown, so memory is not checked on this card")

    def to_model(self) -> Device:
        return Device(DeviceId(self.id), self.memory)


class TaintBody(Body):
    key: str
    value: str = ""
    effect: EffectName = Effect.NO_SCHEDULE

    def to_model(self) -> Taint:
        return Taint(self.key, self.value, self.effect)


class TolerationBody(Body):
    key: str = Field(default="", description="empty: every taint")
    value: str | None = Field(default=None, description="null: any value")
    effect: EffectName | None = Field(default=None, description="null: any effect")

    def to_model(self) -> Toleration:
        return Toleration(self.key, self.value, self.effect)


class WishBody(Body):
    weight: int = Field(default=1, ge=1, le=100)
    term: list[RequirementBody]

    def to_model(self) -> NodeWish:
        return NodeWish(self.weight, tuple(each.to_model() for each in self.term))


class GuestBody(Body):
    """A pod that is not ours but takes room."""

    id: Name
    request: ResourcesBody = ResourcesBody()
    kind: Annotated[GuestKind, Field(strict=False)] = Field(
        default=GuestKind.OTHER, description="serving: goes before training; other: simply in the way"
    )
    devices: list[Name] = Field(default_factory=list, description="the GPUs it uses, where known")
    pod: PodBody | None = Field(default=None, description="what it is to pods beside it; null: no rule asks")

    def to_model(self) -> Guest:
        pod = None if self.pod is None else self.pod.to_model()
        return Guest(self.id, self.request.to_model(), self.kind, tuple(map(DeviceId, self.devices)), pod)


class NodeBody(Body):
    id: Name
    allocatable: ResourcesBody
    accelerator: str = Field(default="", description="the GPU type; names the pool. Empty: a node without GPUs")
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[TaintBody] = Field(default_factory=list)
    ready: bool = True
    cordoned: bool = Field(
        default=False, description="true: nothing new comes here, and what is here is on its way out"
    )
    doubt: Annotated[Doubt, Field(strict=False)] | None = Field(
        default=None,
        description="why nothing new comes while what is here stays: notReady, for too short a time to be believed, or"
        " flapping; absent: there is no doubt",
    )
    devices: list[DeviceBody] = Field(
        default_factory=list, description="empty: as many whole cards as allocatable, of unknown memory"
    )
    guests: list[GuestBody] = Field(default_factory=list)

    def to_model(self) -> Node:
        return Node(
            id=NodeId(self.id),
            allocatable=self.allocatable.to_model(),
            accelerator=self.accelerator,
            labels=tuple(sorted(self.labels.items())),
            taints=tuple(taint.to_model() for taint in self.taints),
            ready=self.ready,
            cordoned=self.cordoned,
            doubt=self.doubt,
            devices=tuple(device.to_model() for device in self.devices),
            guests=tuple(guest.to_model() for guest in self.guests),
        )
