"""When cycles run: rate limit, triggers and coalescing, on a clock that is a number."""

import random
from itertools import pairwise

import pytest

from sterna.engines.pacing import Happening, Pacer
from sterna.model.errors import InvalidRequest


def cycles_at(pacer: Pacer, events: list[tuple[float, Happening]], *, takes_s: float = 0.0) -> list[float]:
    """The moments at which cycles begin if these events come in; a cycle takes `takes_s`."""
    began: list[float] = []
    pending = sorted(events, key=lambda event: event[0])
    now_s = 0.0
    while True:
        due_s = pacer.due_s(now_s)
        if pending and (due_s is None or pending[0][0] <= due_s):
            now_s, happening = max(now_s, pending[0][0]), pending.pop(0)[1]
            pacer.notice(happening)
            continue
        if due_s is None:
            return began
        now_s = due_s
        began.append(now_s)
        ticket = pacer.begin()
        while pending and pending[0][0] <= now_s + takes_s:
            pacer.notice(pending.pop(0)[1])
        now_s += takes_s
        pacer.end(ticket, now_s)


def test_voda_7_five_events_within_the_limit_make_two_passes():
    pacer = Pacer(rate_limit_s=30)
    events = [(float(second), Happening.JOB_ACCEPTED) for second in (0, 5, 10, 15, 20)]
    assert cycles_at(pacer, events) == [0, 30]


def test_voda_7_a_new_limit_holds_from_the_next_block_on():
    pacer = Pacer(rate_limit_s=30)
    assert cycles_at(pacer, [(0.0, Happening.JOB_ACCEPTED)]) == [0]
    pacer.rate_limit_s = 100
    assert cycles_at(pacer, [(1.0, Happening.JOB_ACCEPTED), (31.0, Happening.JOB_ACCEPTED)]) == [30, 130]


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")], ids=str)
def test_voda_7_a_limit_that_is_no_number_of_seconds_is_refused(seconds):
    pacer = Pacer(rate_limit_s=30)
    with pytest.raises(InvalidRequest, match="rate limit"):
        pacer.rate_limit_s = seconds
    assert pacer.rate_limit_s == 30


WAKES = {  # Voda's triggers, what Sterna adds to them, and what changes no decision; each stated here, not derived
    "started up": True,
    "job accepted": True,
    "job completed": True,
    "job failed": True,
    "running job deleted": True,
    "node added": True,
    "node deleted": True,
    "node recreated": True,
    "priority changed": True,
    "cycle failed": True,
    "job suspended": True,
    "job resumed": True,
    "workers gone": True,
    "node changed": True,  # Voda ignored cordons, readiness and capacity
    "policy changed": True,  # Voda took another algorithm up only when something else happened
    "serving pod arrived": True,
    "serving pod left": True,
    "growth changed": True,
    "timer": True,
    "waiting job deleted": False,
    "finished job deleted": False,
    "rate limit changed": False,
    "progress reported": False,
}


def test_voda_8_everything_that_can_happen_is_in_the_table():
    assert {happening.value for happening in Happening} == WAKES.keys()


@pytest.mark.parametrize(("happening", "wakes"), WAKES.items())
def test_voda_8_what_can_change_a_decision_wakes_the_loop_and_nothing_else(happening, wakes):
    pacer = Pacer()
    pacer.notice(Happening(happening))
    assert pacer.due_s(7.0) == (7.0 if wakes else None)


def test_voda_9_no_interleaving_of_ten_thousand_loses_an_event():
    """However events and cycles interleave, the last cycle begins after the last event it must answer: its plan is
    the plan from the final state."""
    chance = random.Random(9)
    for _ in range(10_000):
        limit_s = chance.choice([0.0, 1.0, 30.0])
        events = [(chance.uniform(0, 60), Happening.JOB_ACCEPTED) for _ in range(chance.randint(1, 12))]
        began = cycles_at(Pacer(rate_limit_s=limit_s), events, takes_s=chance.choice([0.0, 0.5, 5.0]))
        assert began[-1] >= max(at_s for at_s, _ in events)
        assert all(later - earlier >= limit_s - 1e-9 for earlier, later in pairwise(began))


def test_voda_9_a_burst_of_events_is_one_cycle_and_never_blocks():
    pacer = Pacer(rate_limit_s=30)
    assert cycles_at(pacer, [(0.0, Happening.JOB_ACCEPTED)] * 5_000) == [0.0]
