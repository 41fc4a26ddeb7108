"""Columns say of every job what the job itself says, whoever keeps them."""

from operator import attrgetter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.model.columns import Columns, KeptColumns, Question
from sterna.model.ids import JobId
from sterna.model.jobs import Job
from tests.worlds import cluster, job

size: Question = attrgetter("size")
left_s: Question = attrgetter("left_s")
smallest: Question = attrgetter("spec.workers_min")


def test_a_snapshot_answers_for_the_jobs_that_take_part_in_their_order():
    jobs = [job("b", needs=2, on=["n1"] * 2), job("a", needs=4, left=80.0), job("c", needs=1, submitted_s=-1.0)]
    columns = cluster(gpus=8, jobs=jobs).columns
    assert columns.of(smallest).tolist() == [1, 4, 2]
    assert columns.of(size).tolist() == [0, 0, 2]
    assert columns.of(left_s).tolist() == [np.inf, 20.0, np.inf]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "replace", "remove", "ask"]), st.integers(0, 99)), max_size=200))
def test_kept_columns_are_those_of_the_jobs_there_are(happenings):
    kept = KeptColumns()
    jobs: dict[JobId, Job] = {}
    for number, (what, which) in enumerate(happenings):
        victim = list(jobs)[which % len(jobs)] if jobs else None
        if what == "add":
            jobs[JobId(f"j{number}")] = new = job(f"j{number}", needs=1 + which, left=float(number))
            kept.add(new)
        elif victim is None:
            continue
        elif what == "replace":
            jobs[victim] = changed = jobs[victim].but(units_left=float(which))
            kept.replace(changed)
        elif what == "remove":
            del jobs[victim]
            kept.remove(victim)
        for question in (left_s, smallest):
            assert kept.of(question).tolist() == [question(each) for each in jobs.values()]


@pytest.mark.parametrize("change", ["add", "replace", "remove"])
def test_a_snapshot_keeps_its_answers_when_the_engines_world_moves_on(change):
    kept, jobs = KeptColumns(), (job("a", left=1.0), job("b", left=2.0))
    for each in jobs:
        kept.add(each)
    columns = Columns(jobs, kept)
    assert columns.of(left_s).tolist() == [1.0, 2.0]
    if change == "add":
        kept.add(job("c", left=9.0))
    elif change == "replace":
        kept.replace(job("b", left=9.0))
    else:
        kept.remove(JobId("a"))
    assert columns.of(left_s).tolist() == [1.0, 2.0]
