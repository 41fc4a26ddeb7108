"""Voda's testbed: 24 jobs on 12 real GPUs, as its logs recorded them, against our execution model and policies."""

import pytest
from benchmarks.voda_testbed import POLICIES, agreement, measured, replayed, simulated
from tests.traces import trace_path


@pytest.fixture(scope="module")
def testbed():
    return trace_path("voda-testbed")


@pytest.mark.parametrize("name", POLICIES)
def test_p15_recorded_decisions_take_as_long_as_they_took(testbed, name):
    ours, theirs = replayed(testbed, name), measured(testbed, name)
    assert ours.finished == 24
    assert ours.jct_avg_s == pytest.approx(theirs.jct_avg_s, rel=0.0505)  # the reference replay itself is 5.0 % off
    assert ours.makespan_s == pytest.approx(theirs.makespan_s, rel=0.03)


def test_b1_voda_33_our_policies_rank_as_the_testbed_ranked_them(testbed):
    ours = {name: simulated(testbed, name).jct_avg_s for name in POLICIES}
    assert ours["AFS-L"] < ours["FfDLOptimizer"]
    assert ours["AFS-L"] < ours["ElasticFIFO"]
    assert ours["FfDLOptimizer"] == pytest.approx(ours["ElasticFIFO"], rel=0.05)
    assert max(ours["FfDLOptimizer"], ours["ElasticFIFO"]) < ours["ElasticTiresias"]


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("AFS-L", 0.10),
        ("FfDLOptimizer", 0.10),
        ("ElasticFIFO", 0.10),
        ("ElasticTiresias", 0.15),  # 5 % of it is the execution model's, see P15; `docs/validation.md` has the rest
    ],
)
def test_b1_our_policies_take_about_as_long_as_the_testbed_took(testbed, name, within):
    assert simulated(testbed, name).jct_avg_s == pytest.approx(measured(testbed, name).jct_avg_s, rel=within)


def test_b2_elastic_fifo_decides_as_voda_decided(testbed):
    found = agreement(testbed, "ElasticFIFO")
    assert found.share >= 0.9, "\n".join(found.differences)


def test_b2_where_ffdl_differs_from_voda_it_is_the_better_optimum(testbed):
    """Voda's FfDL looked at speeds learned by then, which its logs do not hold: by the curves measured afterwards, what
    it chose is never better than what we choose, and mostly the same."""
    found = agreement(testbed, "FfDLOptimizer")
    assert found.share >= 0.8, "\n".join(found.differences)
    assert found.worse == 0
