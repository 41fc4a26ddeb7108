"""Waiting for an event, with a time limit."""

import asyncio
import math


async def wait_for(word: asyncio.Event, seconds: float) -> None:
    """Until it is set, or time is up; infinite: no limit."""
    try:
        async with asyncio.timeout(None if math.isinf(seconds) else max(0.0, seconds)):
            await word.wait()
    except TimeoutError:
        pass
