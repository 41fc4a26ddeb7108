"""The worlds that properties are held against have in them what they should have, and not by luck."""

import sys
from collections import Counter

from tests.oracle.search import in_the_way, joint_minimums_fit
from tests.oracle.worlds import features, small_world

WORLDS = 1000


def test_every_feature_is_in_at_least_one_world_of_fifty():
    """`pytest -s` prints the table."""
    seen = Counter(name for seed in range(WORLDS) for name in features(small_world(seed)))
    sys.stdout.write("".join(f"\n{count:5} of {WORLDS} worlds have {name}" for name, count in seen.most_common()))
    assert len(seen) >= 26
    assert min(seen.values()) >= WORLDS / 50, seen.most_common()[-3:]


def test_answers_go_both_ways():
    """Of 300 worlds: how often all minimums fit at once, and how many jobs can never start."""
    views = [small_world(seed) for seed in range(300)]
    fit = sum(joint_minimums_fit(view) for view in views)
    never = [in_the_way(view, job) is not None for view in views for job in view.jobs]
    assert 60 <= fit <= 240, fit
    assert 0.1 <= sum(never) / len(never) <= 0.6, sum(never) / len(never)
