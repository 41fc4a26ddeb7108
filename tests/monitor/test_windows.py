"""What the monitor remembers: bounded, in order, sent once, and again for a scheduler that started anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.monitor.windows import Windows
from sterna.protocol.reports import Report, Usage

EXPIRY = {"silent_after_s": 60.0, "forget_after_s": 3600.0}


def report(seq: int, pod: str = "a/p", value: float | None = 1.0, uid: str = "") -> Report:
    return Report(pod, seq, float(seq), value, job_uid=uid)


def seqs(windows: Windows) -> list[int]:
    return [each.seq for each in windows.unsent()]


def test_what_was_sent_is_not_sent_again_and_what_came_meanwhile_is():
    windows = Windows()
    windows.take(report(1), 0)
    batch = windows.unsent()
    windows.take(report(2), 0)
    windows.sent(batch)
    assert seqs(windows) == [2]
    windows.sent(windows.unsent())
    assert seqs(windows) == []


def test_a_full_window_loses_its_oldest_and_counts_what_nobody_got():
    windows = Windows(window=3)
    for seq in range(1, 4):
        windows.take(report(seq), 0)
    windows.sent(windows.unsent()[:2])
    for seq in range(4, 7):
        windows.take(report(seq), 0)
    assert seqs(windows) == [4, 5, 6]
    assert windows.lost == 1  # 3 was never sent; 1 and 2 were


def test_a_batch_is_bounded_and_the_rest_follows():
    windows = Windows()
    for pod in "abc":
        for seq in range(1, 11):
            windows.take(report(seq, pod), 0)
    got = []
    while batch := windows.unsent(7):
        assert len(batch) <= 7
        got += batch
        windows.sent(batch)
    assert [(each.pod, each.seq) for each in got] == [(pod, seq) for pod in "abc" for seq in range(1, 11)]


def test_a_scheduler_that_started_anew_is_told_everything_in_order():
    windows = Windows()
    for seq in range(1, 6):
        windows.take(report(seq), 0)
    windows.sent(windows.unsent())
    windows.measured(Report("a/p", 0, 9.0, usage=Usage(cpu=1.0)), 0)
    windows.sent(windows.unsent())
    windows.all_unsent()
    assert seqs(windows) == [1, 2, 3, 4, 5, 0]


def test_of_measurements_only_the_newest_is_sent():
    windows = Windows()
    for cpu in (1.0, 2.0, 3.0):
        windows.measured(Report("a/p", 0, 0.0, usage=Usage(cpu=cpu)), 0)
    batch = windows.unsent()
    assert [each.usage for each in batch] == [Usage(cpu=3.0)]
    windows.measured(Report("a/p", 0, 0.0, usage=Usage(cpu=4.0)), 0)
    windows.sent(batch)
    assert [each.usage for each in windows.unsent()] == [Usage(cpu=4.0)]


def test_measuring_is_not_hearing():
    windows = Windows()
    windows.take(report(1), 0.0)
    windows.measured(Report("a/p", 0, 0.0, usage=Usage(cpu=1.0)), 59.0)
    assert windows.expire(60.0, **EXPIRY) == ["a/p"]


def test_a_pod_that_is_only_measured_is_never_called_silent():
    windows = Windows()
    windows.measured(Report("a/p", 0, 0.0, usage=Usage(cpu=1.0)), 0.0)
    assert windows.expire(100.0, **EXPIRY) == []
    windows.gone("a/p")
    assert len(windows) == 0


@pytest.mark.parametrize("told", [True, False], ids=["the scheduler had it", "the scheduler did not have it"])
def test_who_falls_silent_keeps_its_last_evaluation_and_its_number(told):
    windows = Windows()
    for seq, value in ((1, 0.1), (2, 0.2), (3, None)):
        windows.take(report(seq, value=value), 0.0)
    if told:
        windows.sent(windows.unsent())
    assert windows.expire(60.0, **EXPIRY) == ["a/p"]
    assert windows.expire(61.0, **EXPIRY) == []  # said once
    assert seqs(windows) == ([] if told else [2])
    assert not windows.take(report(3), 62.0)
    assert windows.take(report(4), 62.0)
    windows.all_unsent()
    assert seqs(windows) == [2, 4]


def test_who_was_silent_for_hours_is_forgotten():
    windows = Windows()
    windows.take(report(1), 0.0)
    windows.expire(60.0, **EXPIRY)
    windows.expire(3600.0, **EXPIRY)
    assert len(windows) == 0
    assert windows.unsent() == []


def test_there_is_room_for_so_many_pods_and_the_longest_silent_gives_way():
    windows = Windows(pods_max=3)
    for now_s, pod in enumerate("abca"):
        windows.take(report(now_s + 1, pod), now_s)
    windows.take(report(9, "d"), 9)
    assert [pod for (pod, _), _ in windows.items()] == ["c", "a", "d"]
    assert {each.pod for each in windows.unsent()} == {"c", "a", "d"}


@given(st.lists(st.one_of(
    st.tuples(st.just("take"), st.sampled_from("abc"), st.integers(1, 30)),
    st.tuples(st.just("send"), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("anew"), st.none(), st.none()),
    st.tuples(st.just("expire"), st.integers(0, 200), st.none()),
), max_size=60))  # fmt: skip
def test_whatever_happens_the_scheduler_gets_each_number_once_and_rising(happenings):
    """`send` may lose the answer: then the same comes again, and the scheduler passes it over."""
    windows, now_s = Windows(window=5, pods_max=2), 0.0
    last: dict[str, int] = {}
    got: list[tuple[str, int]] = []
    for what, first, second in happenings:
        now_s += 1
        if what == "take":
            windows.take(report(second, first), now_s)
        elif what == "send":
            batch = windows.unsent(first)
            for each in batch:
                if each.seq > last.get(each.pod, 0):
                    last[each.pod] = each.seq
                    got.append((each.pod, each.seq))
            if second:
                windows.sent(batch)
        elif what == "anew":
            windows.all_unsent()
            last, got = {}, []
        else:
            now_s += first
            windows.expire(now_s, silent_after_s=60, forget_after_s=150)
        assert len(windows) <= 2
        assert all(len(record.window) <= 5 and record.pending <= len(record.window) for _, record in windows.items())
    for pod in "abc":
        numbers = [seq for who, seq in got if who == pod]
        assert numbers == sorted(set(numbers))
