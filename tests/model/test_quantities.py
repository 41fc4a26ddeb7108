"""Quantities are exact, rounded up, and cost nothing however hostile their author."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.model.errors import InvalidRequest
from sterna.model.quantities import (
    AMOUNT_MAX,
    cpu_milli,
    effective_request,
    exact,
    gpu_milli,
    memory_bytes,
    milli_shown,
)
from sterna.model.resources import Resources

GIB = 1 << 30


@pytest.mark.parametrize(
    ("written", "milli"),
    [
        pytest.param("100m", 100, id="thousandths"),
        pytest.param("0.5", 500, id="a decimal fraction"),
        pytest.param(".5", 500, id="a fraction without its zero"),
        pytest.param("5.", 5000, id="a point with nothing behind it"),
        pytest.param(0.1, 100, id="a float means what its author typed"),
        pytest.param(3, 3000, id="a whole number"),
        pytest.param("+2", 2000, id="a plus sign"),
        pytest.param("-0", 0, id="minus nothing is nothing"),
        pytest.param("1e3", 1_000_000, id="an exponent"),
        pytest.param("2E-1", 200, id="a negative exponent, spelt large"),
        pytest.param("100u", 1, id="less than a thousandth is rounded up to one"),
        pytest.param("1n", 1, id="a billionth too"),
        pytest.param("1.0001", 1001, id="a remainder is rounded up"),
    ],
)
def test_cpu_in_thousandths(written, milli):
    assert cpu_milli(written) == milli


@pytest.mark.parametrize(
    ("written", "count"),
    [
        pytest.param("1Gi", GIB, id="a power of two"),
        pytest.param("1.5Gi", 3 * GIB // 2, id="one and a half of it"),
        pytest.param("128974848", 128974848, id="plain bytes"),
        pytest.param(128974848, 128974848, id="plain bytes as a number"),
        pytest.param("129e6", 129_000_000, id="an exponent"),
        pytest.param("129M", 129_000_000, id="a power of ten"),
        pytest.param("1k", 1000, id="a small k is a thousand"),
        pytest.param("1Ki", 1024, id="a large Ki is 1024"),
        pytest.param("1E", 10**18, id="E alone is exa, not an exponent"),
        pytest.param("1E2", 100, id="E with digits is an exponent"),
        pytest.param("7Ei", 7 << 60, id="the largest suffix"),
        pytest.param("1000m", 1, id="thousandths of a byte are allowed"),
        pytest.param("1m", 1, id="and rounded up"),
    ],
)
def test_memory_in_bytes(written, count):
    assert memory_bytes(written) == count


@pytest.mark.parametrize(
    ("written", "milli"),
    [
        pytest.param("0.3333", 334, id="three thirds do not fit on one card"),
        pytest.param(1 / 3, 334, id="nor as floats"),
        pytest.param("0.5", 500, id="but two halves do"),
        pytest.param(8, 8000, id="whole cards"),
    ],
)
def test_gpu_shares_are_rounded_up(written, milli):
    assert gpu_milli(written) == milli


HOSTILE: list[object] = [
    *(
        "",
        " ",
        "-1",
        "-0.001",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "Infinity",
        "1 Gi",
        " 1",
        "1 ",
        "1\n",
        "1Gi\n",
        "1Gb",
        "1KI",
    ),
    *("0x10", "1_000", "1,5", "1e", "1e+", "e3", "m", ".", "+", "--1", "1e3Gi", "1mm", "١", "1.2.3", "½", "1\x00"),
    *("1e31", "1e999999999", "1e-999999999", "9" * 65, "1" + "0" * 63, "10E", "9223372036854775808", "1e" + "9" * 60),
    *(-1, -0.5, math.nan, math.inf, -math.inf, 1 << 63, 10**400, 1e300, True, False, None, [], {}, b"1"),
]


@pytest.mark.parametrize("parse", [cpu_milli, memory_bytes, gpu_milli])
@pytest.mark.parametrize("written", HOSTILE, ids=repr)
def test_whatever_is_no_quantity_is_refused_at_once(parse, written):
    with pytest.raises(InvalidRequest) as refusal:
        parse(written, field="spec.cpu")
    assert refusal.value.field == "spec.cpu"
    assert len(str(refusal.value)) < 300


SUFFIXES: dict[str, int | Fraction] = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 1000,
    "M": 10**6,
    "Ki": 1024,
    "Mi": 1 << 20,
    "Gi": GIB,
}


@given(digits=st.integers(0, 10**6), places=st.integers(0, 6), suffix=st.sampled_from(sorted(SUFFIXES)))
def test_quantities_agree_with_fraction_arithmetic(digits, places, suffix):
    value = Fraction(digits, 10**places) * SUFFIXES[suffix]
    written = f"{digits // 10**places}.{digits % 10**places:0{places}d}{suffix}"
    assert exact(written) == value
    assert memory_bytes(written) == math.ceil(value)
    assert cpu_milli(written) == math.ceil(value * 1000)


@given(digits=st.integers(0, 10**6), power=st.integers(-12, 12))
def test_exponents_agree_with_fraction_arithmetic(digits, power):
    assert exact(f"{digits}e{power}") == digits * Fraction(10) ** power


@given(st.integers(0, AMOUNT_MAX))
def test_what_is_shown_reads_back_as_the_same_amount(amount):
    assert cpu_milli(milli_shown(amount)) == amount
    assert memory_bytes(amount) == memory_bytes(str(amount)) == amount


@given(st.floats(1e-20, 1e15))
def test_a_float_is_never_rounded_down(value):
    assert 0 <= memory_bytes(value) - Fraction(repr(value)) < 1


@given(st.text(st.sampled_from("0123456789.+-eEmkKMGi n"), max_size=12))
def test_text_from_the_alphabet_of_quantities_is_one_or_a_clear_refusal(written):
    try:
        amount = memory_bytes(written)
    except InvalidRequest as error:
        refusal = error
    else:
        assert 0 <= amount <= AMOUNT_MAX
        return
    assert refusal.field == "memory"
    assert refusal.value == written


@pytest.mark.parametrize(
    ("requests", "limits", "taken"),
    [
        pytest.param({}, {"cpu": "4", "memory": "8Gi"}, Resources(4000, 8 * GIB), id="limits alone count as requests"),
        pytest.param({"cpu": "1"}, {"cpu": "4"}, Resources(1000), id="a request wins over its limit"),
        pytest.param({"cpu": 1}, {"memory": "1Gi"}, Resources(1000, GIB), id="each resource on its own"),
        pytest.param({"cpu": 0}, {"cpu": 4}, Resources(), id="a request of nothing is a request"),
        pytest.param({}, {"nvidia.com/gpu": 2}, Resources(0, 0, 2000), id="GPUs, which are given as limits only"),
        pytest.param({"ephemeral-storage": "10Gi"}, {}, Resources(), id="what we do not share out is passed over"),
        pytest.param({}, {}, Resources(), id="nothing asked, nothing taken"),
    ],
)
def test_dragon_3_effective_request_is_the_request_or_else_the_limit(requests, limits, taken):
    assert effective_request(requests, limits) == taken


def test_dragon_3_a_container_with_limits_only_is_planned_once_per_node():
    assert 6000 // effective_request({}, {"cpu": 4}).cpu_milli == 1


def test_dragon_3_a_bad_amount_is_named_by_its_place():
    with pytest.raises(InvalidRequest, match=r"worker\.limits\.cpu: 'lots'"):
        effective_request({}, {"cpu": "lots"}, field="worker")
