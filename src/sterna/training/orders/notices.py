"""What the engine wants, as one process sees it: the latest orders, looked up cheaply or waited for."""

import contextlib
import os
import select
import time

from sterna.protocol import Order, Orders, WakeSocket, WorkerIdentity, read_orders
from sterna.protocol.mailbox import ORDERS_FILE

_READ_ANYWAY_S = 1.0  # a file system's clock may be too coarse to tell two quick orders apart by their stat


class Notices:
    """Orders out of a worker's mailbox. Only the first process of the worker is woken; others look by themselves."""

    def __init__(self, identity: WorkerIdentity) -> None:
        assert identity.mailbox is not None
        self._mailbox = identity.mailbox
        self._path = os.fspath(self._mailbox / ORDERS_FILE)
        self._seen: tuple[int, int, int] | None = None
        self._read_s = -_READ_ANYWAY_S
        self._socket: WakeSocket | None = None
        self.orders = Orders(seq=0, order=Order.HOLD if identity.standby else Order.RUN)
        if identity.local_rank == 0:
            with contextlib.suppress(OSError):  # no unix sockets on this file system: it then looks now and then
                self._socket = WakeSocket.of_worker(self._mailbox)

    def look(self, now_s: float) -> Orders:
        """The latest orders. Costs one call to the system when nothing has changed."""
        if self._seen is None and not os.access(self._path, os.F_OK):
            return self.orders  # most of the time there are none yet, and an exception at each step costs time
        try:
            stat = os.stat(self._path)
        except OSError:
            return self.orders
        seen = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if seen != self._seen or now_s - self._read_s >= _READ_ANYWAY_S:
            self._read(seen, now_s)
        return self.orders

    def _read(self, seen: tuple[int, int, int], now_s: float) -> None:
        orders = read_orders(self._mailbox)
        if orders is not None:
            self._seen, self._read_s = seen, now_s
            if orders.seq > self.orders.seq:
                self.orders = orders

    def wait(self, at_most_s: float) -> None:
        """Until the engine sends a wake, or so long."""
        if self._socket is None:
            time.sleep(at_most_s)
        elif select.select([self._socket], [], [], at_most_s)[0]:
            self._socket.received()

    def close(self) -> None:
        """Give the wake socket back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
