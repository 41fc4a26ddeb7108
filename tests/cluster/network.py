"""A bridge, and behind it addresses for nodes and their pods. Several clusters may have one each on the same machine.

A cluster takes the first free index; the kernel lets go of it when its process dies. Who takes an index after a crash
finds what the dead one left under that name, and removes it.
"""

import ipaddress
import json
import os
import re
import socket
import subprocess
from pathlib import Path

from tests.waiting import until

INDICES = range(16)


class Network:
    """Bridge 10.77.INDEX.1, nodes 10.77.INDEX.11 and on, pods of node N in 10.(80 + INDEX).N.0/24."""

    def __init__(self) -> None:
        self._claim, self.index = _claim()
        self.bridge = f"sterna{self.index}"
        self.address = f"10.77.{self.index}.1"
        self.mask = 24

    def up(self) -> None:
        self._remove_links()  # a dead cluster's
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self.address}/{self.mask}", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")

    def down(self) -> None:
        self._remove_links()
        self._claim.close()

    def node_address(self, number: int) -> str:
        return f"10.77.{self.index}.{10 + number}"

    def pods_of(self, number: int) -> str:
        return f"10.{80 + self.index}.{number}.0/24"

    def cable(self, number: int) -> str:
        """The bridge's end of a node's link."""
        return f"{self.bridge}n{number}"

    def plug(self, number: int, pid: int) -> None:
        """Links the namespace of process `pid` to the bridge, as eth0 there."""
        cable = self.cable(number)
        ours = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{pid}/ns/net") != ours, f"{pid} has a network of its own")
        if Path("/sys/class/net", cable).exists():  # the namespace of a killed node goes a moment after it
            _ip("link", "del", cable)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _ip("link", "set", cable, "master", self.bridge, "up")
        _ip("route", "replace", self.pods_of(number), "via", self.node_address(number))

    def switch(self, number: int, on: bool) -> None:
        """Pulls a node's cable, or puts it back."""
        _ip("link", "set", self.cable(number), "up" if on else "down")

    def _remove_links(self) -> None:
        """The bridge and every cable. A killed node's cable goes by itself, a moment later: either may win."""
        for link in Path("/sys/class/net").glob(f"{self.bridge}*"):
            if re.fullmatch(rf"{self.bridge}(n\d+)?", link.name):
                subprocess.run(["ip", "link", "del", link.name], capture_output=True, check=False)


def _claim() -> tuple[socket.socket, int]:
    """An abstract socket is as wide as the network namespace, which is as wide as the names of bridges are."""
    for index in INDICES:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0sterna-cluster-{index}")
        except OSError:
            claim.close()
            continue
        if _is_free(index):
            return claim, index
        claim.close()
    raise AssertionError(f"{len(INDICES)} clusters run on this machine already, or their addresses are in use")


def _is_free(index: int) -> bool:
    """No route of this machine leads to addresses that would be ours."""
    ours = [ipaddress.ip_network(f"10.77.{index}.0/24"), ipaddress.ip_network(f"10.{80 + index}.0.0/16")]
    routes = json.loads(subprocess.run(["ip", "-j", "-4", "route"], capture_output=True, check=True).stdout or "[]")
    theirs = [
        ipaddress.ip_network(route["dst"], strict=False)
        for route in routes
        if route["dst"] != "default" and route.get("dev") != f"sterna{index}"
    ]
    return not any(one.overlaps(other) for one in ours for other in theirs)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
