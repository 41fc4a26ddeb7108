"""Files that take turns: bounded in number and length, and each with all that a reader needs."""

import errno
import os

import pytest

from sterna.journal.rotating_files import RotatingFiles

HEAD = b'{"entry":"opened"}\n'


def line(number: int) -> bytes:
    return b'{"number":%04d}\n' % number


def files_in(directory) -> list[bytes]:
    return [path.read_bytes() for path in sorted(directory.iterdir())]


def test_every_file_opens_with_the_head_and_none_is_too_long(tmp_path):
    files = RotatingFiles(tmp_path, bytes_max=len(HEAD) + 2 * len(line(0)), files_max=10)
    for number in range(5):
        files.write(HEAD, line(number))
    assert files_in(tmp_path) == [HEAD + line(0) + line(1), HEAD + line(2) + line(3), HEAD + line(4)]


def test_the_oldest_files_go_when_there_are_too_many(tmp_path):
    files = RotatingFiles(tmp_path, bytes_max=len(HEAD) + len(line(0)), files_max=3)
    for number in range(7):
        files.write(HEAD, line(number))
    assert files_in(tmp_path) == [HEAD + line(number) for number in (4, 5, 6)]
    assert [path.name for path in sorted(tmp_path.iterdir())] == [f"decisions-{n:06d}.jsonl" for n in (5, 6, 7)]


def test_another_head_begins_another_file(tmp_path):
    files = RotatingFiles(tmp_path, bytes_max=1000, files_max=3)
    files.write(HEAD, line(1))
    files.write(b"other\n", line(2))
    assert files_in(tmp_path) == [HEAD + line(1), b"other\n" + line(2)]


def test_a_restarted_process_leaves_earlier_files_as_they_are(tmp_path):
    RotatingFiles(tmp_path, bytes_max=1000, files_max=3).write(HEAD, line(1))
    RotatingFiles(tmp_path, bytes_max=1000, files_max=3).write(HEAD, line(2))
    assert files_in(tmp_path) == [HEAD + line(1), HEAD + line(2)]


def test_numbers_beyond_six_digits_still_count_in_order(tmp_path):
    (tmp_path / "decisions-999999.jsonl").write_bytes(b"old")
    files = RotatingFiles(tmp_path, bytes_max=len(HEAD) + len(line(0)), files_max=2)
    for number in range(3):
        files.write(HEAD, line(number))
    assert {path.name for path in tmp_path.iterdir()} == {"decisions-1000001.jsonl", "decisions-1000002.jsonl"}


def test_a_name_that_is_no_number_is_left_out_of_the_count(tmp_path):
    (tmp_path / "decisions-mine.jsonl").write_bytes(b"kept by hand")
    files = RotatingFiles(tmp_path, bytes_max=1000, files_max=3)
    files.write(HEAD, line(1))
    assert (tmp_path / "decisions-000001.jsonl").exists()


@pytest.mark.parametrize("fails_at", [0, 1, 2], ids=["opening a file", "its first line", "a later line"])
def test_a_full_disk_leaves_whole_lines_and_takes_no_old_file_away(tmp_path, monkeypatch, fails_at):
    (tmp_path / "decisions-000001.jsonl").write_bytes(b"old")
    files = RotatingFiles(tmp_path, bytes_max=1000, files_max=1 if fails_at == 0 else 2)
    writes = 0

    def write(descriptor, data, real=os.write):
        nonlocal writes
        writes += 1
        if writes > fails_at + 1:
            raise OSError(errno.ENOSPC, "no space left on device")
        return real(descriptor, bytes(data)[:7] if writes == fails_at + 1 else data)  # the disk takes a part of it

    monkeypatch.setattr("sterna.journal.rotating_files.os.write", write)
    if fails_at == 2:
        files.write(HEAD, line(0))
    with pytest.raises(OSError, match="no space"):
        files.write(HEAD, line(1))
    whole = [b"old"] if fails_at < 2 else [b"old", HEAD + line(0)]
    assert files_in(tmp_path) == whole
    monkeypatch.undo()
    files.write(HEAD, line(9))
    assert files_in(tmp_path)[-1] == HEAD + line(9)
