"""The real chief and members over a real board: one step for all, in every pattern of waiting, at any pace."""

import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sterna.training.errors import NotEverybodyCame
from sterna.training.ranks.agreement import Agreement, Chief, Member
from sterna.training.ranks.board import Board
from sterna.training.ranks.cut import Cut, Kind, RankPost, State
from tests.needs import seeds
from tests.waiting import paced


def agreements(tmp_path: Path, ranks: int, *, step: int = 0, patience_s: float = 60.0) -> list[Agreement]:
    path = tmp_path / "board"
    Board.create(path, world_size=ranks, step=step)
    boards = [Board(path, rank=rank, world_size=ranks) for rank in range(ranks)]
    return [Chief(boards[0], patience_s=patience_s), *(Member(board, patience_s=patience_s) for board in boards[1:])]


def in_threads(*bodies: Callable[[], Any]) -> list[Any]:
    results: list[Any] = [None] * len(bodies)

    def run(number: int) -> None:
        try:
            results[number] = bodies[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive(), "somebody waits for ever"
    return results


@pytest.mark.parametrize("every", [1, 3, 0], ids=["in lock-step", "every third step together", "never together"])
@pytest.mark.parametrize("seed", seeds(6))
def test_voda_44_everybody_takes_the_same_cuts(tmp_path, every, seed):
    """Chief and members ask for saves at random, then for a stop. `every` k-th step waits for everybody."""
    chance = random.Random(seed)
    ranks = chance.randint(2, 4)
    together = threading.Barrier(ranks)
    agreed = agreements(tmp_path, ranks)
    paces_s = [chance.uniform(0, 0.003) for _ in range(ranks)]
    wants = [random.Random(f"{seed} {rank}") for rank in range(ranks)]
    stop_at = chance.randint(5, 25)

    def train(rank: int) -> list[tuple[int, Kind]]:
        taken: list[tuple[int, Kind]] = []
        want = Kind.NOTHING
        for step in range(10_000):
            if step >= stop_at and rank == ranks - 1:
                want = Kind.STOP
            elif wants[rank].random() < 0.1:
                want = max(want, Kind.COMMIT)
            cut = agreed[rank].at_boundary(step, want)
            if cut is not None:
                assert cut.step == step
                taken.append((cut.step, cut.kind))
                want = Kind.NOTHING if want <= cut.kind else want
                if cut.kind is Kind.STOP:
                    return taken
            if every and (step + 1) % every == 0:
                together.wait(60)
            paced(paces_s[rank] * wants[rank].random())
        raise AssertionError("never stopped")

    results = in_threads(*(lambda rank=rank: train(rank) for rank in range(ranks)))
    assert all(result == results[0] for result in results), f"seed {seed}: {results}"
    assert results[0][-1][1] is Kind.STOP


def test_saving_here_and_now_waits_for_everybody(tmp_path):
    agreed = agreements(tmp_path, 3, step=8)
    results = in_threads(*(lambda each=each: each.here(8) for each in agreed))
    assert {(cut.step, cut.state) for cut in results} == {(8, State.FINAL)}
    results = in_threads(*(lambda each=each: [each.here(8).id for _ in range(20)] for each in agreed))
    assert all(taken == list(range(2, 22)) for taken in results)  # at once again, and nobody misses one


def test_saving_here_and_now_after_a_cut_was_opened_further_on(tmp_path):
    chief, member = agreements(tmp_path, 2, step=8)
    assert chief.at_boundary(8, Kind.PERIODIC) is None  # the member may be in step 9 already
    results = in_threads(lambda: chief.here(8), lambda: member.here(8))
    assert {(cut.step, cut.kind) for cut in results} == {(8, Kind.COMMIT)}
    results = in_threads(lambda: chief.at_boundary(9, Kind.STOP), lambda: member.at_boundary(9, Kind.NOTHING))
    results = (
        results
        if None not in results
        else in_threads(lambda: chief.at_boundary(10, Kind.STOP), lambda: member.at_boundary(10, Kind.NOTHING))
    )
    assert {cut.kind for cut in results} == {Kind.STOP}


def test_a_rank_that_never_comes_costs_patience_and_not_the_training(tmp_path):
    chief, member = agreements(tmp_path, 2, patience_s=0.2)
    assert member.at_boundary(0, Kind.NOTHING) is None
    assert chief.at_boundary(0, Kind.PERIODIC) is None  # opened at 1
    assert chief.at_boundary(1, Kind.NOTHING) is None  # waits there for the member, in vain: void
    assert member.at_boundary(1, Kind.NOTHING) is None
    assert chief.at_boundary(2, Kind.NOTHING) is None


def test_a_chief_that_never_says_is_an_error_that_says_so(tmp_path):
    chief, member = agreements(tmp_path, 2, patience_s=0.2)
    assert chief.at_boundary(0, Kind.STOP) is None
    with pytest.raises(NotEverybodyCame, match="waited 0 s at step 1 for rank 0 to say whether all ranks are there"):
        member.at_boundary(1, Kind.NOTHING)
    with pytest.raises(NotEverybodyCame, match="for rank 0 to call commit"):
        member.here(1)


def test_a_rank_that_is_done_is_not_waited_for(tmp_path):
    chief, early, late = agreements(tmp_path, 3)
    early.close()
    assert late.at_boundary(0, Kind.NOTHING) is None
    assert chief.at_boundary(0, Kind.STOP) is None
    results = in_threads(lambda: chief.at_boundary(1, Kind.STOP), lambda: late.at_boundary(1, Kind.NOTHING))
    assert {cut.step for cut in results} == {1}


def test_there_is_no_checkpoint_without_a_rank_that_is_done(tmp_path):
    """It would wait for a part that nobody brings, at the very end of training."""
    chief, early, late = agreements(tmp_path, 3)
    early.close()
    for step in range(3):
        results = in_threads(
            partial(chief.at_boundary, step, Kind.PERIODIC), partial(late.at_boundary, step, Kind.NOTHING)
        )
        assert results == [None, None]


def test_a_disk_that_fails_ends_no_training(tmp_path):
    """Boards that can no longer be read or written: nobody agrees on anything, and everybody trains on."""
    chief, member = agreements(tmp_path, 2, patience_s=0.1)
    for agreement in (chief, member):
        agreement._board.close()  # type: ignore[attr-defined]
    for step in range(3):
        assert member.at_boundary(step, Kind.STOP) is None
        assert chief.at_boundary(step, Kind.STOP) is None


def test_a_half_written_record_is_one_not_yet_written(tmp_path):
    path = tmp_path / "board"
    Board.create(path, world_size=2, step=5)
    chief, member = (Board(path, rank=rank, world_size=2) for rank in range(2))
    member.write_post(RankPost(6, 0))
    assert chief.others() == (RankPost(6, 0),)
    chief.write_cut(Cut(7, 1, Kind.STOP, State.OPEN))
    assert member.cut() == Cut(7, 1, Kind.STOP, State.OPEN)
    content = bytearray(path.read_bytes())
    for place in (3, 40 + 3):  # one byte in the cut and one in a post
        content[place] ^= 0xFF
    path.write_bytes(content)
    assert member.cut() == Cut(7, 1, Kind.STOP, State.OPEN)
    assert chief.others() == (RankPost(6, 0),)
    chief.close()
    member.close()
