"""Which patterns a monitor is told: each has a length, and a namespace has its share of a node's answer."""

import json

from sterna.engines.door.following import FOLLOW_BYTES_MAX, followed
from sterna.protocol.reports import PATTERN_CHARACTERS_MAX

LOSS = r"loss=(?P<value>[0-9.]+)"


def test_s1_a_pattern_that_is_too_long_is_left_out_alone_however_much_room_there_is():
    long = "x" * PATTERN_CHARACTERS_MAX
    patterns, left_out = followed({"a/longest": long, "a/too-long": long + "x", "a/usual": LOSS})
    assert patterns == {"a/longest": long, "a/usual": LOSS}
    assert left_out == {"a/too-long": "it has 1001 characters; at most 1000 are used"}


def test_s1_patterns_of_one_namespace_have_their_share_of_the_answer_and_leave_the_others_theirs():
    """Each of them is short enough; together they would fill any answer."""
    many = {
        f"{greedy}/pod-{number:03}": "x" * PATTERN_CHARACTERS_MAX
        for greedy in ("evil-a", "evil-z")
        for number in range(500)
    }
    patterns, left_out = followed({**many, "job/job1-worker-0": LOSS})
    assert patterns["job/job1-worker-0"] == LOSS
    assert len(json.dumps(patterns)) <= FOLLOW_BYTES_MAX
    counts = [sum(pod.startswith(f"{greedy}/") for pod in patterns) for greedy in ("evil-a", "evil-z")]
    assert counts[0] == counts[1] > 50, "neither has the other's"
    assert patterns.keys() | left_out.keys() == {*many, "job/job1-worker-0"}
    assert all("of this namespace" in why for why in left_out.values())
