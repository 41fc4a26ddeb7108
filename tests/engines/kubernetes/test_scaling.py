"""The operator's work is linear, or nearly so, in objects of each kind: counted in calls, whatever the machine does.

`benchmarks/scaling.py` measures the same scenes with up to 10,000 objects.
"""

import pytest
from benchmarks.scaling import KINDS, calls

TIMES = 4
COSTLY = {"jobs", "moves", "waiting"}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_four_times_as_many_more_objects_are_about_four_times_as_much_more_work(kind: str):
    """Differences, so that what is the same for any number of objects does not hide what grows. That part may be larger
    or smaller by itself: how often the operator wakes up meanwhile depends on the machine.
    """
    few = 10 if kind in COSTLY else 50
    works = [calls(kind, count) for count in (few, few * TIMES, few * TIMES**2)]
    more, much_more = works[1] - works[0], works[2] - works[1]
    linear, quadratic = TIMES, TIMES**2
    assert much_more < (works[0] + max(0, more)) * (linear + quadratic) / 2, works
