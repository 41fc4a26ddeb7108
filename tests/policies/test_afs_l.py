"""`afs-l`: golden vectors, and that the quick tournament is the plain one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds import cluster, job

from sterna.model.ids import JobId
from sterna.model.jobs import Job
from sterna.model.snapshot import Snapshot
from sterna.policies.afs_l import AUTHORS_RULE, VODAS_RULE, Rule
from sterna.policies.registry import policy
from sterna.policies.tournament import Standing, Tournament

MODELS = {
    "VGG": ([1, 1.785, 2.5, 3.125], 1500),
    "RES": ([1, 1.857, 2.6, 3.25], 1650),
    "INC": ([1, 1.842, 2.692, 3.5], 4900),
    "TRF": ([1, 1.657, 2.148, 2.521], 2900),
}


def sizes(view: Snapshot, **options: str) -> dict[JobId, int]:
    return policy("afs-l", options)(view).workers_by_job()


def four_models() -> list[Job]:
    return [
        job(name, at_most=4, left=left, speedups=speedups, submitted_s=at)
        for at, (name, (speedups, left)) in enumerate(MODELS.items())
    ]


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        pytest.param(3, (1, 1, 0, 1), id="three GPUs"),
        pytest.param(6, (2, 2, 1, 1), id="six GPUs"),
        pytest.param(12, (4, 3, 3, 2), id="twelve GPUs"),
    ],
)
def test_voda_17_afs_l_four_models(gpus, expected):
    given_out = sizes(cluster(gpus=gpus, jobs=four_models()), variant="voda")
    assert tuple(given_out.get(JobId(name), 0) for name in MODELS) == expected


def test_what_a_job_has_trained_since_it_was_looked_at_counts():
    """Of 100 units that were left at 0 s, 10 are left at 90 s: fewer than those of the job that waits."""
    ran = job("ran", left=100, on=["n1"])
    assert ran.units_left_at(90.0) == 10
    waits = job("waits", left=50, submitted_s=1.0)
    assert sizes(cluster(gpus=1, jobs=[ran, waits], now_s=90.0)) == {"ran": 1}
    assert sizes(cluster(gpus=1, jobs=[ran, waits], now_s=1.0)) == {"waits": 1}


def test_voda_17_afs_l_two_linear_jobs_gpu_by_gpu():
    jobs = [job("s", at_most=4, left=100), job("l", at_most=4, left=1000, submitted_s=1)]
    sequence = []
    for gpus in range(1, 9):
        held = sizes(cluster(gpus=gpus, jobs=jobs), variant="voda")
        sequence.append((held.get(JobId("s"), 0), held.get(JobId("l"), 0)))
    assert sequence == [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (4, 4)]


@pytest.mark.parametrize(
    ("jobs", "gpus", "expected"),
    [
        pytest.param(
            [job("a", left=30), job("b", left=10), job("c", left=20)], 2, {"b": 1, "c": 1},
            id="too few GPUs: one each to the shortest",
        ),
        pytest.param(
            [job("a", at_most=4, left=30), job("b", at_most=4, left=10)], 2, {"a": 1, "b": 1},
            id="everybody gets one before anybody gets two",
        ),
        pytest.param(
            [job("s", at_most=4, left=100), job("l", at_most=4, left=1000, submitted_s=1)], 5, {"s": 3, "l": 2},
            id="linear jobs: the shorter stays ahead by one",
        ),
        pytest.param(
            [job("s", at_most=4, left=100, speedups=[1, 1.01]), job("l", at_most=4, left=1000, submitted_s=1)], 4,
            {"s": 1, "l": 3},
            id="a short job that hardly gains gives way",
        ),
        pytest.param(
            [job("new", at_most=2), job("known", at_most=2, left=1e9, submitted_s=1)], 3, {"new": 1, "known": 2},
            id="unknown length counts as endless",
        ),
        pytest.param(
            [job("big", at_least=4, at_most=8, left=1), job("b", at_most=8, left=10)], 3, {"b": 3},
            id="a job whose minimum does not fit is passed over",
        ),
        pytest.param(
            [job("pairs", at_least=2, at_most=8, step=2, left=10), job("b", at_most=2, left=100)], 7,
            {"pairs": 4, "b": 2},
            id="the last GPU stays free if no step fits it",
        ),
        pytest.param(
            [job("done", at_most=4, left=0.0), job("b", at_most=4, left=100)], 4, {"done": 2, "b": 2},
            id="nothing left to do is no error",
        ),
    ],
)  # fmt: skip
def test_afs_l_of_the_authors_simulator(jobs, gpus, expected):
    assert sizes(cluster(gpus=gpus, jobs=jobs)) == expected


def plain_winner(rule: Rule, standings: list[Standing]) -> int:
    """Everybody meets the candidate in turn: the rule as its source states it."""
    candidate = 0
    for challenger in range(1, len(standings)):
        if rule.duel.next_beater(standings[challenger : challenger + 1], 0, standings[candidate]) is not None:
            candidate = challenger
    return candidate


COARSE = st.sampled_from([0.5, 0.75, 0.8, 1.0, 1.25, 1.5, 2.0])  # few values, so that ties happen
STANDINGS = st.tuples(st.sampled_from([1.0, 2.0, 3.0, 5.0]), COARSE, COARSE)


@settings(max_examples=80, deadline=None)
@given(
    rule=st.sampled_from([AUTHORS_RULE, VODAS_RULE]),
    standings=st.lists(STANDINGS, min_size=1, max_size=30),
    changes=st.lists(st.none() | STANDINGS, max_size=30),
    long_from=st.sampled_from([0, 1000]),
)
def test_a_tournament_held_from_where_it_changed_is_one_held_from_the_start(rule, standings, changes, long_from):
    tournament = Tournament(rule.duel, standings, long_from=long_from)
    for change in changes:
        winner = plain_winner(rule, standings)
        assert tournament.winner == winner
        if change is not None:
            standings[winner] = change
            tournament.replace_winner(change)
        elif len(standings) > 1:
            del standings[winner]
            tournament.drop_winner()
    assert tournament.winner == plain_winner(rule, standings)


@pytest.mark.parametrize("rule", [AUTHORS_RULE, VODAS_RULE], ids=["afs", "voda"])
def test_a_list_of_many_stretches_is_searched_to_its_end(rule):
    standings = [(5.0, 1.01, 0.99)] * 3000
    standings[2999] = (1.0, 2.0, 0.5)
    assert Tournament(rule.duel, standings).winner == plain_winner(rule, standings) == 2999


@settings(max_examples=60, deadline=None)
@given(
    worlds=st.lists(st.tuples(st.integers(1, 5), st.floats(1, 1e4), st.floats(0.1, 1)), min_size=1, max_size=8),
    gpus=st.integers(1, 24),
)
def test_p7_afs_l_equals_the_rule_as_it_is_stated(worlds, gpus):
    jobs = [
        job(f"j{at}", at_most=most, left=left, speedups=[count**bend for count in range(1, most + 1)], submitted_s=at)
        for at, (most, left, bend) in enumerate(worlds)
    ]
    assert sizes(cluster(gpus=gpus, jobs=jobs)) == {k: v for k, v in stated(jobs, gpus).items() if v}


def stated(jobs: list[Job], gpus: int) -> dict[JobId, int]:
    if len(jobs) >= gpus:
        return {each.id: 1 for each in sorted(jobs, key=lambda each: each.remaining_s(1, 0))[:gpus]}
    held = {each.id: 1 for each in jobs}
    for _ in range(gpus - len(jobs)):
        below = [each for each in jobs if held[each.id] < each.spec.workers_max]
        if not below:
            break
        winner = below[0]
        for challenger in below[1:]:
            winner = stated_winner(winner, challenger, held)
        held[winner.id] += 1
    return held


def stated_winner(candidate: Job, challenger: Job, held: dict[JobId, int]) -> Job:
    def now(each: Job) -> float:
        return each.remaining_s(held[each.id], 0)

    def after(each: Job) -> float:
        return each.remaining_s(held[each.id] + 1, 0)

    short, long = (challenger, candidate) if now(challenger) < now(candidate) else (candidate, challenger)
    return short if now(short) / after(short) + after(long) / now(long) > 2 else long


def test_voda_17_jobs_of_unknown_length_are_served_in_order_of_arrival():
    jobs = [job(name, at_least=1, at_most=1, submitted_s=number) for number, name in enumerate("abc")]
    view = cluster(gpus=2, jobs=jobs)
    assert set(policy("afs-l", {"variant": "voda"})(view).workers_by_job()) == {"a", "b"}
