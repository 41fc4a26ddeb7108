"""How ranks settle on one checkpoint: whatever lies around from before, whoever is replaced, whatever is unreadable."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sterna.training.errors import NotEverybodyCame, RestoreFailed
from sterna.training.ranks.meeting import Answer, Decision, Meeting
from tests import waiting
from tests.needs import seeds
from tests.waiting import paced


class Place:
    """One rank in a thread of its own. `bad` are generations it cannot load."""

    def __init__(
        self,
        directory: Path,
        rank: int,
        world_size: int,
        *,
        bad: frozenset[str] = frozenset(),
        patience_s: float = 60.0,
    ) -> None:
        self.meeting = Meeting(directory, rank=rank, world_size=world_size, patience_s=patience_s, idle=time.sleep)
        self.rank = rank
        self.loaded: list[str | None] = []
        self.wanted = True
        self.result: Any = None
        self._bad = bad
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, candidates: list[str] | None = None, delay_s: float = 0.0) -> "Place":
        self._candidates = candidates or []
        self._delay_s = delay_s
        self._thread.start()
        return self

    def done(self) -> Any:
        self._thread.join(90)
        assert not self._thread.is_alive(), f"rank {self.rank} waits for ever"
        return self.result

    def load(self, name: str | None) -> str | None:
        self.loaded.append(name)
        return f"{name} is broken here" if name in self._bad else None

    def _run(self) -> None:
        paced(self._delay_s)
        try:
            self.meeting.announce()
            if self.rank == 0:
                self.result = self.meeting.lead(self._candidates, self.load, seq=7, prepare=lambda _: None)
            else:
                self.result = self.meeting.follow(self.load, holding=lambda: False, wanted=lambda: self.wanted)
        except Exception as error:
            self.result = error


def generation(result: Any) -> str | None:
    assert isinstance(result, Decision), result
    return result.generation


@pytest.mark.parametrize("seed", seeds(20))
def test_voda_44_all_load_the_newest_that_everybody_can_however_skewed_they_start(tmp_path, seed):
    chance = random.Random(seed)
    world_size = chance.randint(2, 5)
    candidates = ["newest", "newer", "old"]
    bad = [frozenset(name for name in candidates[:2] if chance.random() < 0.3) for _ in range(world_size)]
    places = [Place(tmp_path, rank, world_size, bad=bad[rank]) for rank in range(world_size)]
    for place in places:
        place.start(candidates, delay_s=chance.uniform(0, 0.05))
    expected = next(name for name in candidates if not any(name in each for each in bad))
    assert {generation(place.done()) for place in places} == {expected}, f"seed {seed}, {bad}"
    assert {place.loaded[-1] for place in places} == {expected}, f"seed {seed}: what is in memory is what was agreed on"
    assert {place.result.seq for place in places} == {7}


def test_without_a_checkpoint_everybody_starts_from_nothing(tmp_path):
    places = [Place(tmp_path, rank, 3).start([]) for rank in range(3)]
    assert {generation(place.done()) for place in places} == {None}


def test_what_dead_processes_left_behind_is_nobodys_concern(tmp_path):
    """A whole launch before this one, complete with answers and a decision to go, with the same numbers."""
    for place in [Place(tmp_path, rank, 3).start(["stale"]) for rank in range(3)]:
        assert generation(place.done()) == "stale"
    places = [Place(tmp_path, rank, 3).start(["fresh", "stale"], delay_s=0.02 * (2 - rank)) for rank in range(3)]
    assert {generation(place.done()) for place in places} == {"fresh"}
    assert all(place.loaded == ["fresh"] for place in places)


def test_a_launch_of_another_size_is_another_launch(tmp_path):
    for place in [Place(tmp_path, rank, 3).start(["three"]) for rank in range(3)]:
        place.done()
    places = [Place(tmp_path, rank, 2).start(["two"]) for rank in range(2)]
    assert {generation(place.done()) for place in places} == {"two"}


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_rank_that_is_replaced_while_others_wait_is_waited_for(tmp_path, victim):
    """The first process at `victim` said who it is (and, if a follower, has answered); then it is gone."""
    gone = Meeting(tmp_path, rank=victim, world_size=3, patience_s=60, idle=time.sleep)
    gone.announce()
    if victim == 0:
        gone._decide(Decision(gone.name, 1, (gone.name, "a", "b"), "newest", 7, go=False))
    places = {rank: Place(tmp_path, rank, 3).start(["newest"]) for rank in range(3) if rank != victim}
    if victim != 0:
        until(lambda: (decision := gone._decision()) is not None and gone.name in decision.names)
        gone._say(Answer(gone.name, "somebody", 1))
    places[victim] = Place(tmp_path, victim, 3).start(["newest"])
    assert {generation(place.done()) for place in places.values()} == {"newest"}


def test_a_predecessor_that_writes_over_our_file_once_more_does_not_lock_us_out(tmp_path):
    late = Meeting(tmp_path, rank=1, world_size=2, patience_s=60, idle=time.sleep)
    member = Place(tmp_path, 1, 2).start()
    until(lambda: (tmp_path / "rank-1.json").exists())
    late.announce()
    chief = Place(tmp_path, 0, 2).start(["newest"])
    assert {generation(chief.done()), generation(member.done())} == {"newest"}


def test_if_none_will_do_it_says_which_and_why(tmp_path):
    chief = Place(tmp_path, 0, 2, bad=frozenset({"old"})).start(["newest", "old"])
    member = Place(tmp_path, 1, 2, bad=frozenset({"newest"}), patience_s=0.5).start()
    error = chief.done()
    assert isinstance(error, RestoreFailed)
    assert "newest: rank 1: newest is broken here; old: old is broken here" in str(error)
    assert isinstance(member.done(), NotEverybodyCame)


def test_who_does_not_come_is_named(tmp_path):
    member = Place(tmp_path, 1, 4, patience_s=1.0).start()
    error = Place(tmp_path, 0, 4, patience_s=0.3).start(["newest"]).done()
    assert isinstance(error, NotEverybodyCame)
    assert "for ranks 2, 3 of 4 to call restore() or steps()" in str(error)
    assert "rank 1 of 4 waited 1 s for rank 0 to say which checkpoint to load" in str(member.done())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    member = Place(tmp_path / "file" / "agreement", 1, 2, patience_s=0.2).start()
    assert "ranks cannot meet in" in str(member.done())
    assert "Not a directory; it has to be writable" in str(member.done())


def test_who_is_no_longer_wanted_leaves(tmp_path):
    member = Place(tmp_path, 1, 2).start()
    until(lambda: (tmp_path / "rank-1.json").exists())
    member.wanted = False
    assert member.done() is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"names": 3}', b'{"name": "x"}', b"\xff" * 100])
def test_files_that_make_no_sense_are_as_good_as_none(tmp_path, content):
    for name in ("decision.json", "rank-0.json", "rank-1.json"):
        (tmp_path / name).write_bytes(content)
    places = [Place(tmp_path, rank, 2).start(["newest"]) for rank in range(2)]
    assert {generation(place.done()) for place in places} == {"newest"}


def until(condition: Callable[[], bool]) -> None:
    waiting.until(condition, every_s=0.002)
