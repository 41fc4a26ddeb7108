"""Resizes, moves and preemptions as the job's history shows them: what they were, and what they cost."""

import pytest

from sterna.engines.kubernetes.reconcile.intentions import grown, shrunk
from sterna.engines.kubernetes.world.job_value import value_of
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.plan import Grow, Shrink
from sterna.model.why import Because, Why
from sterna.model.workload import Contract
from sterna.protocol import Status
from sterna.protocol import WorkerPhase as Said
from tests.engines.kubernetes.reconcile.world import PS, World, at, workers, workload

TF = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4))
GANG = workload(Contract.RESTART, kind="ElasticJob", workers=(1, 4))
GAVE_WAY = Because(Why.GAVE_WAY, (("workers_before", 4), ("workers_now", 2)))


def committed(step):
    return Status(pid=1, phase=Said.COMMITTED, step=step).to_json()


def test_a_move_of_a_gang_is_measured_from_the_last_end_to_the_new_leaders_start():
    world = World(GANG).started(*workers(2))
    began_s = world.now_s
    world.shrink(then=workers(2, "n2"), because=Because(Why.NODE_DRAINED))
    assert world.status["scheduling"]["state"] == "Migrating"
    assert world.condition("Migrating")["status"] == "True"
    assert world.condition("Migrating")["reason"] == "NodeDrained"
    for ordinal, after_s in ((0, 2), (1, 5)):
        world.now_s = began_s + after_s
        world.exit(f"job1-worker-{ordinal}", 0, message=committed(40))
    world.turn()
    world.grow(*workers(2, "n2"))
    world.now_s = began_s + 6
    world.kubelets()  # the old ones go
    world.turn()
    world.now_s = began_s + 9
    world.rest()
    (past,) = world.standing.history
    assert (past.kind, past.result, past.downtime_s, past.committed_step) == ("migration", "Succeeded", 4.0, 40)
    assert (past.before, past.after) == (workers(2), workers(2, "n2"))
    assert world.standing.migrations == 1
    assert [(d.kind, d.pause_s) for d in world.standing.disruptions] == [("migration", 4.0)]
    assert world.standing.progress.restart_s == 4.0
    assert world.phase() is Phase.RUNNING
    assert world.condition("Migrating")["status"] == "False"
    told = next(event for event in world.events if event.reason == "Migrated")
    assert "from n1 to n2" in told.message
    assert "4.0 s" in told.message
    assert "step 40" in told.message


def test_a_resize_tells_how_many_and_why():
    world = World(TF).started(PS, *workers(4))
    world.shrink(PS, *workers(2), because=GAVE_WAY)
    assert world.condition("Resizing")["status"] == "True"
    assert world.phase() is Phase.RESIZING
    world.rest()
    assert world.phase() is Phase.RUNNING
    told = next(event for event in world.events if event.reason == "ScaledDown")
    assert "from 4 to 2 workers" in told.message
    assert "workers before 4" in told.message
    (past,) = world.standing.history
    assert past.downtime_s == 0.0  # those that stayed never noticed
    world.grow(PS, *workers(3))
    world.rest()
    assert "from 2 to 3 workers" in next(event.message for event in world.events if event.reason == "ScaledUp")


def test_a_preempted_job_waits_and_its_time_in_the_seat_is_over():
    world = World(GANG).started(*workers(2))
    world.now_s += 100
    world.shrink(because=Because(Why.MADE_ROOM))
    assert world.phase() is Phase.WAITING
    assert world.condition("Preempted")["status"] == "True"
    assert world.conditions[-1] == "Running=False"
    assert "Preempted" not in world.reasons  # not before everybody is gone
    world.rest()
    assert not world.pods
    assert not world.services
    assert "Preempted" in world.reasons
    assert world.standing.waiting_since_s == world.now_s
    assert (world.standing.ran_s, world.standing.gpu_s, world.standing.last_ran_s) == (100.0, 200.0, 100.0)
    assert world.standing.started_s is None
    assert world.grow(*workers(1))
    world.rest()
    assert world.condition("Preempted")["status"] == "False"
    assert world.conditions[-1] == "Running=True"
    assert world.standing.gpu_s_since_start == 0.0
    assert world.standing.incarnation == 2


def test_time_in_the_seat_goes_on_through_a_resize():
    world = World(GANG).started(*workers(2))
    start_s = world.now_s
    world.now_s += 50
    world.shrink(then=workers(3))
    world.now_s += 10
    world.grow(*workers(3))
    assert world.standing.started_s == start_s
    assert world.standing.gpu_s_since_start == 100.0  # nothing while it held nothing
    assert world.phase() is Phase.RESIZING
    assert world.services  # it comes back, and so do those who look for it


def test_a_job_that_was_to_come_back_and_does_not_is_preempted_after_all():
    world = World(GANG).started(*workers(2))
    world.shrink(then=workers(3))
    world.give_up(Because(Why.NO_ROOM))
    assert world.phase() is Phase.WAITING
    world.rest()
    assert [past.kind for past in world.standing.history] == ["preemption"]
    assert world.status["scheduling"]["reason"] == "NoRoom"
    assert not world.services
    same = world.standing
    world.give_up(Because(Why.NO_ROOM))
    assert world.standing == same


def test_a_job_that_was_to_grow_again_and_does_not_has_been_resized():
    world = World(TF).started(PS, *workers(3))
    world.shrink(PS, *workers(2), then=(PS, *workers(2), at(2, "n2")))
    world.rest()
    assert world.standing.change.kind == "migration"  # it waits for the rest
    assert world.phase() is Phase.RESIZING
    world.give_up()
    world.rest()
    assert [past.kind for past in world.standing.history] == ["resize"]
    assert world.phase() is Phase.RUNNING


def test_what_a_migration_object_asked_for_carries_its_name():
    world = World(GANG).started(*workers(1))
    to = workers(1, "n2")
    view = world.look()
    because = Because(Why.REBALANCED)
    world.turn(shrunk(view, Shrink(view.id, (), because), Grow(view.id, to, because), world.now_s, migration="m1"))
    assert world.standing.change.migration == "m1"
    view = world.look()
    world.turn(grown(view, Grow(view.id, to, because), world.now_s, migration="m1"))
    world.rest()
    assert world.standing.history[-1].migration == "m1"


# -- as the core sees it ----------------------------------------------------------------------------------------------


def test_the_core_sees_what_is_held_and_what_still_leaves():
    world = World(TF).started(PS, *workers(3))
    world.shrink(PS, at(0))
    job = world.value
    assert job.workers == (PS, at(0))
    assert job.leaving == (at(1), at(2))
    assert (job.size, job.phase) == (1, Phase.RESIZING)
    world.rest()
    assert world.value.leaving == ()


def test_a_pod_whose_own_seat_waits_for_it_takes_no_more_than_the_seat():
    world = World(TF).started(PS, *workers(2))
    world.delete_pod("job1-worker-1")
    assert world.value.leaving == ()
    gang = World(GANG).started(*workers(2))
    gang.shrink(then=workers(3))
    gang.grow(*workers(3))
    assert gang.value.leaving == ()


def test_nobody_waits_for_pods_on_a_node_that_does_not_answer():
    world = World(TF).started(PS, at(0), at(1, "n2"))
    world.lose("n2")
    world.turn()
    assert world.value.leaving == ()


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"workload": None}, id="no spec"),
        pytest.param({"deleting": True}, id="deleted"),
        pytest.param({"managed_by": "kueue"}, id="somebody else's"),
    ],
)
def test_what_is_none_of_the_cores_business(fields):
    world = World(TF).started(PS, at(0))
    assert value_of(world.look(**fields)) is None
    assert World(TF).value is None  # not taken in yet
    world.exit("job1-worker-0", 0)
    world.rest()
    assert world.value is None
