"""The helper by which all other tests wait."""

import asyncio
from itertools import count

import pytest

from tests.waiting import stays, stays_async, until, until_async


def test_the_first_true_answer_is_given():
    numbers, more = count(), count()
    assert until(lambda: next(numbers) > 2 and "late", every_s=0) == "late"

    async def answer() -> int:
        return max(0, next(more) - 2)

    assert asyncio.run(until_async(answer, every_s=0)) == 1
    assert asyncio.run(until_async(lambda: "at once")) == "at once"


def test_what_never_comes_is_told_with_its_story():
    with pytest.raises(AssertionError, match=r"never: rain\nthe sun shines"):
        until(lambda: False, "rain", patience_s=0, story=lambda: "the sun shines")

    async def story() -> str:
        return "the sun shines"

    with pytest.raises(AssertionError, match=r"never: rain\nthe sun shines"):
        asyncio.run(until_async(lambda: False, "rain", patience_s=0, story=story))


def test_what_must_stay_is_looked_at_more_than_once():
    looks, more = count(), count()
    with pytest.raises(AssertionError, match="no more: dry"):
        stays(lambda: next(looks) < 2, "dry", for_s=60)
    with pytest.raises(AssertionError, match="no more: dry"):
        asyncio.run(stays_async(lambda: next(more) < 2, "dry", for_s=60))
    stays(lambda: True, "dry", for_s=0)
