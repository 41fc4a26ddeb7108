"""A port of loopback, taken before anything heavy is imported or started: one in use is told at once."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from sterna.model.errors import InvalidRequest

_HOST = "127.0.0.1"


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """For as long as the block runs. 0: any that is free."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that only lingers is free
        try:
            listener.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "no such port"
            expected = f"a free port ({(why or 'cannot be used').lower()}); without --port one is found"
            raise InvalidRequest(field="--port", value=port, expected=expected) from None
        listener.setblocking(False)
        yield listener
    finally:
        listener.close()
