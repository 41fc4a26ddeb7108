"""Amounts as people write them ("100m", "1.5Gi", "1e3") turned into the exact integers the core counts in.

The grammar is that of Kubernetes quantities. Whatever cannot be said exactly is rounded up, because a request that is
rounded down would overbook the node. Nothing here knows what an amount is for.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from sterna.model.errors import InvalidRequest
from sterna.model.resources import Resources

Quantity = str | int | float

LENGTH_MAX = 64  # characters; the longest quantity that means something is far shorter
EXPONENT_MAX = 30  # so that "1e999999999" costs nothing; what it would mean is beyond AMOUNT_MAX anyway
AMOUNT_MAX = (1 << 63) - 1  # in the smallest unit, as in Kubernetes

EXPECTED = 'a quantity of 0 or more, like 2, "0.5", "500m", "1e3", "16Gi"'

_SHAPE = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_DECIMAL_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES: Mapping[str | None, Fraction] = {
    None: Fraction(1),
    **{suffix: Fraction(10) ** power for suffix, power in _DECIMAL_POWERS.items()},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


def cpu_milli(quantity: Quantity, *, field: str = "cpu") -> int:
    """CPUs as thousandths: "0.5" and "500m" are 500."""
    return _whole_units(quantity, 1000, field)


def memory_bytes(quantity: Quantity, *, field: str = "memory") -> int:
    return _whole_units(quantity, 1, field)


def gpu_milli(quantity: Quantity, *, field: str = "gpu") -> int:
    """GPUs, or a share of one, as thousandths rounded up: three thirds do not fit on one card."""
    return _whole_units(quantity, 1000, field)


def exact(quantity: Quantity, *, field: str = "quantity") -> Fraction:
    """The amount as written, without rounding. Negative, endless and malformed ones are refused."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise InvalidRequest(field=field, value=quantity, expected=EXPECTED)
    if isinstance(quantity, int):
        amount = Fraction(quantity) if 0 <= quantity <= AMOUNT_MAX else None
    else:  # a float stands for the shortest text that reads back as it, which is what its author typed
        amount = _parsed(quantity if isinstance(quantity, str) else repr(quantity))
    if amount is None:
        raise InvalidRequest(field=field, value=quantity, expected=EXPECTED)
    return amount


def milli_shown(milli: int) -> int | str:
    """The shortest exact way to write thousandths: 2, or "1500m"."""
    return f"{milli}m" if milli % 1000 else milli // 1000


def effective_request(
    requests: Mapping[str, Quantity], limits: Mapping[str, Quantity], *, field: str = "resources"
) -> Resources:
    """What one container really takes: for each resource its request, or where there is none its limit.

    A cluster fills requests in from limits in just this way; counting requests alone plans such a container as
    nothing at all and overbooks the node.
    """
    written = [(f"{field}.limits", limits), (f"{field}.requests", requests)]
    amounts = [0, 0, 0, 0]
    for where, named in written:  # requests last, so that they win
        for name, quantity in named.items():
            if (place := _PLACES.get(name)) is not None:
                amounts[place] = _whole_units(quantity, _UNITS[place], f"{where}.{name}")
    return Resources(*amounts)


_PLACES: Mapping[str, int] = {  # resource names as Kubernetes spells them, and as our own files do
    "cpu": 0,
    "memory": 1,
    "gpu": 2,
    "nvidia.com/gpu": 2,
    "amd.com/gpu": 2,
    "gpuMemory": 3,
}
_UNITS = (1000, 1, 1000, 1)


def _whole_units(quantity: Quantity, per_one: int, field: str) -> int:
    amount = exact(quantity, field=field) * per_one
    units = -(-amount.numerator // amount.denominator)
    if units > AMOUNT_MAX:
        raise InvalidRequest(field=field, value=quantity, expected=f"at most {AMOUNT_MAX} of the smallest unit")
    return units


@lru_cache(maxsize=4096)  # a snapshot of ten thousand jobs writes the same few quantities over and over
def _parsed(text: str) -> Fraction | None:
    """None where the text is no acceptable quantity."""
    match = _SHAPE.fullmatch(text) if len(text) <= LENGTH_MAX else None
    if match is None:
        return None
    sign, digits, exponent, suffix = match.groups()
    power = int(exponent or 0)
    if abs(power) > EXPONENT_MAX or (sign == "-" and digits.strip("0.")):
        return None
    return Fraction(digits) * _SUFFIXES[suffix] * Fraction(10) ** power
