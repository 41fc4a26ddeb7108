"""Each story of `stories.py`, told by each engine. A story that an engine cannot play says why in its row."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import pytest

from tests.engine_contract.facts import Seen, Story, Then
from tests.engine_contract.played_kubernetes import PlayedKubernetes
from tests.engine_contract.played_local import PlayedLocal
from tests.engine_contract.played_simulator import PlayedSimulator
from tests.engine_contract.played_world import PlayedWorld
from tests.engine_contract.stories import NOT_YET, STORIES
from tests.engine_contract.worlds import KINDS

_BY_TITLE: Mapping[str, Story] = {story.title: story for story in STORIES}
_TOLD = [(story, kind) for story in STORIES for kind in KINDS if kind not in story.without]


class Differs(AssertionError):
    """An engine tells another history."""


def _begun(kind: str) -> AbstractAsyncContextManager[PlayedWorld]:
    match kind:
        case "simulator":
            return PlayedSimulator.begun()
        case "local":
            return PlayedLocal.begun()
        case _:
            return PlayedKubernetes.begun()


async def _play(told: Story, kind: str) -> None:
    async with _begun(kind) as world:
        for number, line in enumerate(told.history):
            if isinstance(line, Then):
                _compare(line, await world.seen(line.job), at=f"{kind}, line {number + 1}")
            else:
                await world.happen(line)


def _compare(line: Then, seen: Seen, *, at: str) -> None:
    for name, expected in line.sees.items():
        found, holds = _found(seen, name, expected)
        if not holds:
            raise Differs(f"{at}: job {line.job}: {name} should be {expected!r} and is {found!r}; {seen}")


def _found(seen: Seen, name: str, expected: object) -> tuple[object, bool]:
    """What there is of what is asked for, and whether it is as expected."""
    match name:
        case "holds":
            return sorted(seen.conditions), expected in seen.conditions
        case "not_holds":
            return sorted(seen.conditions), expected not in seen.conditions
        case "said":
            return seen.events, expected in seen.events
        case "told":
            return seen.words, any(str(expected) in words for words in seen.words)
        case "refused":
            return seen.refusal, bool(seen.refusal) is expected
        case _:
            found = getattr(seen, name)
            near = pytest.approx(expected, abs=0.01) if isinstance(expected, float) else expected
            return found, found == near


@pytest.mark.parametrize(("told", "kind"), [pytest.param(*row, id=f"{row[0].title}-{row[1]}") for row in _TOLD])
def test_story(told, kind):
    if (told.title, kind) in NOT_YET:
        with pytest.raises(Differs):
            asyncio.run(_play(told, kind))
    else:
        asyncio.run(_play(told, kind))


def test_every_story_has_a_title_of_its_own_and_is_told_by_two_engines_at_least():
    assert len(_BY_TITLE) == len(STORIES)
    assert len(STORIES) >= 25
    for story in STORIES:
        assert set(story.without) < set(KINDS), story.title
        assert all(story.without.values()), story.title
        assert len(KINDS) - len(story.without) >= 2, story.title


def test_what_is_not_yet_so_is_in_the_table():
    for title, kind in NOT_YET:
        assert kind in KINDS
        assert kind not in _BY_TITLE[title].without
