"""Events of a job with many pods: what is summed up, and what is kept when there is more to tell than fits."""

import pytest

from sterna.engines.kubernetes.loop.effect_events import Tried, events_of_effects
from sterna.engines.kubernetes.reconcile.effects import CreatePod, CreateService, DeletePod, NudgePod
from sterna.engines.kubernetes.status.announcements import KEPT_MAX, with_events
from sterna.engines.kubernetes.status.job_events import JobEvent, Reason, names_in_words
from sterna.engines.kubernetes.status.standing import Standing
from sterna.model.errors import Conflict
from sterna.model.jobs import Role
from sterna.model.workload import Contract
from tests.engines.kubernetes.reconcile.world import PS, World, at, workload


@pytest.mark.parametrize(
    ("names", "words"),
    [
        pytest.param(["a-worker-0"], "a-worker-0", id="one"),
        pytest.param(["a-worker-1", "a-worker-0"], "a-worker-0, a-worker-1", id="two"),
        pytest.param(
            [f"a-worker-{n}" for n in range(40)], "a-worker-0 ... a-worker-39", id="a row in order of numbers"
        ),
        pytest.param(
            ["a-ps-0", *(f"a-worker-{n}" for n in (0, 1, 2, 4))],
            "a-ps-0, a-worker-0 ... a-worker-2, a-worker-4",
            id="roles and gaps",
        ),
        pytest.param(
            [f"a-worker-{n}" for n in range(0, 20, 2)],
            "a-worker-0, a-worker-2, a-worker-4, a-worker-6, a-worker-8, a-worker-10 and 4 more",
            id="no more than a reader takes in",
        ),
        pytest.param(["plain", "a-1x"], "a-1x, plain", id="names without numbers"),
    ],
)
def test_names_are_told_as_rows(names, words):
    assert names_in_words(names) == words


def test_what_was_done_together_is_told_together_and_one_is_told_as_ever():
    pods = [Tried(CreatePod(f"j-worker-{n}", {}), True) for n in range(40)]
    there = Tried(CreatePod("j-worker-40", {}), False)
    told = events_of_effects(
        [*pods, there, Tried(CreateService("j-worker-0", {}), True), Tried(NudgePod("x", "u", {}), True)]
    )
    assert told == (
        JobEvent(Reason.POD_CREATED, "Created 40 pods: j-worker-0 ... j-worker-39"),
        JobEvent(Reason.SERVICE_CREATED, "Created service: j-worker-0"),
    )


def test_what_failed_is_told_once_with_the_first_answer():
    told = events_of_effects(
        [Tried(DeletePod(f"j-worker-{n}", "u", None), False, Conflict("not now")) for n in range(3)]
    )
    assert told == (JobEvent(Reason.POD_NOT_DELETED, "j-worker-0 ... j-worker-2: not now", warning=True),)


def test_what_the_job_went_through_is_kept_when_its_pods_have_more_to_tell_than_fits():
    running, failed = JobEvent("TFJobRunning", "it runs"), JobEvent("TFJobFailed", "it failed", warning=True)
    exits = [JobEvent(Reason.EXITED, f"pod {n}", warning=True) for n in range(2 * KEPT_MAX)]
    standing = with_events(Standing(), [running, *exits, failed], 0.0)
    reasons = [found.reason for found in standing.announcements]
    assert len(reasons) == KEPT_MAX
    assert (reasons[0], reasons[-1]) == ("TFJobRunning", "TFJobFailed")
    assert standing.announced == 2 * KEPT_MAX + 2, "numbers are never given twice"
    flood = [JobEvent("Placed", f"place {n}") for n in range(KEPT_MAX + 3)]
    assert with_events(Standing(), flood, 0.0).announcements[0].message == "place 3"


def test_pods_that_fail_together_are_told_of_as_a_few_and_the_rest():
    world = World(workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 40)))
    world.started(PS, *(at(number) for number in range(40)))
    for number in range(40):
        world.exit(f"job1-worker-{number}", 1)
    world.turn()
    told = [event.message for event in world.events if event.reason == "ExitedWithCode"]
    assert len(told) == 4
    assert told[-1].startswith("37 more pods failed: job1-worker-")
