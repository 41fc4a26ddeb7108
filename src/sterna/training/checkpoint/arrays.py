"""NumPy arrays and torch tensors as stretches of memory with a description, and back.

Neither library is imported to save: a value can only be theirs if the program has imported it. Tensors come back on
the CPU; loading them into a model moves them. Tensors that shared a storage share it again.
"""

import base64
import importlib
import math
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, short
from sterna.training.checkpoint.checkpoint_values import Json
from sterna.training.checkpoint.memory import Part, writable

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_DTYPE = re.compile(r"[<>|=]?[?A-Za-z]\d{0,10}(?:\[[0-9A-Za-z/]{1,20}\])?")  # "<f8", "|S5", "<M8[25s]": no expressions
_QUANTIZED = ("qint", "quint")  # never saved; a scale would have to come with them
_STORAGE_ALIGNMENT = 16  # of a shared storage's start, so that views of any dtype into it stay aligned


class Tensors:
    """torch tensors of one tree, gathered first and given their parts together, since some share their memory."""

    def __init__(self, torch: Any, lent: frozenset[int]) -> None:
        self._torch = torch
        self._lent = lent
        self._plain_types = {torch.Tensor, torch.nn.Parameter}
        self._dtype_names: dict[Any, str] = {}
        self._copies: dict[Any, Any] = {}  # of tensors on other devices
        self._by_storage: dict[int, list[tuple[Any, list[Any]]]] = {}

    def recognises(self, value: object) -> bool:
        return isinstance(value, self._torch.Tensor)

    def node(self, tensor: Any) -> dict[str, Json]:
        """The description of a tensor; its buffer is filled in by `place`. Raises CheckpointProblem."""
        if type(tensor) not in self._plain_types or tensor.layout is not self._torch.strided or tensor.is_quantized:
            raise CheckpointProblem(f"a {_described(tensor)}: only plain dense tensors can be restored")
        if not tensor.is_cpu:
            if tensor.is_meta:
                raise CheckpointProblem("a tensor on the meta device has no values")
            tensor = self._from_device(tensor)
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        name = self._dtype_names.get(tensor.dtype)
        if name is None:
            name = self._dtype_names[tensor.dtype] = str(tensor.dtype).removeprefix("torch.")
        node: list[Any] = [-1, name, list(tensor.shape)]  # buffer (-1: no elements), dtype, shape[, strides, offset]
        storage = tensor.untyped_storage().data_ptr() if tensor.numel() else 0
        if storage:
            self._by_storage.setdefault(storage, []).append((tensor, node))
        return {"tensor": node}

    def place(self, add: Callable[[Part], int]) -> None:
        """Give every tensor its buffer: `add` takes the memory and answers with the buffer's number."""
        for storage, members in self._by_storage.items():
            if len(members) == 1:
                tensor, node = members[0]
                self._place_alone(tensor, node, add)
            else:
                self._place_together(storage, members, add)

    def _from_device(self, tensor: Any) -> Any:
        """A copy on the CPU; the same one for a tensor that stands in two places, as tied weights do."""
        key = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        copy = self._copies.get(key)
        if copy is None:
            copy = self._copies[key] = tensor.detach().cpu()
        return copy

    def _place_alone(self, tensor: Any, node: list[Any], add: Callable[[Part], int]) -> None:
        elements, address, steady = tensor.numel(), tensor.data_ptr(), False
        if not tensor.is_contiguous():
            strides, span = tensor.stride(), _span(tensor.shape, tensor.stride())
            if span <= elements:  # transposed, channels last, expanded: the memory is all used, only in another order
                node += [list(strides), 0]
                elements = span
            else:  # a thin slice of something big: its values are enough
                tensor = tensor.contiguous()
                address, steady = tensor.data_ptr(), True
        node[0] = add(self._part(address, elements * tensor.itemsize, (tensor,), steady))

    def _place_together(self, storage: int, members: list[tuple[Any, list[Any]]], add: Callable[[Part], int]) -> None:
        start = min(tensor.data_ptr() for tensor, _ in members)
        start -= (start - storage) % _STORAGE_ALIGNMENT
        end = max(tensor.data_ptr() + _span(tensor.shape, tensor.stride()) * tensor.itemsize for tensor, _ in members)
        end += (start - end) % _STORAGE_ALIGNMENT
        end = min(end, storage + members[0][0].untyped_storage().nbytes())
        number = add(self._part(start, end - start, tuple(tensor for tensor, _ in members), False))
        for tensor, node in members:
            node[0] = number
            node += [list(tensor.stride()), (tensor.data_ptr() - start) // tensor.itemsize]

    def _part(self, address: int, nbytes: int, tensors: tuple[Any, ...], steady: bool) -> Part:
        if self._lent and not steady and all(tensor.data_ptr() in self._lent for tensor in tensors):
            return Part(address, nbytes, tensors, True, tuple((tensor, tensor._version) for tensor in tensors))
        return Part(address, nbytes, tensors, steady)


class Arrays:
    """NumPy arrays and scalars of one tree."""

    def __init__(self, numpy: Any, add: Callable[[Part], int]) -> None:
        self._numpy = numpy
        self._add = add
        self._numbers: dict[int, int] = {}  # by id of the array, which its part keeps alive

    def node(self, value: Any) -> dict[str, Json] | None:
        """The description of an array or scalar. None: it is neither. Raises CheckpointProblem."""
        if isinstance(value, self._numpy.ndarray):
            return {"array": self._array(value)}
        if isinstance(value, self._numpy.generic):
            raw = value.tobytes()[: value.dtype.itemsize]  # of an empty string NumPy gives a few bytes more
            return {"scalar": [_dtype_description(value.dtype), base64.b64encode(raw).decode("ascii")]}
        return None

    def _array(self, array: Any) -> Json:
        numpy = self._numpy
        if type(array) not in (numpy.ndarray, numpy.memmap):
            raise CheckpointProblem(f"a {type(array).__name__} is not a plain NumPy array")
        description = _dtype_description(array.dtype)
        if array.size and not array.itemsize:
            raise CheckpointProblem(f"an array of {array.dtype}, whose elements have no bytes")
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        return [self._number(array) if array.size else -1, description, list(array.shape), order]

    def _number(self, array: Any) -> int:
        known = self._numbers.get(id(array))
        if known is None:
            contiguous = array.flags.forc
            memory = array if contiguous else array.copy(order="C")
            address = memory.__array_interface__["data"][0]
            known = self._add(Part(address, memory.nbytes, (array, memory), not contiguous))
            self._numbers[id(array)] = known
        return known


def tensor_from(node: Any, base: Callable[[int], Any]) -> Any:
    """The tensor that a node describes; `base` gives the memory of a buffer as a tensor of bytes."""
    torch = imported("torch")
    number, name, shape, *more = node
    dtype = getattr(torch, name, None) if isinstance(name, str) and _NAME.fullmatch(name) else None
    if not isinstance(dtype, torch.dtype) or name.startswith(_QUANTIZED):
        raise Damaged(f"the archive has a tensor of dtype {short(name)}, which this torch does not know")
    _check_shape(shape)
    if number == -1:
        if math.prod(shape):
            raise Damaged("the archive has a tensor with elements but without memory")
        return torch.empty(shape, dtype=dtype)
    memory = base(number)
    strides, offset = more if more else (None, 0)
    used = offset + (math.prod(shape) if strides is None else _span(shape, _checked_strides(strides, shape)))
    elements = memory.numel() // dtype.itemsize
    if not _whole(offset) or used > elements:
        raise Damaged("the archive has a tensor that reaches beyond its memory")
    typed = memory[: elements * dtype.itemsize].view(dtype)
    return typed[:used].reshape(shape) if strides is None else typed.as_strided(shape, strides, offset)


def array_from(node: Any, base: Callable[[int], Any]) -> Any:
    """The array that a node describes; `base` gives the memory of a buffer as an array of bytes."""
    number, description, shape, order = node
    dtype = _dtype_from(description)
    _check_shape(shape)
    if order not in ("C", "F"):
        raise Damaged(f"the archive has an array of order {short(order)}")
    if number == -1:
        if math.prod(shape):
            raise Damaged("the archive has an array with elements but without memory")
        return imported("numpy").empty(shape, dtype=dtype, order=order)
    memory = base(number)
    if not dtype.itemsize or math.prod(shape) * dtype.itemsize != memory.nbytes:
        raise Damaged("the archive has an array whose shape is not that of its memory")
    return memory.view(dtype).reshape(shape, order=order)


def scalar_from(node: Any) -> Any:
    """The NumPy scalar that a node describes. Raises Damaged."""
    numpy = imported("numpy")
    description, text = node
    dtype = _dtype_from(description)
    raw = base64.b64decode(text, validate=True)
    if len(raw) != dtype.itemsize:
        raise Damaged("the archive has a NumPy scalar of the wrong length")
    return numpy.frombuffer(raw, dtype=dtype)[0] if raw else numpy.zeros(1, dtype=dtype)[0]


def empty_tensor(nbytes: int) -> tuple[Any, memoryview]:
    """Memory for a buffer as torch likes it (its own allocator, aligned), and a window to fill it."""
    tensor = imported("torch").empty(nbytes, dtype=imported("torch").uint8)
    return tensor, writable(tensor.data_ptr(), nbytes) if nbytes else memoryview(b"")


def empty_array(nbytes: int) -> tuple[Any, memoryview]:
    array = imported("numpy").empty(nbytes, dtype="u1")
    return array, memoryview(array)


def imported(name: str) -> Any:
    """A library whose data is being loaded."""
    module = sys.modules.get(name)
    if module is not None:
        return module
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CheckpointProblem(f"this checkpoint holds data of {name}, which is not installed: {error}") from error


def _dtype_description(dtype: Any) -> Json:
    numpy = imported("numpy")
    if dtype.hasobject:
        raise CheckpointProblem("an array of Python objects; give it a numeric or string dtype")
    if dtype.type.__module__.partition(".")[0] == "ml_dtypes":  # bfloat16 and friends, whose own names NumPy forgets
        return f"ml_dtypes.{dtype.name}"
    if dtype.kind not in "biufcSUmMV":
        raise CheckpointProblem(f"an array of {dtype}, which is not a plain dtype of NumPy")
    described: Json = numpy.lib.format.dtype_to_descr(dtype)
    return described


def _dtype_from(description: Any) -> Any:
    numpy = imported("numpy")
    if isinstance(description, str) and description.startswith("ml_dtypes."):
        name = description.removeprefix("ml_dtypes.")
        kind = getattr(imported("ml_dtypes"), name, None) if _NAME.fullmatch(name) else None
        if not (isinstance(kind, type) and issubclass(kind, numpy.generic)):
            raise Damaged(f"the archive has an array of dtype {short(description)}, which is not known here")
        return numpy.dtype(kind)
    dtype = numpy.lib.format.descr_to_dtype(_as_tuples(description))
    if dtype.hasobject:
        raise Damaged("the archive has an array of Python objects: those are never loaded")
    return dtype


def _as_tuples(description: Any) -> Any:
    """JSON knows no tuples, and NumPy wants its fields as such."""
    if isinstance(description, str):
        if _DTYPE.fullmatch(description) is None:  # NumPy would hand it to a parser of Python expressions
            raise Damaged(f"the archive has an array of dtype {short(description)}, which is none")
        return description
    if len(description) == 2 and isinstance(description[0], str) and isinstance(description[1], list):
        return description[0], tuple(description[1])  # a dtype with a shape of its own
    fields = []
    for name, kind, *shape in description:
        fields.append((tuple(name) if isinstance(name, list) else name, _as_tuples(kind), *map(tuple, shape)))
    return fields


def _span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements lie between the first and the last, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _check_shape(shape: Any) -> None:
    if not isinstance(shape, list) or len(shape) > 64 or not all(_whole(size) for size in shape):
        raise Damaged(f"the archive has a shape that is none: {short(shape)}")


def _checked_strides(strides: Any, shape: list[int]) -> list[int]:
    if not isinstance(strides, list) or len(strides) != len(shape) or not all(_whole(stride) for stride in strides):
        raise Damaged(f"the archive has strides that do not fit the shape {short(shape)}: {short(strides)}")
    return strides


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _described(tensor: Any) -> str:
    quantized = "quantized " if tensor.is_quantized else ""
    return f"{quantized}{type(tensor).__name__} of layout {str(tensor.layout).removeprefix('torch.')}"
