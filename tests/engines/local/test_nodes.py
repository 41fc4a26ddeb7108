"""The nodes of one machine."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from sterna.engines.local.world.machine_nodes import ThisMachine, VirtualNodes, cpus_usable, offered_nodes
from sterna.model.errors import InvalidRequest


def test_virtual_nodes_share_the_machine_and_have_gpus_in_name_only():
    offers = offered_nodes(VirtualNodes(12, 2, cpus_per_node=1.5, memory_bytes_per_node=1 << 30))
    assert [offer.node.id for offer in offers][:2] == ["node-01", "node-02"]
    node = offers[0].node
    assert node.allocatable == (1500, 1 << 30, 2000, 0)
    assert [device.id for device in node.devices] == ["0", "1"]
    assert offers[0].virtual
    assert "shares this machine" in offers[0].limits
    assert "its 1.5 CPUs together" in offers[0].limits


def test_virtual_nodes_without_gpus_have_no_accelerator():
    (offer,) = offered_nodes(VirtualNodes(1))
    assert (offer.node.accelerator, offer.node.devices) == ("", ())
    assert offer.node.allocatable.cpu_milli == len(cpus_usable()) * 1000


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        (VirtualNodes(0), "nodes"),
        (VirtualNodes(1, -1), "gpus per node"),
        (VirtualNodes(1, cpus_per_node=0), "cpus per node"),
        (VirtualNodes(1, memory_bytes_per_node=0), "memory per node"),
    ],
)
def test_nodes_that_cannot_be(choice, field):
    with pytest.raises(InvalidRequest, match=field):
        offered_nodes(choice)


def test_the_machine_itself_offers_what_this_process_may_use():
    (offer,) = offered_nodes(ThisMachine("here"))
    assert offer.node.id == "here"
    assert offer.node.allocatable.cpu_milli == len(cpus_usable()) * 1000
    assert offer.node.allocatable.memory_bytes > 0
    assert not offer.virtual


class _Trouble(Exception):
    pass


def nvml(count: int, *, broken: bool = False) -> ModuleType:
    """What of NVML is used, with `count` cards."""

    def begin() -> None:
        if broken:
            raise _Trouble

    fake = ModuleType("pynvml")
    fake.__dict__.update(
        NVMLError=_Trouble,
        nvmlInit=begin,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetName=lambda _: b"Tesla V100-SXM2",
        nvmlDeviceGetUUID=lambda number: f"GPU-{number}",
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(total=16 << 30),
    )
    return fake


def test_gpus_are_found_by_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml(2))
    (offer,) = offered_nodes(ThisMachine())
    assert (offer.node.accelerator, offer.node.allocatable.gpu_milli) == ("tesla-v100-sxm2", 2000)
    assert [tuple(device) for device in offer.node.devices] == [("GPU-0", 16 << 30), ("GPU-1", 16 << 30)]


def test_an_nvml_that_does_not_answer_is_a_machine_without_gpus(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml(2, broken=True))
    (offer,) = offered_nodes(ThisMachine())
    assert (offer.node.accelerator, offer.node.devices) == ("", ())
