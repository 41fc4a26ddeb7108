"""Seats and pods: who stays when others come and go, what is made anew where."""

import pytest

from sterna.engines.kubernetes.reconcile.effects import CreatePod
from sterna.engines.kubernetes.reconcile.job_seats import seats_for
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.workload import Contract
from tests.engines.kubernetes.reconcile.world import PS, World, at, workers, workload

TF = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4))
GANG = workload(Contract.RESTART, kind="ElasticJob", workers=(1, 4))
TORCH = workload(Contract.TORCHRUN, kind="PyTorchJob", workers=(1, 4))


def identity(world):
    """Of every pod: its uid, and everything that its program could notice."""
    return {
        name: (pod["metadata"]["uid"], repr(pod["spec"]), pod["metadata"]["labels"]) for name, pod in world.pods.items()
    }


def test_dragon_5_those_who_stay_are_not_touched_when_the_job_scales_2_4_2():
    world = World(TF).started(PS, *workers(2))
    two = identity(world)
    world.grow(PS, *workers(4))
    world.rest()
    four = identity(world)
    assert len(four) == 5
    assert {name: four[name] for name in two} == two
    world.shrink(PS, *workers(2))
    world.rest()
    assert identity(world) == two
    assert len(world.services) == 3
    assert [past.kind for past in world.standing.history] == ["resize", "resize"]
    assert world.standing.resizes == 2


def test_dragon_6_a_freed_index_is_taken_by_the_next_newcomer():
    world = World(TF).started(PS, *workers(4))
    before = identity(world)
    world.shrink(PS, at(0), at(3))
    world.rest()
    world.grow(PS, at(0), at(1, "n2"), at(3))
    world.rest()
    after = identity(world)
    assert sorted(after) == ["job1-ps-0", "job1-worker-0", "job1-worker-1", "job1-worker-3"]
    assert after["job1-worker-1"][2]["tf-job-workerid"] != before["job1-worker-1"][2]["tf-job-workerid"]
    assert {name: after[name] for name in after if name != "job1-worker-1"} == {
        name: before[name] for name in after if name != "job1-worker-1"
    }


def test_dragon_7_a_deleted_pod_comes_back_in_its_slot():
    world = World(TF).started(PS, *workers(3))
    before = world.pods["job1-worker-1"]
    others = {name: found for name, found in identity(world).items() if name != "job1-worker-1"}
    world.delete_pod("job1-worker-1")
    world.turn()
    assert world.pods["job1-worker-1"] is before  # its successor waits until it is gone
    world.rest()
    after = world.pods["job1-worker-1"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["spec"]["nodeName"] == "n1"
    assert {name: found for name, found in identity(world).items() if name != "job1-worker-1"} == others
    assert world.standing.failures == 0


@pytest.mark.parametrize("graceful", [True, False], ids=["told to go", "gone at once"])
@pytest.mark.parametrize(
    ("of", "held", "name", "whole"),
    [
        pytest.param(GANG, workers(3), "job1-worker-1", True, id="a gang restarts as a whole"),
        pytest.param(TF, (PS, *workers(3)), "job1-ps-0", True, id="so do the workers of a parameter server"),
        pytest.param(TORCH, workers(3), "job1-worker-0", True, id="and agents whose store is gone"),
        pytest.param(TORCH, workers(3), "job1-worker-1", False, id="other agents meet again"),
    ],
)
def test_dragon_7_who_restarts_together_with_a_deleted_pod(of, held, name, whole, graceful):
    world = World(of).started(*held)
    before = {pod["metadata"]["uid"] for pod in world.pods.values()}
    slots = {seat.slot for seat in world.standing.seats}
    world.delete_pod(name, grace_s=None if graceful else 0)
    world.rest()
    after = {pod["metadata"]["uid"] for pod in world.pods.values()}
    assert len(after) == len(before)
    assert len(after & before) == (0 if whole else len(before) - 1)
    assert world.standing.incarnation == (2 if whole else 1)
    assert {seat.slot for seat in world.standing.seats} == slots
    assert world.phase() is Phase.RUNNING


def test_a_pod_that_is_lost_before_its_gang_was_complete_is_simply_made():
    world = World(GANG)
    world.rest()
    world.grow(*workers(3))
    world.vanish("job1-worker-1")
    world.rest()
    assert len(world.pods) == 3
    assert world.standing.incarnation == 1


def test_a_gang_of_another_size_waits_until_everybody_of_the_old_one_is_gone():
    world = World(GANG).started(*workers(2))
    world.shrink(then=workers(4, "n2"))
    assert world.phase() is Phase.RESIZING
    assert world.grow(*workers(4, "n2"))
    world.turn()
    assert sorted(world.pods) == ["job1-worker-0", "job1-worker-1"]  # on their way out
    assert all("deletionTimestamp" in pod["metadata"] for pod in world.pods.values())
    world.vanish("job1-worker-0")
    world.turn()
    assert sorted(world.pods) == ["job1-worker-1"]
    world.rest()
    assert {pod["spec"]["nodeName"] for pod in world.pods.values()} == {"n2"}
    assert len(world.pods) == 4
    assert world.standing.incarnation == 2


def test_voda_22_each_worker_gets_exactly_the_node_of_its_seat():
    world = World(TF).started(PS, at(0, "n1"), at(1, "n2"), at(2, "n3"))
    nodes = {name: pod["spec"]["nodeName"] for name, pod in world.pods.items()}
    assert nodes == {"job1-ps-0": "n1", "job1-worker-0": "n1", "job1-worker-1": "n2", "job1-worker-2": "n3"}


def test_voda_22_a_pod_that_sits_elsewhere_is_put_right():
    world = World(TF).started(PS, at(0), at(1, "n2"))
    world.pods["job1-worker-1"]["spec"]["nodeName"] = "n3"
    world.rest()
    assert world.pods["job1-worker-1"]["spec"]["nodeName"] == "n2"


def test_moving_a_parameter_server_takes_everybody_along():
    world = World(TF).started(PS, *workers(2))
    before = identity(world)
    to = (at(0, "n2", Role.PS), *workers(2))
    world.shrink(*workers(2), then=to)
    world.turn()
    made = [effect for effect in world.done if isinstance(effect, CreatePod)]
    assert world.grow(*to)
    world.rest()
    assert {uid for uid, _, _ in identity(world).values()}.isdisjoint(uid for uid, _, _ in before.values())
    assert len([effect for effect in world.done if isinstance(effect, CreatePod)]) == len(made) + 3
    assert world.standing.incarnation == 2


def test_moving_a_worker_of_a_parameter_server_takes_nobody_along():
    world = World(TF).started(PS, *workers(2))
    before = identity(world)
    to = (PS, at(0), at(1, "n2"))
    world.shrink(PS, at(0), then=to)
    world.rest()
    assert world.grow(*to)
    world.rest()
    after = identity(world)
    assert {name for name in after if after[name][0] != before[name][0]} == {"job1-worker-1"}
    assert world.standing.migrations == 1
    assert world.standing.incarnation == 1


def test_services_of_other_names_are_left_alone():
    world = World(TF).started(PS, *workers(2))
    world.services["dashboard"] = {"metadata": {"name": "dashboard", "uid": "x"}}
    world.shrink(PS, at(0))
    world.rest()
    assert sorted(world.services) == ["dashboard", "job1-ps-0", "job1-worker-0"]


def test_growth_that_the_world_has_overtaken_is_stale():
    world = World(GANG).started(*workers(2))
    assert not world.grow(*workers(4))  # nobody survives: it must let go first
    tf = World(TF).started(PS, *workers(2))
    assert not tf.grow(at(0, "n2", Role.PS), *workers(2))  # would drop what it holds
    assert tf.grow(PS, *workers(2))  # is so already
    tf.exit("job1-worker-0", 0)
    tf.rest()
    assert not tf.grow(PS, *workers(3))


def test_slots_stay_with_those_who_stay_and_are_new_for_all_others():
    old = Standing(seats=tuple(Seat(at(ordinal), slot) for ordinal, slot in enumerate(["aaaaa", "bbbbb"])))
    seats = seats_for(old, (at(0), at(1, "n2"), at(2)), uid="u", now_s=5.0)
    assert seats[0].slot == "aaaaa"
    slots = [seat.slot for seat in seats]
    assert len({*slots, "bbbbb"}) == 4
    assert seats == seats_for(old, (at(0), at(1, "n2"), at(2)), uid="u", now_s=5.0)
    assert seats[1:] != seats_for(old, (at(0), at(1, "n2"), at(2)), uid="u", now_s=6.0)[1:]
