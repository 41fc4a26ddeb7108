"""Ports for servers that must come back on the same one."""

import os
import random
import socket

_chance = random.Random(os.getpid())


def free_port() -> int:
    """One that nobody listens on, below those that the kernel hands to clients: free again after a restart."""
    for _ in range(1000):
        port = _chance.randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
