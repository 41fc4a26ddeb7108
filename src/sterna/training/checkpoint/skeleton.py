"""A tree of values as JSON, and back. Arrays, tensors and long bytes are not in it: it only says which buffer they are.

Plain Python comes back bit for bit and as the type it was: NaN payloads, -0.0, integers of any size, tuple against
list, dict keys that are no strings, OrderedDict (with the `_metadata` of a torch state dict), Counter, deque. What is
not listed here is refused by name instead of being turned into something similar; a NamedTuple, for instance, would
need its class to be found again, and finding classes by name is how loading turns into running code. Two places that
hold the same list come back as two lists; arrays and tensors that share memory still share it.
"""

import base64
import math
import struct
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from sterna.training.checkpoint.checkpoint_problems import CheckpointProblem, Damaged, reading
from sterna.training.checkpoint.checkpoint_values import FilesToSave, Json

DEPTH_MAX = 200  # nested deeper than this: most likely a container that holds itself
INLINE_BYTES_MAX = 256  # longer ones go to a buffer
_INT_INLINE = 1 << 63


class LeavesOut(Protocol):
    """Where the encoder leaves what does not fit in JSON. Answers are what the skeleton holds in its place."""

    def foreign(self, value: object) -> dict[str, Json] | None: ...  # an array or tensor; None: never seen such a thing
    def long_bytes(self, value: bytes | bytearray) -> Json: ...
    def files(self, value: FilesToSave) -> Json: ...


class LeavesIn(Protocol):
    """Where the decoder finds them again."""

    def foreign(self, kind: str, node: Any) -> object: ...  # raises KeyError for a kind it does not know
    def long_bytes(self, node: Any) -> bytes: ...
    def own_bytes(self, node: Any) -> bytearray: ...
    def files(self, node: Any) -> object: ...


def encoded(tree: object, leaves: LeavesOut) -> Json:
    """The skeleton of a tree. Nothing in it is shared with the tree, which may change as soon as this returns."""
    try:
        return _Encoder(leaves).of(tree, 0)
    except _Refused as refused:
        place = "".join(f"[{key!r}]" for key in reversed(refused.path)) or "the value itself"
        raise CheckpointProblem(f"cannot be saved: {place}: {refused.why}") from None
    except RecursionError:
        raise CheckpointProblem(f"cannot be saved: nested deeper than {DEPTH_MAX} levels, or it holds itself") from None
    except RuntimeError as error:  # a dict that another thread changes meanwhile, a tensor without memory
        raise CheckpointProblem(f"cannot be saved: {error}") from error


def decoded(skeleton: Any, leaves: LeavesIn) -> Any:
    """The tree again. Whatever does not fit the format is `Damaged`: no other exception leaves here."""
    with reading("the skeleton of an archive"):
        return _Decoder(leaves).of(skeleton)


class _Refused(Exception):
    def __init__(self, why: str) -> None:
        self.why = why
        self.path: list[object] = []  # filled from the inside out while the exception travels up


class _Encoder:
    def __init__(self, leaves: LeavesOut) -> None:
        self._leaves = leaves
        self._by_type: dict[type, Callable[[Any, int], Json]] = {
            str: lambda value, _: _text(value),
            int: lambda value, _: value if -_INT_INLINE <= value < _INT_INLINE else {"int": hex(value)},
            float: lambda value, _: value if math.isfinite(value) else {"float": _bits(value)},
            bool: lambda value, _: value,
            type(None): lambda value, _: value,
            complex: lambda value, _: {"complex": [_bits(value.real), _bits(value.imag)]},
            bytes: lambda value, _: {"bytes": self._bytes(value)},
            bytearray: lambda value, _: {"bytearray": self._bytes(value)},
            list: self._items,
            dict: lambda value, depth: {"dict": self._pairs(value, depth)},
            tuple: lambda value, depth: {"tuple": self._items(value, depth)},
            set: lambda value, depth: {"set": self._unordered(value, depth)},
            frozenset: lambda value, depth: {"frozenset": self._unordered(value, depth)},
            Counter: lambda value, depth: {"counter": self._pairs(value, depth)},
            OrderedDict: self._ordered,
            deque: lambda value, depth: {"deque": [value.maxlen, self._items(value, depth)]},
            FilesToSave: lambda value, _: {"files": leaves.files(value)},
        }

    def of(self, value: Any, depth: int) -> Json:
        make = self._by_type.get(type(value))
        if make is not None:
            return make(value, depth)
        try:
            node = self._leaves.foreign(value)
        except CheckpointProblem as problem:
            raise _Refused(str(problem)) from problem
        if node is None:
            raise _Refused(_why_not(value))
        return node

    def _items(self, values: Iterable[Any], depth: int) -> list[Json]:
        depth = _deeper(depth)
        items: list[Json] = []
        try:
            for value in values:
                items.append(self.of(value, depth))  # noqa: PERF401  the index is wanted when one is refused
        except _Refused as refused:
            refused.path.append(len(items))
            raise
        return items

    def _pairs(self, values: dict[Any, Any], depth: int) -> list[Json]:
        depth = _deeper(depth)
        pairs: list[Json] = []
        key: object = None
        try:
            for key, value in values.items():
                pairs.append([self.of(key, depth), self.of(value, depth)])
        except _Refused as refused:
            refused.path.append(key)
            raise
        return pairs

    def _unordered(self, values: Iterable[Any], depth: int) -> list[Json]:
        return sorted(self._items(values, depth), key=repr)  # equal sets are written alike whatever the hash seed

    def _ordered(self, value: Any, depth: int) -> Json:
        metadata = getattr(value, "_metadata", None)  # torch keeps the versions of modules there
        return {"ordered": [self._pairs(value, depth), None if metadata is None else self.of(metadata, _deeper(depth))]}

    def _bytes(self, value: bytes | bytearray) -> Json:
        if len(value) <= INLINE_BYTES_MAX:
            return base64.b64encode(value).decode("ascii")
        return self._leaves.long_bytes(value)


class _Decoder:
    def __init__(self, leaves: LeavesIn) -> None:
        self._leaves = leaves
        self._by_kind: dict[str, Callable[[Any], Any]] = {
            "str": lambda node: base64.b64decode(node, validate=True).decode("utf-8", "surrogatepass"),
            "int": lambda node: int(node, 16),
            "float": _number,
            "complex": lambda node: complex(_number(node[0]), _number(node[1])),
            "bytes": lambda node: _inline(node) if isinstance(node, str) else leaves.long_bytes(node),
            "bytearray": lambda node: bytearray(_inline(node)) if isinstance(node, str) else leaves.own_bytes(node),
            "dict": lambda node: dict(self._pairs(node)),
            "tuple": lambda node: tuple(self._items(node)),
            "set": lambda node: set(self._items(node)),
            "frozenset": lambda node: frozenset(self._items(node)),
            "counter": lambda node: Counter(dict(self._pairs(node))),
            "ordered": self._ordered,
            "deque": lambda node: deque(self._items(node[1]), maxlen=node[0]),
            "files": leaves.files,
        }

    def of(self, node: Any) -> Any:
        if isinstance(node, list):
            return self._items(node)
        if not isinstance(node, dict):
            return node
        if len(node) != 1:
            raise Damaged(f"the skeleton of an archive has a node of {len(node)} kinds, expected one")
        ((kind, inner),) = node.items()
        make = self._by_kind.get(kind)
        return make(inner) if make is not None else self._leaves.foreign(kind, inner)

    def _items(self, nodes: Any) -> list[Any]:
        if not isinstance(nodes, list):
            raise Damaged("the skeleton of an archive has a sequence that is none")
        return [self.of(node) for node in nodes]

    def _pairs(self, nodes: Any) -> list[tuple[Any, Any]]:
        return [(self.of(key), self.of(value)) for key, value in nodes]

    def _ordered(self, node: Any) -> Any:
        pairs, metadata = node
        value = OrderedDict(self._pairs(pairs))
        if metadata is not None:
            value._metadata = self.of(metadata)  # type: ignore[attr-defined]
        return value


def _deeper(depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise _Refused(f"nested deeper than {DEPTH_MAX} levels, or it holds itself")
    return depth + 1


def _text(value: str) -> Json:
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates: JSON would join two of them into one character
        return {"str": base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")}
    return value


def _inline(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def _number(bits: str) -> float:
    number: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return number


def _why_not(value: object) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return f"a {kind} is a NamedTuple, and its class cannot be restored: save value._asdict() instead"
    if hasattr(value, "state_dict"):
        return f"a {kind} has a state_dict(): save that instead"
    if kind.startswith(("tensorflow.", "keras.")):
        return f"a {kind} is saved as an array: give its .numpy() value or model.get_weights()"
    return (
        f"a {kind} is none of the types that can be restored without running code: plain Python values and"
        " containers, NumPy arrays, torch tensors"
    )
