"""Nodes that go, close or refuse: what a job keeps, and how it comes back."""

import pytest

from sterna.engines.kubernetes.reconcile.effects import CreatePod, DeletePod
from sterna.engines.kubernetes.reconcile.job_view import NodeFacts
from sterna.lifecycle.retry import BACK_OFF_MAX_S
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.workload import Contract, RunPolicy
from tests.engines.kubernetes.reconcile.world import GRACE_S, PS, World, at, workers, workload

TF = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4))
GANG = workload(Contract.RESTART, kind="ElasticJob", workers=(1, 4))


def test_dragon_7_a_worker_on_a_node_that_is_gone_is_placed_anew_and_its_pod_removed_at_once():
    world = World(TF).started(PS, at(0), at(1, "n2"))
    del world.nodes["n2"]
    done = world.turn()
    assert [(e.name, e.grace_s) for e in done.effects if isinstance(e, DeletePod)] == [("job1-worker-1", 0)]
    assert world.standing.assigned == (PS, at(0))
    assert world.standing.reason == "NodeLost"
    assert "workers gone" in world.happenings
    assert "WorkersLost" in world.reasons
    assert "job1-worker-1" not in world.pods
    world.rest()
    world.grow(PS, at(0), at(1, "n3"))
    world.rest()
    assert world.pods["job1-worker-1"]["spec"]["nodeName"] == "n3"
    assert world.standing.failures == 0


def test_a_node_that_does_not_answer_keeps_its_pod_until_the_grace_period_is_over():
    world = World(TF).started(PS, at(0), at(1, "n2"))
    world.lose("n2")
    world.turn()
    asked = [effect for effect in world.done if isinstance(effect, DeletePod)]
    assert [effect.grace_s for effect in asked] == [None]
    world.rest()
    assert world.wake_s == world.now_s + GRACE_S
    world.grow(PS, at(0), at(1, "n3"))
    world.rest()
    assert world.pods["job1-worker-1"]["spec"]["nodeName"] == "n2"  # the name is taken
    world.now_s += GRACE_S
    world.rest()
    asked = [effect for effect in world.done if isinstance(effect, DeletePod)]
    assert [effect.grace_s for effect in asked] == [None, 0]
    assert world.pods["job1-worker-1"]["spec"]["nodeName"] == "n3"


@pytest.mark.parametrize(
    ("of", "held", "left"),
    [
        pytest.param(TF, (PS, at(0), at(1, "n2")), (PS, at(0)), id="others train on"),
        pytest.param(TF, (at(0, "n2", Role.PS), at(0), at(1)), (), id="nobody does without the parameter server"),
        pytest.param(GANG, (at(0), at(1, "n2")), (), id="nor does a gang without a member"),
        pytest.param(
            workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(2, 4)),
            (PS, at(0), at(1, "n2")),
            (),
            id="nor a job below its minimum",
        ),
        pytest.param(
            workload(Contract.TORCHRUN, kind="PyTorchJob"), (at(0, "n2"), at(1)), (), id="nor agents without a store"
        ),
    ],
)
def test_r5_what_a_job_keeps_when_a_node_is_lost(of, held, left):
    world = World(of).started(*held)
    world.lose("n2")
    world.turn()
    assert world.standing.assigned == left
    assert "workers gone" in world.happenings
    assert world.phase() is (Phase.RUNNING if left else Phase.RESIZING)
    assert world.conditions[-1] == ("Running=True" if left else "Restarting=True")
    assert (world.standing.seat_s is None) == bool(left)  # it comes back: its time goes on
    if not left:
        world.now_s += GRACE_S
        world.rest()
        assert not world.pods
        to = tuple(worker._replace(node="n3") if worker.node == "n2" else worker for worker in held)
        assert world.grow(*to)
        world.rest()
        assert world.phase() is Phase.RUNNING
        assert world.conditions[-1] == "Running=True"
        assert world.standing.incarnation == 2


@pytest.mark.parametrize(
    "facts", [NodeFacts(unschedulable=True), NodeFacts(unschedulable=True, drained=True)], ids=["cordoned", "drained"]
)
def test_dragon_7_a_pod_that_vanishes_on_a_closed_node_is_not_made_there_again(facts):
    world = World(TF).started(PS, at(0), at(1, "n2"))
    world.nodes["n2"] = facts
    world.rest()
    assert len(world.standing.seats) == 3  # what runs there stays
    world.delete_pod("job1-worker-1")  # evicted
    world.rest()
    assert world.standing.assigned == (PS, at(0))
    assert world.standing.reason == "NodeDrained"


def test_what_runs_on_a_node_in_doubt_stays_until_its_pod_goes():
    world = World(TF).started(PS, at(0), at(1, "n2"))
    world.nodes["n2"] = NodeFacts(doubted=True)
    world.rest()
    assert len(world.standing.seats) == 3
    world.delete_pod("job1-worker-1")  # as the cluster does, once its own patience is over
    world.turn()
    assert world.standing.assigned == (PS, at(0))
    assert world.standing.reason == "NodeLost"


def test_r5_a_gang_that_loses_its_nodes_again_and_again_waits_longer_each_time():
    world = World(GANG)
    world.rest()
    pauses = []
    for _ in range(5):
        assert world.grow(*workers(2))
        world.rest()
        if (retry_s := world.standing.retry_s) is not None:
            pauses.append(retry_s - world.now_s)
            assert not world.pods
            world.now_s = retry_s
            world.rest()
        assert len(world.pods) == 2
        world.lose("n1")
        world.rest()
        world.nodes["n1"] = NodeFacts()
        world.rest()
    assert pauses == [10.0, 20.0, 40.0]
    assert (world.standing.failures, world.standing.losses) == (0, 5)


def test_r5_a_gang_whose_member_is_evicted_stops_together_and_comes_back():
    world = World(GANG).started(at(0), at(1, "n2"))
    world.nodes["n2"] = NodeFacts(unschedulable=True)
    world.delete_pod("job1-worker-1")
    world.turn()
    assert all("deletionTimestamp" in pod["metadata"] for pod in world.pods.values())  # in time to commit together
    assert world.standing.seats == ()
    assert world.phase() is Phase.RESIZING


@pytest.mark.parametrize(
    "reason",
    ["Evicted", "NodeLost", "OutOfcpu", "OutOfmemory", "OutOfnvidia.com/gpu", "UnexpectedAdmissionError", "Shutdown"],
)
def test_what_a_kubelet_did_is_nobodys_failure(reason):
    world = World(workload(Contract.PARAMETER_SERVER, (Role.PS, 1), run_policy=RunPolicy(backoff_limit=0)))
    world.started(PS, *workers(2))
    world.fail("job1-worker-1", reason, "the node was low on resource: memory")
    world.rest()
    assert world.phase() is Phase.RUNNING
    assert world.standing.assigned == (PS, at(0))
    assert (world.standing.failures, world.standing.rejections) == (0, 0)  # the others were ready all the time
    assert "job1-worker-1" not in world.pods
    assert reason in next(event.message for event in world.events if event.reason == "WorkersLost")


def test_a_pod_that_its_own_deadline_ended_is_a_failure():
    world = World(TF).started(PS, *workers(2))
    world.fail("job1-worker-1", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
    world.rest()
    assert world.phase() is Phase.FAILED


def test_being_refused_again_and_again_takes_longer_and_longer():
    world = World(GANG)
    world.rest()
    pauses = []
    for _ in range(14):
        assert world.grow(*workers(2))
        world.rest(kubelets=False)
        if not world.pods:
            assert world.standing.retry_s is not None
            pauses.append(world.standing.retry_s - world.now_s)
            world.now_s = world.standing.retry_s
            world.rest(kubelets=False)
        world.fail("job1-worker-0", "OutOfcpu")
        world.turn()
        assert world.standing.seats == ()
        world.rest()
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == BACK_OFF_MAX_S
    assert world.phase() is Phase.RESIZING
    world.grow(*workers(2))
    world.now_s += BACK_OFF_MAX_S
    world.rest()
    assert world.standing.rejections == 0
    assert world.standing.retry_s is None


def test_roles_that_the_owner_takes_away_or_adds_are_placed_anew():
    world = World(workload(Contract.PARAMETER_SERVER, (Role.PS, 2))).started(PS, at(1, "n1", Role.PS), *workers(2))
    smaller = workload(Contract.PARAMETER_SERVER, (Role.PS, 1))
    world.edit(roles=smaller.roles)
    world.rest()
    assert world.standing.seats == ()
    assert world.standing.reason == "SpecChanged"


def test_a_role_that_the_owner_adds_is_placed_together_with_the_others():
    world = World(TF).started(PS, *workers(2))
    world.edit(roles=workload(Contract.PARAMETER_SERVER, (Role.PS, 2)).roles)
    world.rest()
    assert world.standing.seats == ()
    assert world.grow(PS, at(1, "n2", Role.PS), *workers(2))
    world.rest()
    assert len(world.pods) == 4


def test_a_worker_beyond_a_lowered_maximum_may_stay_and_is_not_made_again():
    world = World(TF).started(PS, *workers(4))
    world.edit(workers_max=2)
    world.rest()
    assert len(world.pods) == 5
    made = sum(isinstance(effect, CreatePod) for effect in world.done)
    world.delete_pod("job1-worker-3")
    world.rest()
    assert len(world.standing.seats) == 4
    assert sum(isinstance(effect, CreatePod) for effect in world.done) == made
