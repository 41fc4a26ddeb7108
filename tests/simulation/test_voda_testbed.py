"""Voda's testbed: 24 jobs on 12 real GPUs, as its logs recorded them, against our execution model and policies."""

import pytest
from benchmarks.validate import ranked_as_measured
from benchmarks.voda_testbed import POLICIES, agreement, as_voda, measured, replayed, simulated
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


@pytest.mark.parametrize("name", POLICIES)
def test_b1_with_vodas_defects_our_policies_take_as_long_as_the_testbed_took(testbed, name):
    """Voda drew lots, so what is compared is the mean of 40 draws; one draw of elastic Tiresias varies by 4 %."""
    assert as_voda(testbed, name).jct_mean_s == pytest.approx(measured(testbed, name).jct_avg_s, rel=0.10)


def test_b1_voda_33_with_vodas_defects_our_policies_rank_as_the_testbed_ranked_them(testbed):
    assert ranked_as_measured({name: as_voda(testbed, name).jct_mean_s for name in POLICIES})


def test_b1_voda_33_without_them_they_rank_so_too_and_none_is_slower(testbed):
    ours = {name: simulated(testbed, name).jct_avg_s for name in POLICIES}
    assert ranked_as_measured(ours)
    assert all(ours[name] < as_voda(testbed, name).jct_mean_s for name in POLICIES)


def test_b2_elastic_fifo_decides_as_voda_decided(testbed):
    found = agreement(testbed, "ElasticFIFO")
    assert found.share >= 0.9, "\n".join(found.differences)


def test_b2_where_ffdl_differs_from_voda_it_is_the_better_optimum(testbed):
    """Voda's FfDL looked at speeds learned by then, which its logs do not hold: by the curves measured afterwards, what
    it chose is never better than what we choose, and mostly the same."""
    found = agreement(testbed, "FfDLOptimizer")
    assert found.share >= 0.8, "\n".join(found.differences)
    assert found.worse == 0
