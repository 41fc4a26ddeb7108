"""A disk that does not answer: what the journal's thread writes gets stuck until it may go on."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

WAIT_S = 30.0  # for a thread on a busy machine; nothing waits as long where all is well


class BlockedDisk:
    def __init__(self) -> None:
        self.asked = threading.Event()  # set: something is stuck
        self.answers = threading.Event()  # to be set: writes come to their end
        self._write = os.write

    def write(self, descriptor: int, data: bytes) -> int:
        if threading.current_thread().name == "journal":
            self.asked.set()
            assert self.answers.wait(4 * WAIT_S)
        return self._write(descriptor, data)


@contextmanager
def blocked_disk() -> Iterator[BlockedDisk]:
    disk = BlockedDisk()
    with mock.patch("sterna.journal.rotating_files.os.write", disk.write):
        try:
            yield disk
        finally:
            disk.answers.set()
