"""Generated traces: the same every time, like what they are said to be like, and those that are shipped."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.engines.simulator.generate import CATEGORIES, Mix, Pattern, generate
from sterna.engines.simulator.models.catalogue import default_model, make_jobs, performance_model
from sterna.model.errors import InvalidRequest
from sterna.wire.traces.own import dump_rows
from sterna.wire.traces.shipped import shipped_traces
from sterna.wire.traces.trace_reading import read_trace


@pytest.mark.parametrize(("name", "jobs", "pattern"), [("poisson-120", 120, "poisson"), ("bursty-200", 200, "bursty")])
def test_shipped_traces_are_what_the_generator_makes(name, jobs, pattern):
    assert shipped_traces()[name].read_text(encoding="utf-8") == dump_rows(generate(jobs, pattern, seed=1))


def test_shipped_traces_can_be_simulated_as_they_are():
    for path in shipped_traces().values():
        trace = read_trace(path)
        made = make_jobs(trace.rows, performance_model(default_model(trace.format)))
        assert (trace.problems, made.problems, len(made.jobs)) == ((), (), len(trace.rows))


@given(pattern=st.sampled_from(Pattern), seed=st.integers(0, 2**32), rate=st.floats(0.1, 1e4))
@settings(max_examples=30, deadline=None)
def test_rows_are_in_order_within_bounds_and_the_same_again(pattern, seed, rate):
    rows = generate(30, pattern, rate_per_hour=rate, seed=seed)
    assert rows == generate(30, pattern, rate_per_hour=rate, seed=seed)
    assert [row.submitted_s for row in rows] == sorted(row.submitted_s for row in rows)
    for row in rows:
        assert row.workers_min is not None
        assert row.workers_max is not None
        assert 1 <= row.workers_min <= row.workers <= row.workers_max <= Mix().workers_max
        assert row.workers & (row.workers - 1) == 0
        assert row.duration_s is not None
        assert 60 <= row.duration_s <= Mix().duration_max_s


def test_another_seed_is_another_trace():
    assert generate(20, seed=1) != generate(20, seed=2)


@pytest.mark.parametrize("pattern", Pattern)
def test_the_rate_holds_on_average(pattern):
    rows = generate(24_000, pattern, rate_per_hour=100, seed=3)  # ten days
    assert len(rows) / (rows[-1].submitted_s / 3600) == pytest.approx(100, rel=0.06)


def test_half_of_a_bursty_trace_comes_in_a_tenth_of_the_time():
    moments = np.array([row.submitted_s for row in generate(6000, "bursty", seed=3)])
    assert np.mean(moments % 7200 < 720) == pytest.approx(0.5, abs=0.03)


def test_days_have_a_height_and_a_low():
    moments = np.array([row.submitted_s for row in generate(20_000, "diurnal", seed=3)])
    by_hour = np.bincount((moments % 86_400 // 3600).astype(int), minlength=24)
    assert by_hour.max() / by_hour.min() == pytest.approx(10, rel=0.4)


def test_sizes_durations_and_categories_are_mixed_as_stated():
    rows = generate(8000, seed=5)
    durations = np.array([row.duration_s for row in rows])
    assert np.median(durations) == pytest.approx(Mix().duration_median_s, rel=0.06)
    assert np.mean([row.workers_min == row.workers_max for row in rows if row.workers > 1]) == pytest.approx(
        0.2, abs=0.03
    )
    for category in CATEGORIES:
        share = np.mean([row.category == category.name for row in rows])
        assert share == pytest.approx(category.share, abs=0.02)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"jobs": 0}, "jobs"),
        ({"jobs": 10**9}, "jobs"),
        ({"pattern": "weekly"}, "poisson, bursty, diurnal"),
        ({"rate_per_hour": 0.0}, "rate"),
        ({"rate_per_hour": float("nan")}, "rate"),
        ({"rate_per_hour": float("inf")}, "rate"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_generated_says_what_could(change, word):
    with pytest.raises(InvalidRequest, match=word):
        generate(**({"jobs": 5} | change))
