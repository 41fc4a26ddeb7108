"""Several ranks save one generation together: processes of their own that meet in the file system and nowhere else."""

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore
from tests.needs import seeds
from tests.training.checkpoint import gang


class Gang:
    """Processes that have all claimed their rank; `go` lets them save."""

    def __init__(self) -> None:
        self.processes: list[Popen[str]] = []

    def add(self, process: "Popen[str]") -> None:
        self.processes.append(process)

    def go(self) -> None:
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()


@pytest.fixture
def team() -> Iterator[Gang]:
    members = Gang()
    yield members
    for process in members.processes:
        process.kill()
        process.wait(timeout=30)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def require_whole(directory: Path, step: int, world_size: int) -> None:
    store = CheckpointStore(directory, incarnation=99)
    newest = store.newest()
    assert newest is not None
    assert (newest.step, newest.world_size) == (step, world_size)
    for rank in range(world_size):
        loaded = store.load(newest, rank=rank)
        assert loaded.shared == gang.shared(step)
        assert loaded.own == gang.own(step, rank)


@pytest.mark.parametrize("seed", range(2))
def test_ranks_with_random_skew_make_the_same_generations(quick_path, team, seed):
    chance = random.Random(seed)
    for rank in range(4):
        team.add(gang.started(quick_path, rank, 4, steps=[1, 2, 3, 4, 5], delay_s=chance.uniform(0, 0.05)))
    team.go()
    told = [gang.answers(process) for process in team.processes]
    assert [one["step"] for one in told[0]] == [1, 2, 3, 4, 5]
    assert all("digest" in one for one in told[0]), f"seed {seed}: {told[0]}"
    assert told[0] == told[1] == told[2] == told[3], f"seed {seed}"
    require_whole(quick_path, 5, 4)


def test_a_gang_of_another_size_finds_the_shared_state_and_its_own_where_there_is_one(quick_path, team):
    for rank in range(2):
        team.add(gang.started(quick_path, rank, 2, steps=[7]))
    team.go()
    for process in team.processes:
        gang.answers(process)
    for rank, expected in [(0, gang.own(7, 0)), (1, gang.own(7, 1)), (2, {}), (5, {})]:
        store = CheckpointStore(quick_path, incarnation=2, rank=rank, world_size=6)
        newest = store.newest()
        assert newest is not None
        loaded = store.load(newest)
        assert (loaded.shared, loaded.own) == (gang.shared(7), expected)


def test_a_rank_that_never_comes_leaves_the_generation_incomplete_and_everybody_says_so(quick_path, team):
    lone = CheckpointStore(quick_path, incarnation=0)
    lone.save(gang.shared(1), gang.own(1, 0), step=1, about={})
    for rank in (0, 1):
        team.add(gang.started(quick_path, rank, 3, steps=[2], meet_s=1.5))
    team.go()
    chief, member = (gang.answers(process)[0]["problem"] for process in team.processes)
    assert "gen-000001-i1 stays incomplete: within 1.5 s nothing came from rank 2" in chief
    assert "gen-000001-i1 stays incomplete" in member
    require_whole(quick_path, 1, 1)


def test_a_rank_that_cannot_save_tells_the_others_who_do_not_wait_for_it(quick_path, team):
    for rank in range(3):
        more = {"faulty": 2} if rank == 1 else {}
        team.add(gang.started(quick_path, rank, 3, steps=[1, 2, 3], meet_s=100.0, **more))
    team.go()
    told = [gang.answers(process) for process in team.processes]
    for rank, answers in enumerate(told):
        assert "name" in answers[0]
        assert "rank 1 could not save" in answers[1]["problem"] or rank == 1
        assert answers[2]["name"] == "gen-000003-i1"
    assert "['bad']" in told[1][1]["problem"]
    assert "object" in told[0][1]["problem"]
    require_whole(quick_path, 3, 3)


def test_ranks_that_are_at_different_steps_do_not_become_one_generation(quick_path, team):
    team.add(gang.started(quick_path, 0, 2, steps=[4], meet_s=20.0))
    team.add(gang.started(quick_path, 1, 2, steps=[5], meet_s=20.0))
    team.go()
    chief = gang.answers(team.processes[0])[0]["problem"]
    assert "rank 1 step 5 of 2 ranks, rank 0 step 4 of 2" in chief
    assert CheckpointStore(quick_path, incarnation=2).newest() is None


def test_what_a_dead_process_left_is_not_mixed_with_what_the_living_save(quick_path):
    """A launcher starts the gang again in the same incarnation; an old shard of rank 1 lies where the new one will."""

    def store(rank: int) -> CheckpointStore:
        return CheckpointStore(quick_path, incarnation=1, rank=rank, world_size=2, meet_s=0.2)

    def leave_a_shard(undead: CheckpointStore) -> None:
        with pytest.raises(CheckpointProblem, match="did not finish it"):
            undead.save({}, {"from": "the undead"}, step=5, about={})
        assert (quick_path / "gen-000001-i1" / "rank-1.json").exists()

    leave_a_shard(store(1))
    chief, undead = store(0), store(1)
    assert not (quick_path / "gen-000001-i1").exists()  # rank 0 cleans up when it comes
    leave_a_shard(undead)  # but one of the old ranks may be slow to die
    store(1)  # the new rank 1 has come, but not saved yet
    with pytest.raises(CheckpointProblem, match="nothing came from rank 1"):
        chief.save({}, {}, step=5, about={})
    assert chief.newest() is None


@pytest.mark.parametrize("seed", seeds(5))
def test_voda_45_r6_a_rank_killed_during_a_save_of_all_leaves_a_generation_of_one_step(quick_path, team, seed):
    chance = random.Random(seed)
    for rank in range(3):
        team.add(gang.started(quick_path, rank, 3, steps=list(range(1, 200)), meet_s=0.5))
    team.go()
    victim = team.processes[chance.randrange(3)]
    assert victim.stdout is not None
    durable = 0
    for _ in range(chance.randrange(1, 6)):
        durable = int(victim.stdout.readline().split('"step": ')[1].partition(",")[0])
    victim.send_signal(signal.SIGKILL)
    victim.wait(timeout=30)
    for process in team.processes:
        process.kill()
        process.wait(timeout=30)
    store = CheckpointStore(quick_path, incarnation=99)
    newest = store.newest()
    assert newest is not None, f"seed {seed}"
    assert newest.step >= durable, f"seed {seed}"
    require_whole(quick_path, newest.step, 3)
