"""Service DNS for pods on real nodes: A records of Services, as CoreDNS would answer, and NXDOMAIN for the rest.

A headless Service resolves to its ready pods, or to all with `publishNotReadyAddresses`; one with an address of its own
to that; HOSTNAME.SERVICE to the pod of that hostname.
"""

import asyncio
import random
import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from tests.cluster.looping import LoopThread
from tests.cluster.requests import Access, Body
from tests.cluster.talking import Talk

ZONE = ".svc.cluster.local"
ADDRESS, ANY = 1, 255  # kinds of question
NO_SUCH_NAME = 3
Objects = dict[tuple[str, str], Body]  # by namespace and name


class ServiceDns:
    """Listens on port 53 of `address` while it is entered."""

    def __init__(self, access: Access, address: str) -> None:
        self._access = access
        self._address = address
        self._services: Objects = {}
        self._endpoints: Objects = {}
        self._thread = LoopThread("service-dns")

    def __enter__(self) -> Self:
        self._thread.run(self._open())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._transport.close()
        self._thread.run(self._talk.close())
        self._thread.stop()

    async def _open(self) -> None:
        self._talk = Talk(self._access)
        self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Answering(self._services, self._endpoints), local_addr=(self._address, 53)
        )
        self._following = [
            asyncio.create_task(self._follow("/api/v1/services", self._services)),
            asyncio.create_task(self._follow("/api/v1/endpoints", self._endpoints)),
        ]

    async def _follow(self, path: str, objects: Objects) -> None:
        async for change in self._talk.follow(path):
            if change.type == "LISTED":
                objects.clear()
            for raw in change.objects:
                body: Body = msgspec.json.decode(raw)
                key = body["metadata"]["namespace"], body["metadata"]["name"]
                if change.type == "DELETED":
                    objects.pop(key, None)
                else:
                    objects[key] = body


def addresses_of(name: str, services: Objects, endpoints: Objects) -> list[str] | None:
    """None: there is no such name."""
    host, service, namespace = _parts(name)
    found = services.get((namespace, service))
    if found is None:
        return None
    own = found["spec"].get("clusterIP", "None")
    if not host and own != "None":
        return [own]
    known: Mapping[str, Any] = endpoints.get((namespace, service), {})
    kinds = ["addresses", *(["notReadyAddresses"] if found["spec"].get("publishNotReadyAddresses") else [])]
    behind = [each for subset in known.get("subsets") or [] for kind in kinds for each in subset.get(kind) or []]
    addresses = [each["ip"] for each in behind if not host or each.get("hostname") == host]
    return None if host and not addresses else addresses


def _parts(name: str) -> tuple[str, str, str]:
    """Host, service and namespace; all empty if the name is not ours."""
    lowered = name.lower().rstrip(".")
    labels = lowered.removesuffix(ZONE).split(".") if lowered.endswith(ZONE) else []
    match labels:
        case [service, namespace]:
            return "", service, namespace
        case [host, service, namespace]:
            return host, service, namespace
    return "", "", ""


class _Answering(asyncio.DatagramProtocol):
    def __init__(self, services: Objects, endpoints: Objects) -> None:
        self._services = services
        self._endpoints = endpoints

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        name, kind, question = _read(data)
        addresses = addresses_of(name, self._services, self._endpoints)
        told = random.sample(addresses, len(addresses)) if addresses and kind in (ADDRESS, ANY) else []
        code = NO_SUCH_NAME if addresses is None else 0
        flags = 0x8480 | code | (struct.unpack("!H", data[2:4])[0] & 0x0100)  # an answer, with authority
        records = [b"\xc0\x0c" + struct.pack("!HHIH", ADDRESS, 1, 1, 4) + socket.inet_aton(each) for each in told]
        header = data[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
        self._transport.sendto(header + question + b"".join(records), addr)


def _read(data: bytes) -> tuple[str, int, bytes]:
    """Name and kind of the first question, and the question as it came."""
    at, labels = 12, []
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode("ascii", "replace"))
        at += length + 1
    (kind,) = struct.unpack("!H", data[at + 1 : at + 3])
    return ".".join(labels), kind, data[12 : at + 5]
