"""Every job is looked at again now and then, each in its own rhythm."""

from math import inf

from sterna.engines.kubernetes.loop.slow_pass import SlowPass

UIDS = [f"uid-{number}" for number in range(200)]


def test_8_each_job_comes_once_in_its_period_and_not_with_all_others():
    slow, there = SlowPass(600.0), set(UIDS)
    for uid in UIDS:
        slow.add(uid, 0.0)
        slow.add(uid, 300.0)  # what takes part already keeps its moment
    assert not slow.due(479.0, there)
    assert 480.0 <= slow.next_s <= 500.0
    first = slow.due(600.0, there)
    assert 60 <= len(first) <= 140
    rest = slow.due(720.0, there)
    assert sorted(first + rest) == sorted(UIDS)


def test_8_its_rhythm_is_its_own_and_stays():
    slow = SlowPass(600.0)
    rhythms = {slow.rhythm_s(uid) for uid in UIDS}
    assert len(rhythms) == len(UIDS)
    assert all(480.0 <= rhythm_s <= 720.0 for rhythm_s in rhythms)
    assert {SlowPass(600.0).rhythm_s(uid) for uid in UIDS} == rhythms


def test_8_over_a_day_each_is_looked_at_as_often_as_its_rhythm_says():
    slow, looks = SlowPass(600.0), dict.fromkeys(UIDS, 0)
    for uid in UIDS:
        slow.add(uid, 0.0)
    now_s = 0.0
    while (now_s := slow.next_s) <= 86_400.0:
        for uid in slow.due(now_s, looks):
            looks[uid] += 1
    assert looks == {uid: int(86_400.0 // slow.rhythm_s(uid) + 1e-9) for uid in UIDS}


def test_8_a_job_that_is_gone_is_forgotten():
    slow = SlowPass(600.0)
    slow.add("gone", 0.0)
    assert not slow.due(10_000.0, set())
    assert slow.next_s == inf
    slow.add("gone", 10_000.0)
    assert slow.next_s < inf
    slow.begin()
    assert slow.next_s == inf
