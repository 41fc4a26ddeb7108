"""What is left of a job that has ended, and for how long."""

import pytest

from sterna.engines.kubernetes.reconcile.effects import CreatePod, CreateService
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.workload import CleanUp, Contract, RunPolicy
from tests.engines.kubernetes.reconcile.world import PS, World, workers, workload


def tf(**policy):
    return workload(Contract.PARAMETER_SERVER, (Role.PS, 1), run_policy=RunPolicy(**policy))


RUNNING, SUCCEEDED, FAILED = "job1-worker-2", "job1-worker-1", "job1-worker-3"


@pytest.mark.parametrize("well", [True, False], ids=["Succeeded", "Failed"])
@pytest.mark.parametrize(
    ("policy", "left"),
    [
        (CleanUp.ALL, set()),
        (CleanUp.RUNNING, {SUCCEEDED, FAILED}),
        (CleanUp.NONE, {RUNNING, SUCCEEDED, FAILED}),
    ],
)
def test_dragon_13_what_stays_and_what_the_counters_say(policy, left, well):
    world = World(tf(clean_up=policy)).started(PS, *workers(4))
    world.exit(SUCCEEDED, 0)
    world.exit(FAILED, 1)
    if well:
        world.exit("job1-worker-0", 0)
    world.rest()
    assert world.phase() is (Phase.SUCCEEDED if well else Phase.FAILED)
    assert set(world.pods) & {RUNNING, SUCCEEDED, FAILED} == left
    services = set(world.services) & {RUNNING, SUCCEEDED, FAILED}
    assert services == left
    count = {key: number for key, number in world.status["replicaStatuses"]["Worker"].items() if key != "selector"}
    if well:
        assert count == {"succeeded": 3, "failed": 1}  # whoever was at work has done its part
    elif policy is CleanUp.NONE:
        assert count == {"active": 2, "succeeded": 1, "failed": 1}  # they run on
    else:
        assert count == {"succeeded": 1, "failed": 1}
    before = world.status
    for _ in range(3):
        world.turn()
    assert world.status == before


def test_dragon_13_pods_that_have_not_come_up_yet_count_as_running():
    world = World(tf(clean_up=CleanUp.RUNNING)).started(PS, *workers(2))
    world.wait_for("job1-worker-1", "ImagePullBackOff")
    world.exit("job1-worker-0", 0)
    world.rest()
    assert set(world.pods) == {"job1-worker-0"}


@pytest.mark.parametrize("policy", list(CleanUp))
def test_dragon_46_a_job_that_has_ended_makes_nothing_any_more(policy):
    world = World(tf(clean_up=policy)).started(PS, *workers(2))
    world.exit("job1-worker-0", 0)
    world.rest()
    made = len(world.done)
    for name in list(world.pods):
        world.vanish(name)
    world.services = {}
    world.rest()
    assert not [e for e in world.done[made:] if isinstance(e, CreatePod | CreateService)]


@pytest.mark.parametrize(("ttl_s", "early_s"), [(0, None), (30, 29.9)])
def test_dragon_14_a_job_is_deleted_when_its_time_after_the_end_is_over(ttl_s, early_s):
    world = World(tf(ttl_after_finished_s=ttl_s)).started(PS, *workers(2))
    world.exit("job1-worker-0", 0)
    end_s = world.now_s
    world.rest() if ttl_s else world.turn()
    if early_s is not None:
        assert world.wake_s == end_s + ttl_s
        world.now_s = end_s + early_s
        world.rest()
        assert not world.deleted
    world.now_s = end_s + ttl_s
    world.turn()
    assert world.deleted


def test_dragon_14_without_one_it_is_kept():
    world = World(tf()).started(PS, *workers(2))
    world.exit("job1-worker-0", 0)
    world.rest()
    world.now_s += 10**9
    world.rest()
    assert not world.deleted
    assert world.wake_s is None


def test_dragon_14_editing_it_afterwards_counts():
    world = World(tf()).started(PS, *workers(2))
    world.exit("job1-worker-0", 0)
    world.rest()
    world.edit_policy(ttl_after_finished_s=30.0)
    world.now_s += 31
    world.turn()
    assert world.deleted


@pytest.mark.parametrize("stage", ["new", "waiting", "running", "ended"])
def test_dragon_47_nothing_is_done_about_a_job_that_is_being_deleted(stage):
    """Its pods and services go with it: they have it as their owner."""
    world = World(tf())
    if stage != "new":
        world.rest()
    if stage in ("running", "ended"):
        world.started(PS, *workers(2))
    if stage == "ended":
        world.exit("job1-worker-0", 0)
    world.fields["deleting"] = True
    done = world.turn()
    assert (done.status, done.effects, done.events, done.wake_s) == (None, (), (), None)
