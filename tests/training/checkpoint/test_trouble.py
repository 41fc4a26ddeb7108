"""R6 with real disks: one that is full, one that cannot be written. Training goes on, and the user reads why."""

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sterna.training.checkpoint import CheckpointProblem, CheckpointStore
from tests.needs import absent

SMALL = {"step": 1, "data": b"s" * 2000}
BIG = {"step": 2, "data": b"b" * 3_000_000}


@pytest.fixture
def little_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB. Mounting takes rights that not everybody has."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        absent("a file system can be mounted by root only")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def mounted(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def save(store: CheckpointStore, shared: dict[str, object], step: int, background: bool) -> None:
    if background:
        store.begin_save(shared, {}, step=step, about={}).result(30)
    else:
        store.save(shared, {}, step=step, about={})


def require_old_one(store: CheckpointStore) -> None:
    found = store.newest()
    assert found is not None
    assert store.load(found).shared == SMALL


@pytest.mark.parametrize("background", [False, True], ids=["waiting", "in the background"])
def test_r6_a_full_disk_fails_the_save_says_what_it_needs_and_keeps_the_old_one(little_disk, background):
    store = CheckpointStore(little_disk, incarnation=1)
    store.save(SMALL, {}, step=1, about={})
    with pytest.raises(CheckpointProblem, match=r"No space left on device \(it needs 3000000 bytes, \d+ are free\)"):
        save(store, BIG, 2, background)
    require_old_one(store)
    free = os.statvfs(little_disk)
    assert free.f_bavail * free.f_frsize > 1_500_000  # what was written of it is gone again
    mounted(little_disk, "size=20m")
    assert store.save(BIG, {}, step=3, about={}).generation.step == 3  # somebody made room


def test_r6_a_disk_that_others_fill_fails_saves_until_there_is_room_again(little_disk):
    store = CheckpointStore(little_disk, incarnation=1)
    store.save(SMALL, {}, step=1, about={})
    fd = os.open(little_disk / "of somebody else", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(fd, bytes(4096))
    os.close(fd)
    for step in range(2, 5):
        with pytest.raises(CheckpointProblem, match="No space left"):
            store.save(SMALL, {}, step=step, about={})
    require_old_one(store)
    (little_disk / "of somebody else").unlink()
    assert store.save(SMALL, {}, step=5, about={}).generation.step == 5


def test_r6_a_directory_that_becomes_read_only_can_still_be_loaded_from(little_disk):
    store = CheckpointStore(little_disk / "job", incarnation=1)
    store.save(SMALL, {}, step=1, about={})
    mounted(little_disk, "ro")
    with pytest.raises(CheckpointProblem, match="Read-only file system"):
        store.save(BIG, {}, step=2, about={})
    with pytest.raises(CheckpointProblem, match="Read-only file system"):
        store.begin_save(SMALL, {}, step=2, about={}).result(30)
    require_old_one(store)
    fresh = CheckpointStore(little_disk / "job", incarnation=2)  # started while it is read-only
    require_old_one(fresh)
    with pytest.raises(CheckpointProblem, match="Read-only file system"):
        fresh.save(SMALL, {}, step=2, about={})
    mounted(little_disk, "rw")
    assert fresh.save(SMALL, {}, step=3, about={}).generation.incarnation == 2


def test_r6_a_limit_on_file_sizes_fails_the_save_and_not_the_program(tmp_path):
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from sterna.training.checkpoint import CheckpointProblem, CheckpointStore\n"
        "store = CheckpointStore(Path(sys.argv[1]), incarnation=1)\n"
        "store.save({'a': 1}, {}, step=1, about={})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    store.save({'a': b'x' * 1_000_000}, {}, step=2, about={})\n"
        "except CheckpointProblem as problem:\n    print(problem)\n"
        "pending = store.begin_save({'a': b'x' * 1_000_000}, {}, step=3, about={})\n"
        "pending.wait_done(); print(pending.problem)\n"
        "print(store.load(store.newest()).shared, [path.name for path in Path(sys.argv[1]).glob('gen-*')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    first, second, last = done.stdout.splitlines()
    assert "File too large (it needs 1000000 bytes" in first
    assert "File too large (it needs 1000000 bytes" in second
    assert last == "{'a': 1} ['gen-000001-i1']"


def test_r6_a_directory_that_cannot_be_listed_is_not_taken_for_an_empty_one(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = CheckpointStore(tmp_path / "file" / "checkpoints", incarnation=1)
    for look in (store.newest, store.generations):
        with pytest.raises(CheckpointProblem, match="cannot be listed: Not a directory"):
            look()
    with pytest.raises(CheckpointProblem, match="Not a directory"):
        store.save(SMALL, {}, step=1, about={})


def test_r6_a_process_that_has_used_up_its_files_fails_the_save_and_not_the_program(tmp_path):
    store = CheckpointStore(tmp_path, incarnation=1)
    store.save(SMALL, {}, step=1, about={})
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(tmp_path, os.O_RDONLY))
        with pytest.raises(CheckpointProblem, match="Too many open files"):
            store.save(SMALL, {}, step=2, about={})
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    require_old_one(store)
    assert store.save(SMALL, {}, step=3, about={}).generation.step == 3
