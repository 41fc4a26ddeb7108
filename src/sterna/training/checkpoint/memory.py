"""Memory by its address: looking at it, and copying it without holding the interpreter's lock.

torch tensors (bfloat16 above all) offer no buffer that Python could read, but they do have an address.
"""

import ctypes
import mmap
from typing import Any, NamedTuple

_READ, _WRITE = 0x100, 0x200  # PyBUF_READ, PyBUF_WRITE
_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_view.restype = ctypes.py_object

_memmove = ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0
_arguments = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)  # to, from, bytes
copy_long = ctypes.CFUNCTYPE(ctypes.c_void_p, *_arguments)(_memmove)  # other threads run meanwhile
copy_short = ctypes.PYFUNCTYPE(ctypes.c_void_p, *_arguments)(_memmove)  # for what is done before they could begin


class Part(NamedTuple):
    """A stretch of memory that becomes one buffer of an archive."""

    address: int
    nbytes: int
    owner: object  # keeps the memory alive
    steady: bool  # it does not change while the save needs it: immutable, our own copy, or lent
    lent: tuple[tuple[Any, int], ...] = ()  # lent tensors with their version counters, which tell if they were changed


def readable(address: int, nbytes: int) -> memoryview:
    """A view of memory that must stay alive as long as the view is used."""
    view: memoryview = _view(address, nbytes, _READ)
    return view


def writable(address: int, nbytes: int) -> memoryview:
    """The same for writing."""
    view: memoryview = _view(address, nbytes, _WRITE)
    return view


def address_of_bytes(value: bytes | bytearray) -> int:
    if isinstance(value, bytearray):
        return ctypes.addressof(ctypes.c_char.from_buffer(value))
    address = ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value
    assert address is not None  # of a bytes object it never is
    return address


class Region:
    """Anonymous memory of our own, aligned to pages."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._map = mmap.mmap(-1, max(nbytes, 1))
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    @staticmethod
    def holding(data: bytes) -> "Region":
        region = Region(len(data))
        region._map[: len(data)] = data
        return region

    def touch(self) -> None:
        """Make the system back it with real pages now: the first copy into untouched memory takes ten times as long."""
        ctypes.memset(self.address, 0, self.nbytes)
