"""Trees of values for the tests: made at random, and compared bit for bit."""

import struct
import sys
from collections import Counter, OrderedDict, deque
from typing import Any

from hypothesis import strategies as st

_numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**60), max_value=10**60),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 5e-324, 1.7976931348623157e308]),
)
_texts = st.one_of(st.text(max_size=20), st.sampled_from(["\ud800", "\ud83d\ude00"[:1] + "\ude00", "a\x00b", "😀"]))
_leaves = st.one_of(
    st.none(),
    st.booleans(),
    _numbers,
    _texts,
    st.binary(max_size=600),
    st.binary(max_size=300).map(bytearray),
    st.complex_numbers(allow_nan=True),
)
_keys = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), _texts, st.binary(max_size=8)),
    lambda inner: st.tuples(inner, inner),
    max_leaves=4,
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(_keys, inner, max_size=4),
        st.dictionaries(_keys, inner, max_size=4).map(OrderedDict),
        st.dictionaries(_texts, st.integers(), max_size=4).map(Counter),
        st.lists(inner, max_size=4).map(lambda items: deque(items, maxlen=7)),
        st.sets(_keys, max_size=4),
        st.frozensets(_keys, max_size=4),
    )


trees = st.recursive(_leaves, _containers, max_leaves=25)


def alike(left: Any, right: Any) -> bool:
    """Equal to the last bit, and of the same types throughout."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    if isinstance(left, complex):
        return alike(left.real, right.real) and alike(left.imag, right.imag)
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=False)
        same = all(alike(mine, theirs) and alike(a, b) for (mine, a), (theirs, b) in pairs)
        return len(left) == len(right) and same and _metadata_of(left) == _metadata_of(right)
    if isinstance(left, (list, tuple, deque)):
        same = all(alike(one, other) for one, other in zip(left, right, strict=False))
        return len(left) == len(right) and same and getattr(left, "maxlen", 0) == getattr(right, "maxlen", 0)
    if type(left).__module__ == "numpy":
        return bool(left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes())
    if type(left).__module__ == "torch":
        torch = sys.modules["torch"]
        same_kind = left.dtype == right.dtype and left.shape == right.shape
        return bool(same_kind and torch.equal(_raw(torch, left), _raw(torch, right)))
    return bool(left == right)


def _metadata_of(value: Any) -> Any:
    return getattr(value, "_metadata", None)


def _raw(torch: Any, tensor: Any) -> Any:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
