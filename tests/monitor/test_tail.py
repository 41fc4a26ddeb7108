"""Following files: whole lines over rotation, truncation and haste, and the lines of container runtimes."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.monitor.tail import LINE_BYTES_MAX, ContainerLines, Tail


def test_only_whole_lines_are_given_and_each_once(tmp_path):
    path = tmp_path / "log"
    tail = Tail(path, from_start=True)
    assert tail.new_lines() == []  # not there yet
    with path.open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        assert tail.new_lines() == [b"one"]
        file.write(b"o\n\nthree\n")
        assert tail.new_lines() == [b"two", b"", b"three"]
        assert tail.new_lines() == []


def test_what_was_there_before_is_somebody_elses(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"old\nhalf")
    tail = Tail(path, from_start=False)
    with path.open("ab") as file:
        file.write(b" of it\nnew\n")
    assert tail.new_lines()[-1:] == [b"new"]


def test_a_file_that_is_rotated_or_truncated_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    tail = Tail(path, from_start=True)
    tail.new_lines()
    os.rename(path, tmp_path / "log.1")
    assert tail.new_lines() == []
    path.write_bytes(b"after rotation\n")
    assert tail.new_lines() == [b"after rotation"]
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(b"short\n")
    assert tail.new_lines() == [b"short"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a pipe", "a directory"])
def test_what_is_no_file_has_no_lines_and_holds_nobody_up(tmp_path, make):
    make(tmp_path / "log")
    assert Tail(tmp_path / "log", from_start=True).new_lines() == []


def test_what_comes_faster_than_it_is_read_loses_its_oldest(tmp_path):
    path = tmp_path / "log"
    tail = Tail(path, from_start=True, read_bytes_max=100)
    path.write_bytes(b"".join(b"line %03d\n" % number for number in range(100)))
    lines = tail.new_lines()
    assert lines == [b"line %03d" % number for number in range(100 - len(lines), 100)]
    assert len(lines) == 11  # 100 bytes are 11 lines and a part, which is left out


def test_a_line_is_cut_at_its_limit_however_it_arrives(tmp_path):
    path = tmp_path / "log"
    tail = Tail(path, from_start=True)
    got = []
    with path.open("ab", buffering=0) as file:
        for _ in range(10):
            file.write(b"x" * 3000)
            got += tail.new_lines()
        file.write(b"\nshort\n")
        got += tail.new_lines()
    assert [len(line) for line in got] == [LINE_BYTES_MAX, 5]


def test_a_line_without_end_takes_no_memory(tmp_path):
    path = tmp_path / "log"
    tail = Tail(path, from_start=True, read_bytes_max=10_000)
    with path.open("ab", buffering=0) as file:
        for _ in range(100):
            file.write(b"x" * 9_000)
            assert tail.new_lines() == []
    assert len(tail._rest) <= LINE_BYTES_MAX


@given(pieces=st.lists(st.binary(max_size=40), max_size=20))
def test_it_does_not_matter_in_which_pieces_lines_are_written(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("tail") / "log"
    tail, got = Tail(path, from_start=True), []
    with path.open("ab", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
            got += tail.new_lines()
    assert got == b"".join(pieces).split(b"\n")[:-1]


@pytest.mark.parametrize(
    ("raw", "text", "at_s"),
    [
        (b"2023-11-14T22:13:20.5Z stdout F loss 0.5", "loss 0.5", 1_700_000_000.5),
        (b"2023-11-14T22:13:20.123456789Z stderr F x", "x", 1_700_000_000.123456),
        (b"2023-11-14T23:13:20+01:00 stdout F  two  blanks ", " two  blanks ", 1_700_000_000.0),
        (b"yesterday stdout F x", "x", None),
        (b"2023-11-14T22:13:20Z stdout F \xff", "\ufffd", 1_700_000_000.0),
    ],
)
def test_a_runtimes_line_says_what_and_when(raw, text, at_s):
    line = ContainerLines().read(raw)
    assert line is not None
    assert line.text == text
    assert line.at_s == (None if at_s is None else pytest.approx(at_s, abs=1e-6))


def test_parts_make_one_line_of_bounded_length():
    lines = ContainerLines()
    assert lines.read(b"2023-11-14T22:13:20Z stdout P accuracy ") is None
    whole = lines.read(b"2023-11-14T22:13:21Z stdout F 0.5")
    assert whole is not None
    assert whole.text == "accuracy 0.5"
    for _ in range(10):
        lines.read(b"2023-11-14T22:13:20Z stdout P " + b"x" * 4000)
    whole = lines.read(b"2023-11-14T22:13:21Z stdout F end")
    assert whole is not None
    assert len(whole.text) == LINE_BYTES_MAX


@pytest.mark.parametrize("raw", [b"", b"plain text", b"2023-11-14T22:13:20Z", b"a b c d", b"{}"])
def test_what_is_no_runtimes_line_is_none(raw):
    assert ContainerLines().read(raw) is None
