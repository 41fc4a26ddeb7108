"""Held ports: the worker they are meant for binds them, the kernel gives them to nobody else, none is given twice."""

import errno
import socket
import struct
import sys

import pytest

from sterna.engines.local.launch.warden.client import WardenClient
from sterna.model.errors import InvalidRequest
from tests.engines.local.warden.keeping import Keeping, ended
from tests.needs import needs

IP_LOCAL_PORT_RANGE = 51  # of a socket: the kernel picks "some port" from it; Linux 6.3

PLAIN = """
import socket, sys
server = socket.socket(socket.{family}, socket.SOCK_STREAM)
for option in {options}:
    server.setsockopt(socket.SOL_SOCKET, option, 1)
server.bind(("{address}", int(sys.argv[1])))
server.listen()
client = socket.create_connection(("{reach}", int(sys.argv[1])), timeout=20)
server.accept()[0].sendall(b"reached")
print(client.recv(7).decode())
"""
HTTP = """
import http.server, sys, threading, urllib.request
server = http.server.ThreadingHTTPServer(("", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("reached" if urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/", timeout=20).status == 200 else "no")
"""
ASYNCIO = """
import asyncio, sys
async def main():
    async def greet(reader, writer):
        writer.write(b"reached"); writer.close()
    await asyncio.start_server(greet, "127.0.0.1", int(sys.argv[1]))
    reader, _ = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    print((await reader.read()).decode())
asyncio.run(main())
"""
TORCH = """
import sys
from torch.distributed import TCPStore
port, libuv = int(sys.argv[1]), sys.argv[2] == "libuv"
server = TCPStore("127.0.0.1", port, 1, True, use_libuv=libuv)
client = TCPStore("127.0.0.1", port, 1, False, use_libuv=libuv)
client.set("word", "reached")
print(server.get("word").decode())
"""
TENSORFLOW = """
import sys
import tensorflow as tf
address = f"127.0.0.1:{sys.argv[1]}"
server = tf.distribute.Server({"worker": [address]}, job_name="worker", task_index=0, protocol="grpc")
tf.config.experimental_connect_to_host(server.target)
with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
    print("reached" if float(tf.constant(2.0) * 3.0) == 6.0 else "no")
"""


async def said_on_a_held_port(keeping: Keeping, client: WardenClient, program: str, *words: str) -> str:
    (port,) = await client.ports("job", 1)
    argv = (sys.executable, "-c", program, str(port), *words)
    await client.start(keeping.launch("server", *argv, env={"PATH": "/usr/bin:/bin", "HOME": str(keeping.home)}))
    end = (await ended(client, "server")).exited
    log = keeping.log("server").read_text()
    assert end is not None
    assert end.code == 0, log
    return log.split()[-1]


@pytest.mark.parametrize("options", ["SO_REUSEADDR", "SO_REUSEPORT", "both"])
@pytest.mark.parametrize(
    ("family", "address"), [("AF_INET", "127.0.0.1"), ("AF_INET", "0.0.0.0"), ("AF_INET6", "::"), ("AF_INET6", "::1")]
)
def test_a_server_with_either_reuse_option_binds_its_held_port(
    keeping: Keeping, family: str, address: str, options: str
) -> None:
    names = ["SO_REUSEADDR", "SO_REUSEPORT"] if options == "both" else [options]
    numbers = [int(getattr(socket, name)) for name in names]
    reach = address if "1" in address else {"::": "::1", "0.0.0.0": "127.0.0.1"}[address]
    program = PLAIN.format(family=family, address=address, options=numbers, reach=reach)

    async def test(client: WardenClient) -> None:
        assert await said_on_a_held_port(keeping, client, program) == "reached"

    keeping.run(test)


@pytest.mark.parametrize("program", [HTTP, ASYNCIO], ids=["http.server", "asyncio"])
def test_servers_of_the_standard_library_bind_their_held_port(keeping: Keeping, program: str) -> None:
    async def test(client: WardenClient) -> None:
        assert await said_on_a_held_port(keeping, client, program) == "reached"

    keeping.run(test)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["libuv", "plain"])
def test_torch_tcpstore_binds_its_held_port(keeping: Keeping, backend: str) -> None:
    needs("torch")

    async def test(client: WardenClient) -> None:
        assert await said_on_a_held_port(keeping, client, TORCH, backend) == "reached"

    keeping.run(test)


@pytest.mark.slow
def test_a_tensorflow_server_binds_its_held_port(keeping: Keeping) -> None:
    needs("tensorflow")

    async def test(client: WardenClient) -> None:
        assert await said_on_a_held_port(keeping, client, TENSORFLOW) == "reached"

    keeping.run(test)


def test_the_kernel_gives_a_held_port_to_nobody_who_asks_for_some_port(keeping: Keeping) -> None:
    """Each socket here may have no other port than the held one, so being refused is the whole answer."""

    async def test(client: WardenClient) -> None:
        (port,) = await client.ports("job", 1)
        only = struct.pack("I", port | port << 16)
        with socket.create_server(("127.0.0.1", 0)) as server:
            for reuse_address in (0, 1):
                for reuse_port in (0, 1):
                    for wish in ("bind", "connect"):
                        with socket.socket() as other:
                            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse_address)
                            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse_port)
                            try:
                                other.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, only)
                            except OSError:
                                pytest.skip("this kernel picks from one range for all")
                            with pytest.raises(OSError) as caught:
                                other.bind(("127.0.0.1", 0)) if wish == "bind" else other.connect(server.getsockname())
                        assert caught.value.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)

    keeping.run(test)


def test_a_stranger_who_names_a_held_port_is_refused(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        (port,) = await client.ports("job", 1)
        with socket.socket() as stranger, pytest.raises(OSError, match="Address already in use"):
            stranger.bind(("127.0.0.1", port))
        await client.release_ports("job")
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", port))

    keeping.run(test)


def test_ports_are_the_same_for_the_same_owner_and_never_shared(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        first = await client.ports("a", 50)
        assert await client.ports("a", 50) == first
        assert await client.ports("a", 20) == first[:20]
        more = await client.ports("a", 60)
        assert more[:50] == first
        others = await client.ports("b", 200)
        assert len({*more, *others}) == 260
        assert (await client.list_all()).ports == {"a": more, "b": others}
        client.close()
        again = await keeping.client()
        assert await again.ports("a", 60) == more  # they outlive the engine's connection
        await again.forget("a")  # an owner that is a process gives them back with it
        await again.release_ports("b", "never-heard-of")
        assert (await again.list_all()).ports == {}

    keeping.run(test)


def test_more_ports_than_anyone_needs_are_refused(keeping: Keeping) -> None:
    async def test(client: WardenClient) -> None:
        with pytest.raises(InvalidRequest, match="count"):
            await client.ports("a", 10**6)
        assert await client.ports("a", 0) == ()

    keeping.run(test)
