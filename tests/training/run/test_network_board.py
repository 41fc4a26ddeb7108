"""Ranks that meet on a file system of several machines, whose caches show what others wrote only when a file is opened.

The cache is played here, over a real board: what a rank reads is as old as its last opening, though what it writes
goes through at once. Whether a real NFS keeps these promises is not what this shows.
"""

import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from sterna.training.data.file_systems import shared_between_machines
from sterna.training.ranks.agreement import Agreement, Chief, Member
from sterna.training.ranks.board import Board
from sterna.training.ranks.cut import Cut, Kind, RankPost, State
from tests.needs import seeds
from tests.training.run.test_agreement import in_threads
from tests.waiting import paced, stays, until


class CachedBoard(Board):
    """Sees the file as it was when it opened it, but for its own writes."""

    opened = 0

    def _opened(self) -> int:
        self._cached = True
        self.opened += 1
        descriptor = super()._opened()
        self._cache = bytearray(os.pread(descriptor, 1 << 16, 0))
        return descriptor

    def _read(self, length: int, offset: int) -> bytes:
        super()._read(0, 0)  # opens it anew when it is time
        return bytes(self._cache[offset : offset + length])

    def _write(self, record: bytes, offset: int) -> bool:
        self._cache[offset : offset + len(record)] = record
        return super()._write(record, offset)


def cached_agreements(tmp_path: Path, ranks: int) -> list[Agreement]:
    path = tmp_path / "board"
    Board.create(path, world_size=ranks, step=0)
    boards = [CachedBoard(path, rank=rank, world_size=ranks) for rank in range(ranks)]
    return [Chief(boards[0], patience_s=60), *(Member(board, patience_s=60) for board in boards[1:])]


@pytest.mark.parametrize("every", [1, 0], ids=["in lock-step", "never together"])
@pytest.mark.parametrize("seed", seeds(3))
def test_voda_44_ranks_that_see_each_other_late_still_take_the_same_cuts(tmp_path, every, seed):
    chance = random.Random(seed)
    ranks = chance.randint(2, 4)
    together = threading.Barrier(ranks)
    agreed = cached_agreements(tmp_path, ranks)
    asks = [chance.randint(2, 20) for _ in range(ranks)]
    paces_s = [chance.uniform(0.001, 0.02) for _ in range(ranks)]

    def train(rank: int) -> list[tuple[int, Kind]]:
        taken: list[tuple[int, Kind]] = []
        want = Kind.NOTHING
        for step in range(10_000):
            if step == asks[rank]:
                want = Kind.COMMIT
            if len(taken) >= 2 and rank == ranks - 1:
                want = Kind.STOP
            if (cut := agreed[rank].at_boundary(step, want)) is not None:
                taken.append((cut.step, cut.kind))
                want = Kind.NOTHING
                if cut.kind is Kind.STOP:
                    return taken
            if rank == ranks - 1 and len(taken) == 1 and want is Kind.NOTHING:
                want = Kind.COMMIT
            if every:
                together.wait(60)
            paced(paces_s[rank])
        raise AssertionError("never stopped")

    results: list[Any] = in_threads(*(lambda rank=rank: train(rank) for rank in range(ranks)))
    assert all(result == results[0] for result in results), f"seed {seed}: {results}"
    assert results[0][-1][1] is Kind.STOP


def test_a_board_of_one_machine_is_opened_once_and_one_of_many_now_and_then(tmp_path):
    path = tmp_path / "board"
    Board.create(path, world_size=2, step=0)
    here, there = Board(path, rank=0, world_size=2), CachedBoard(path, rank=1, world_size=2)
    descriptor = here._descriptor
    assert here.write_cut(Cut(4, 1, Kind.STOP, State.OPEN))

    def is_seen() -> bool:
        here.others()
        return there.cut().id == 1

    until(is_seen, "the cut is seen there")
    assert there.opened >= 2
    assert here._descriptor == descriptor
    path.unlink()  # cleared away: what is open still counts
    stays(lambda: there.cut().id == 1, "the cut is seen", for_s=0.3)
    assert there.write_post(RankPost(4, 1))
    assert here.others() == (RankPost(4, 1),)
    here.close()
    there.close()


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 21 0:40 / /data rw,relatime - nfs4 server:/export rw,vers=4.2
31 30 0:41 / /data/scratch rw - xfs /dev/sdb1 rw
32 21 0:42 / /with\\040blank rw - fuse.glusterfs volume rw
33 21 0:43 / /over rw - ext4 /dev/sdc1 rw
34 33 0:44 / /over rw - ceph :/ rw
not a line of it
"""


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        pytest.param("/somewhere/else", False, id="on the root's disk"),
        pytest.param("/data/job", True, id="on NFS"),
        pytest.param("/data", True, id="the mount itself"),
        pytest.param("/database", False, id="a name that only begins alike"),
        pytest.param("/data/scratch/job", False, id="a disk mounted inside NFS"),
        pytest.param("/with blank/job", True, id="a blank in its name"),
        pytest.param("/over/job", True, id="the mount on top counts"),
    ],
)
def test_which_file_systems_several_machines_share(path, shared):
    assert shared_between_machines(Path(path), MOUNTS) is shared


def test_where_nothing_is_known_of_mounts_nothing_is_shared():
    assert shared_between_machines(Path("/x"), "") is False
