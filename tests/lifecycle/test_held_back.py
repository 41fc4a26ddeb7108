"""What keeps a job from being started: gates first, then claims in their order, each by name."""

import pytest

from sterna.lifecycle.held_back import FREE, ClaimState, Hold, hold_of
from sterna.model.node_affinity import LabelOperator, LabelRequirement
from sterna.model.why import Why
from sterna.model.workload import Workload
from tests.wire.manifests.builders import Manifest, replica, tfjob, workload


def job(*, workers: int = 2, gates: tuple[str, ...] = (), claims: tuple[str, ...] = ()) -> Workload:
    """A parameter server and workers, all of which mount the claims."""
    types: Manifest = {"PS": replica("tensorflow"), "Worker": replica("tensorflow", workers)}
    for one in types.values():
        one["template"]["spec"] |= {
            "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims],
            "schedulingGates": [{"name": name} for name in gates],
        }
    return workload(tfjob(types))


def zone(*values: str) -> tuple[tuple[LabelRequirement, ...], ...]:
    return tuple((LabelRequirement("zone", LabelOperator.IN, (value,)),) for value in values)


@pytest.mark.parametrize(
    ("held", "claims", "why", "words"),
    [
        pytest.param(job(gates=("a", "b")), [], Why.SCHEDULING_GATED, "a, b", id="gates by name, each once"),
        pytest.param(
            job(gates=("a",), claims=("x",)), [None], Why.SCHEDULING_GATED, "a", id="gates before claims are looked at"
        ),
        pytest.param(
            job(claims=("x", "y")),
            [ClaimState("x"), ClaimState("y", "is not there")],
            Why.VOLUMES_NOT_READY,
            "y is not there",
            id="the claim that is missing",
        ),
        pytest.param(
            job(claims=("x",)),
            [ClaimState("x", one_pod=True)],
            Why.VOLUMES_NOT_READY,
            "3 pods of the job",
            id="one pod's claim in a job of three",
        ),
    ],
)
def test_what_holds_a_job_back(held, claims, why, words):
    because = hold_of(held, claims).because
    assert because is not None
    assert because.why is why
    assert words in because.sentence


def test_a_claim_that_was_not_looked_at_holds_back_and_says_nothing():
    hold = hold_of(job(claims=("x",)), [None])
    assert (hold.because, hold.holds) == (None, True)


def test_volumes_let_a_job_run_where_all_of_them_can_be():
    claims = [ClaimState("x", terms=zone("a", "b")), ClaimState("y", terms=zone("a", "b")), ClaimState("z")]
    assert hold_of(job(claims=("x", "y", "z")), claims) == Hold(terms=zone("a", "b"))
    assert hold_of(job(), ()) == FREE
