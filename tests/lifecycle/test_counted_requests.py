"""What workers are counted for, where that is not what the manifest says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.lifecycle.counted_requests import CountedRequest, counted_requests, counted_spec, uncounted
from sterna.model.ids import JobId
from sterna.model.jobs import FixedRole, JobSpec, Role
from sterna.model.quantities import AMOUNT_MAX
from sterna.model.resources import NOTHING, Resources

ONE, TWO = Resources(1000), Resources(2000)
CARD, SHARE = Resources(gpu_milli=1000), Resources(gpu_milli=500, gpu_bytes=1 << 30)
amounts = st.builds(Resources, *(st.integers(0, AMOUNT_MAX),) * 4)


def spec(request: Resources, ps: Resources = NOTHING) -> JobSpec:
    return JobSpec(id=JobId("x/y"), submitted_s=0.0, request=request, fixed=(FixedRole(Role.PS, 1, ps),))


@pytest.mark.parametrize(
    ("written", "found", "known", "expected"),
    [
        pytest.param(ONE, ONE, None, None, id="admission changes nothing: nothing is kept"),
        pytest.param(ONE, TWO, None, TWO, id="a default of the namespace is counted"),
        pytest.param(TWO, ONE, None, ONE, id="less than the template says is counted, too"),
        pytest.param(ONE, None, (ONE, TWO), TWO, id="nothing new is known: what was found before holds"),
        pytest.param(ONE, None, (TWO, TWO), None, id="its owner asks for something else by now: it does not"),
        pytest.param(ONE, ONE, (ONE, TWO), None, id="the default has gone"),
        pytest.param(CARD, NOTHING, None, None, id="a card that only annotations tell of stays"),
        pytest.param(SHARE, ONE, None, SHARE._replace(cpu_milli=1000), id="a share of a card stays, CPUs are counted"),
        pytest.param(NOTHING, CARD, None, CARD, id="a card that admission put in is counted"),
    ],
)
def test_what_is_kept(written, found, known, expected):
    earlier = () if known is None else (CountedRequest(Role.WORKER, *known),)
    kept = counted_requests({Role.WORKER: written}, {} if found is None else {Role.WORKER: found}, earlier)
    assert kept == (() if expected is None else (CountedRequest(Role.WORKER, written, expected),))


def test_a_spec_is_counted_role_by_role():
    asked = spec(ONE, ps=ONE)
    assert counted_spec(asked, ()) is asked
    counted = counted_spec(asked, (CountedRequest(Role.PS, ONE, TWO),))
    assert (counted.request, counted.request_of(Role.PS)) == (ONE, TWO)
    assert counted.min_request == Resources(3000)
    assert counted_spec(asked, (CountedRequest(Role.WORKER, TWO, ONE),)) is asked, "it was found for another template"


@given(written=amounts, found=amounts)
def test_the_core_takes_whatever_is_found(written, found):
    """A namespace's defaults, and a status that was edited, are other people's."""
    asked = spec(Resources(1000, 1, 1000))
    kept = counted_requests({Role.WORKER: asked.request}, {Role.WORKER: found}, ())
    for counted in (kept, (CountedRequest(Role.WORKER, asked.request, found),)):
        assert max(counted_spec(asked, counted).request.times(100_000)) <= AMOUNT_MAX


@given(taken=amounts, counted=amounts)
def test_what_a_pod_takes_beyond_its_job_is_never_less_than_nothing(taken, counted):
    rest = uncounted(taken, counted)
    assert min(rest) >= 0
    assert rest.cpu_milli <= taken.cpu_milli
    assert uncounted(counted, counted) == NOTHING
