"""How jobs come in, are suspended and resumed, left alone, edited; what a new operator finds."""

import json

import pytest

from sterna.engines.kubernetes.reconcile.effects import CreatePod, DeletePod
from sterna.engines.kubernetes.reconcile.job_view import Options
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.why import Because, Why
from sterna.model.workload import Contract, RunPolicy
from tests.engines.kubernetes.reconcile.world import PS, World, at, template, workers, workload

TF = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4))


def test_a_new_job_is_created_and_waits():
    world = World(TF)
    world.rest()
    assert world.conditions == ["Created=True"]
    assert world.status["enqueueTime"] == "2023-11-14T22:13:20Z"
    assert "startTime" not in world.status
    assert world.standing.waiting_since_s == world.look().created_s  # however long nobody was there to see it
    assert world.status["scheduling"]["state"] == "Waiting"
    assert world.status["scheduling"]["workers"] == "0/1-4"
    assert (world.reasons, world.happenings, world.done) == (["TFJobCreated"], ["job accepted"], [])
    assert world.writes == 1


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "MPIJob", "ElasticJob"])
def test_dragon_1_a_new_job_whose_spec_makes_no_sense_has_failed_by_that(kind):
    problem = "spec.tfReplicaSpecs: None is not valid; expected a Worker"
    world = World(workload(Contract.RESTART, kind=kind))
    world.fields = {"workload": None, "problem": problem}
    world.rest()
    assert world.conditions == ["Failed=True"]
    failed = world.condition("Failed")
    assert (failed["reason"], failed["message"]) == (f"Invalid{kind}Spec", problem)
    assert [(event.reason, event.warning) for event in world.events] == [(f"Invalid{kind}Spec", True)]
    assert world.done == []
    assert world.phase() is Phase.FAILED
    world.fields = {}  # and that is final: it is to be created anew
    world.rest()
    assert world.done == []
    assert world.conditions == ["Failed=True"]


def test_dragon_1_an_edit_that_makes_no_sense_changes_nothing_about_a_job_that_runs():
    world = World(TF).started(PS, *workers(2))
    pods = dict(world.pods)
    world.fields = {"problem": "spec.max-instances: 0 is not valid; expected at least 1", "generation": 2}
    for _ in range(3):
        world.rest()
    assert world.pods == pods
    assert world.conditions[-1] == "Running=True"
    assert world.status["scheduling"]["reason"] == "InvalidTFJobSpec"
    assert "max-instances" in world.status["scheduling"]["message"]
    assert world.reasons.count("EditIgnored") == 1
    assert world.standing.reason == "NextInOrder"  # what was decided is not forgotten
    world.exit("job1-worker-1", 1)  # the last reading that made sense is still good
    world.rest()
    assert world.phase() is Phase.FAILED


def test_dragon_1_nor_does_it_when_nobody_knows_the_job_as_it_was():
    """A new operator finds the edit, and nothing else."""
    world = World(TF).started(PS, *workers(2))
    before = len(world.done)
    world.fields = {"workload": None, "problem": "nonsense"}
    world.rest()
    assert len(world.done) == before
    assert len(world.standing.seats) == 3
    assert world.reasons.count("EditIgnored") == 1
    assert world.status["replicaStatuses"]["Worker"]["active"] == 2
    world.fields = {}
    world.rest()
    assert world.status["scheduling"]["reason"] == "NextInOrder"
    assert len(world.pods) == 3


@pytest.mark.parametrize("by", ["the manifest", "the operator's reading"])
def test_a_job_that_somebody_else_looks_after_is_left_wholly_alone(by):
    of = workload(Contract.RESTART, run_policy=RunPolicy(managed_by="kueue.x-k8s.io/multikueue"))
    world = World(of) if by == "the manifest" else World(TF, managed_by="kueue.x-k8s.io/multikueue")
    done = world.turn()
    assert (done.status, done.effects, done.events) == (None, (), ())


def test_suspending_lets_go_of_everything_and_resuming_waits_again():
    world = World(workload(Contract.PARAMETER_SERVER, (Role.PS, 1), run_policy=RunPolicy(active_deadline_s=60)))
    world.started(PS, *workers(2))
    world.now_s += 50
    world.edit_policy(suspend=True)
    world.rest()
    assert world.conditions == ["Created=True", "Running=False", "Suspended=True"]
    assert not world.pods
    assert not world.services
    assert (world.phase(), world.standing.seats) == (Phase.SUSPENDED, ())
    assert world.standing.waiting_since_s is None
    assert "startTime" not in world.status
    assert not world.grow(PS, *workers(2))
    world.now_s += 1000
    world.edit_policy(suspend=False)
    world.rest()
    assert world.conditions[-1] == "Suspended=False"
    assert world.standing.waiting_since_s == world.now_s
    world.grow(PS, *workers(2))
    world.rest()
    assert world.conditions == ["Created=True", "Suspended=False", "Running=True"]
    world.now_s += 59
    world.rest()
    assert world.phase() is Phase.RUNNING  # its time counts from the new start
    assert world.standing.ran_s == 50.0
    for reason in ("Suspended", "Resumed"):
        assert world.reasons.count(reason) == 1
    assert [h for h in world.happenings if "suspend" in h or "resume" in h] == ["job suspended", "job resumed"]


def test_a_job_may_come_in_suspended():
    world = World(workload(Contract.RESTART, run_policy=RunPolicy(suspend=True)))
    world.rest()
    assert world.conditions == ["Created=True", "Suspended=True"]
    assert world.phase() is Phase.SUSPENDED


def test_dragon_46_a_new_operator_goes_on_where_the_old_one_was():
    """Everything it needs is in the objects: looking again, it has nothing to do."""
    world = World(TF).started(PS, *workers(3))
    enqueued = world.status["enqueueTime"]
    before, writes = len(world.done), world.writes
    world.now_s += 3600
    world.options = Options(epoch=7)  # another leader alone is no reason to write
    world.rest()
    assert (len(world.done), world.writes) == (before, writes)
    world.shrink(PS, *workers(2))
    assert world.standing.epoch == 7
    assert world.status["enqueueTime"] == enqueued


def test_r2_an_older_leader_does_nothing():
    world = World(TF, options=Options(epoch=7)).started(PS, *workers(2))
    world.delete_pod("job1-worker-1", grace_s=0)
    world.options = Options(epoch=6)
    done = world.turn()
    assert (done.status, done.effects) == (None, ())


@pytest.mark.parametrize("kind", ["Succeeded", "Failed"])
def test_dragon_46_a_job_that_ended_before_sterna_came_is_not_run_again(kind):
    status = {
        "conditions": [
            {"type": "Created", "status": "True"},
            {"type": kind, "status": "True", "reason": f"TFJob{kind}"},
        ],
        "replicaStatuses": {"Worker": {"succeeded": 2}},
        "startTime": "2023-01-01T00:00:00Z",
        "completionTime": "2023-01-01T01:00:00Z",
    }
    world = World(TF, status=status)
    world.rest()
    assert world.phase().value == kind
    assert world.done == []
    assert world.conditions == ["Created=True", f"{kind}=True"]
    assert world.status["startTime"] == "2023-01-01T00:00:00Z"
    assert world.status["completionTime"] == "2023-01-01T01:00:00Z"
    assert world.status["replicaStatuses"]["Worker"]["succeeded"] == 2


@pytest.mark.parametrize("scheduling", [None, "nonsense", {"seats": ["worker/0"]}])
def test_dragon_46_a_standing_that_was_lost_is_made_again_from_the_pods(scheduling):
    world = World(TF).started(PS, *workers(3))
    before = {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
    world.status["scheduling"] = scheduling
    if scheduling is None:
        del world.status["scheduling"]
    world.rest()
    assert {name: pod["metadata"]["uid"] for name, pod in world.pods.items()} == before
    assert world.standing.assigned == (PS, *workers(3))
    assert world.phase() is Phase.RUNNING
    assert ("StatusUnreadable" in world.reasons) == (scheduling is not None)


def test_pods_that_do_not_make_up_a_job_go_when_its_standing_was_lost():
    world = World(TF).started(PS, *workers(2))
    del world.status["scheduling"]
    world.vanish("job1-ps-0")
    world.vanished = []
    world.rest()
    assert not world.pods
    assert world.phase() is Phase.WAITING


def test_the_owner_is_warned_of_what_is_not_used_once():
    templates = {Role.PS: template(), Role.WORKER: template(restartPolicy="Always", schedulerName="volcano")}
    world = World(TF, templates=templates).started(PS, *workers(2))
    assert world.reasons.count("SettedPodTemplateRestartPolicy") == 1
    assert world.reasons.count("SettedPodTemplateSchedulerName") == 1


def test_why_a_job_waits_is_told_when_it_changes_and_not_again():
    world = World(TF)
    world.rest()
    for _ in range(3):
        world.explain(Because(Why.NO_ROOM, (("short", 2),)))
    assert world.reasons.count("QueuedReason") == 1
    assert "short 2" in world.events[-1].message
    writes = world.writes
    world.rest()
    world.explain(Because(Why.NO_ROOM, (("short", 2),)))
    assert world.writes == writes
    world.explain(Because(Why.NO_ROOM, (("short", 1),)))  # new numbers in the status; no new event
    assert world.status["scheduling"]["numbers"] == {"short": 1}
    world.explain(Because(Why.NEVER_FITS))
    assert world.reasons.count("QueuedReason") == 2
    assert "numbers" not in world.status["scheduling"]
    assert world.condition("Admitted")["reason"] == "NeverFits"


def test_numbers_in_another_order_are_the_same_numbers():
    """An API server keeps maps in an order of its own."""
    world = World(TF)
    world.rest()
    because = Because(Why.NO_ROOM, (("short", 2), ("ahead", 1)))
    world.explain(because)
    numbers = world.status["scheduling"]["numbers"]
    world.status["scheduling"]["numbers"] = dict(sorted(numbers.items()))
    writes = world.writes
    world.explain(because)
    assert world.writes == writes


def test_dragon_49_the_events_of_a_scripted_life():
    world = World(TF)
    world.rest()
    world.explain(Because(Why.NO_ROOM))
    world.started(PS, *workers(4))
    world.shrink(PS, *workers(2))
    world.rest()
    world.grow(PS, *workers(3))
    world.rest()
    to = (PS, *workers(2), at(2, "n2"))
    world.shrink(PS, *workers(2), then=to)
    world.rest()
    world.grow(*to)
    world.rest()
    world.shrink(because=Because(Why.MADE_ROOM))
    world.rest()
    world.grow(PS, *workers(1))
    world.rest()
    world.exit("job1-worker-0", 0)
    world.rest()
    assert [str(reason) for reason in world.reasons] == [
        *("TFJobCreated", "QueuedReason", "Placed", "TFJobRunning", "ScaledDown", "ScaledUp", "Migrated"),
        *("QueuedReason", "Preempted", "Placed", "TFJobRunning", "TFJobSucceeded"),
    ]
    assert not [event for event in world.events if event.warning]
    made = {type(effect).__name__ for effect in world.done}
    assert made == {"CreatePod", "DeletePod", "CreateService", "DeleteService"}
    assert json.dumps(world.status)  # all of it can be written


def test_nothing_is_created_for_a_job_that_holds_nothing():
    world = World(TF)
    for _ in range(5):
        world.turn()
        world.now_s += 100
    assert not [effect for effect in world.done if isinstance(effect, CreatePod | DeletePod)]
    assert world.writes == 1
