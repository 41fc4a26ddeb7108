"""The status as users see it, and that it is written only when it says something new."""

import pytest

from sterna.model.conditions import OURS
from sterna.model.jobs import Role
from sterna.model.workload import Contract, RestartPolicy
from tests.engines.kubernetes.reconcile.world import PS, World, at, workers, workload

TF = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4), restarts=RestartPolicy.ON_FAILURE)


def test_dragon_15_the_last_condition_is_always_one_that_users_of_the_kind_know():
    world = World(TF)
    ours = {kind.value for kind in OURS}
    for step in (
        world.rest,
        lambda: world.grow(PS, *workers(2)),
        world.rest,
        lambda: world.shrink(PS, at(0)),
        world.rest,
        lambda: world.edit_policy(suspend=True),
        world.rest,
        lambda: world.edit_policy(suspend=False),
        world.rest,
    ):
        step()
        if not world.status:
            continue
        types = [condition["type"] for condition in world.status["conditions"]]
        assert len(set(types)) == len(types)
        assert types[:5] == ["Admitted", "GangReady", "Resizing", "Migrating", "Preempted"]
        assert types[-1] not in ours
        assert all(condition["observedGeneration"] for condition in world.status["conditions"])


def test_an_idle_job_writes_nothing():
    world = World(TF).started(PS, *workers(3))
    writes = world.writes
    for _ in range(10):
        world.now_s += 3600
        done = world.turn()
        assert (done.status, done.effects, done.events) == (None, (), ())
    assert world.writes == writes


def test_replicas_are_counted_by_type():
    world = World(TF)
    world.rest()
    world.grow(PS, *workers(3))
    assert world.status["replicaStatuses"]["Worker"].get("active") is None  # none runs yet
    world.run("job1-worker-0")
    world.turn()
    assert world.status["replicaStatuses"]["Worker"]["active"] == 1
    world.rest()
    replicas = world.status["replicaStatuses"]
    assert {kind: count["active"] for kind, count in replicas.items()} == {"PS": 1, "Worker": 3}
    assert replicas["Worker"]["selector"] == "group-name=kubeflow.org,tf-job-name=job1,tf-replica-type=worker"
    assert world.status["selector"] == replicas["Worker"]["selector"]


def test_a_lone_master_is_called_master():
    of = workload(Contract.RESTART, kind="PyTorchJob", workers=(1, 1))
    roles = tuple(template.__class__(**{**_values(template), "called": "master"}) for template in of.roles)
    world = World(of)
    world.workload = of.__class__(**{**_values(of), "roles": roles})
    world.started(at(0))
    assert list(world.status["replicaStatuses"]) == ["Master"]
    assert list(world.pods) == ["job1-master-0"]


def _values(value):
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


@pytest.mark.parametrize(
    ("size", "workers_shown", "gpus"), [(1, "1/1-4", "1"), (4, "4/1-4", "4")], ids=["smallest", "largest"]
)
def test_columns(size, workers_shown, gpus):
    world = World(TF).started(PS, *workers(size))
    scheduling = world.status["scheduling"]
    shown = {key: scheduling[key] for key in ("state", "workers", "gpus", "nodes", "reason")}
    assert shown == {
        "state": "Running",
        "workers": workers_shown,
        "gpus": gpus,
        "nodes": "n1",
        "reason": "NextInOrder",
    }


def test_many_nodes_are_shown_in_few_words():
    nodes = tuple(f"n{number}" for number in range(1, 9))
    of = workload(Contract.RESTART, kind="ElasticJob", workers=(1, 8))
    world = World(of, nodes=nodes).started(*(at(ordinal, node) for ordinal, node in enumerate(nodes)))
    assert world.status["scheduling"]["nodes"] == "n1,n2,n3,n4,n5 +3"


def test_a_pod_that_does_not_come_up_is_the_reason_shown_until_it_does():
    world = World(TF)
    world.rest()
    world.grow(PS, *workers(2))
    world.wait_for("job1-worker-1", "ErrImagePull", 'rpc error: pulling "train:1" failed')
    world.rest()
    scheduling = world.status["scheduling"]
    assert scheduling["state"] == "Starting"
    assert scheduling["reason"] == "ImagePullBackOff"
    assert "job1-worker-1" in scheduling["message"]
    assert "rpc error" in scheduling["message"]
    assert world.standing.reason == "NextInOrder"
    writes = world.writes
    world.wait_for("job1-worker-1", "ImagePullBackOff", 'Back-off pulling image "train:1"')
    world.rest()
    assert world.writes == writes  # the same trouble in other words
    world.run("job1-worker-1")
    world.rest()
    assert world.status["scheduling"]["reason"] == "NextInOrder"
    assert "decided" not in world.status["scheduling"]


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "InvalidImageName", "CrashLoopBackOff"])
def test_other_troubles_are_shown_by_their_names(reason):
    world = World(TF)
    world.rest()
    world.grow(PS, *workers(2))
    world.wait_for("job1-worker-0", reason, "because")
    world.rest()
    assert world.status["scheduling"]["reason"] == reason
    world.wait_for("job1-worker-0", "ContainerCreating")
    world.rest()
    assert world.status["scheduling"]["reason"] == "NextInOrder"


def test_a_trouble_that_is_shown_is_never_taken_for_a_decision():
    world = World(TF).started(PS, *workers(2))
    world.status["scheduling"]["reason"] = ""
    world.wait_for("job1-worker-1", "ImagePullBackOff", "x")
    world.rest()
    assert world.status["scheduling"]["reason"] == "ImagePullBackOff"
    assert world.standing.reason == ""


def test_restarts_in_place_are_counted_and_told_once_each():
    world = World(TF).started(PS, *workers(2))
    for restarts in (1, 2):
        world.restart_in_place("job1-worker-1", restarts=restarts, code=3)
        world.rest()
    assert world.standing.restarts == 2
    assert world.reasons.count("ExitedWithCode") == 2
    assert world.conditions[-1] == "Running=True"


def test_the_generation_that_was_seen_is_told():
    world = World(TF).started(PS, *workers(2))
    world.edit(workers_max=3)
    world.rest()
    assert world.status["observedGeneration"] == 2
    assert world.condition("Running")["observedGeneration"] == 2
    assert world.status["scheduling"]["workers"] == "2/1-3"


def test_what_a_newer_operator_wrote_beside_ours_is_left_alone():
    world = World(TF).started(PS, *workers(2))
    world.status["scheduling"]["fromTheFuture"] = {"a": 1}
    world.status["lastReconcileTime"] = "2023-01-01T00:00:00Z"
    world.shrink(PS, at(0))
    world.rest()
    assert world.status["scheduling"]["fromTheFuture"] == {"a": 1}
    assert world.status["lastReconcileTime"] == "2023-01-01T00:00:00Z"
