"""TFJob in both shapes: what is refused, what is filled in, and what it comes to."""

import pytest

from sterna.model.jobs import Role
from sterna.model.resources import Resources
from sterna.model.workload import CleanUp, Contract, RestartPolicy, Success
from tests.wire.manifests.builders import Manifest, annotated, problems, replica, tfjob, workload

PS, WORKER = replica("tensorflow"), replica("tensorflow", 2)
REPLICAS = "spec.tfReplicaSpecs"


@pytest.mark.parametrize(
    ("job", "path", "expected"),
    [
        pytest.param(tfjob({}), REPLICAS, "a Worker", id="a job without a replica has nothing to run"),
        pytest.param(tfjob({"Worker": None}), REPLICAS, "a Worker", id="a replica that is null is none"),
        pytest.param(tfjob({"PS": PS}), REPLICAS, "a Worker", id="parameter servers alone train nothing"),
        pytest.param(
            tfjob({"Worker": {"template": {"spec": {"containers": []}}}}),
            f"{REPLICAS}.Worker.template.spec.containers",
            "at least one container",
            id="a replica without a container is refused",
        ),
        pytest.param(
            tfjob({"Worker": {"replicas": 1}}), f"{REPLICAS}.Worker.template", "a pod template", id="no template"
        ),
        pytest.param(
            tfjob({"Worker": replica("tensorflow", image="")}),
            f"{REPLICAS}.Worker.template.spec.containers[0].image",
            "an image",
            id="a container without an image is refused",
        ),
        pytest.param(
            tfjob({"Worker": replica("main")}),
            f"{REPLICAS}.Worker.template.spec.containers[0].name",
            "tensorflow",
            id="one container must be called tensorflow",
        ),
        pytest.param(
            tfjob({"Worker": WORKER, "Chief": PS, "Master": PS}),
            f"{REPLICAS}.Master",
            "either a Chief or a Master",
            id="a chief and a master are one too many",
        ),
        pytest.param(
            tfjob({"Worker": WORKER, "Chief": replica("tensorflow", 2)}),
            f"{REPLICAS}.Chief.replicas",
            "1",
            id="two chiefs are one too many",
        ),
        pytest.param(
            tfjob({"Worker": WORKER, "Evaluator": replica("tensorflow", 2)}),
            f"{REPLICAS}.Evaluator.replicas",
            "1",
            id="two evaluators are one too many",
        ),
        pytest.param(
            tfjob({"Worker": replica("tensorflow", 0)}), f"{REPLICAS}.Worker.replicas", "1 or more", id="no workers"
        ),
        pytest.param(
            tfjob(**{"min-instances": 0}), "spec.min-instances", "1 or more", id="a minimum of nothing is refused"
        ),
        pytest.param(
            tfjob(**{"min-instances": 3, "max-instances": 4}),
            f"{REPLICAS}.Worker.replicas",
            "from 3 to 4",
            id="fewer replicas than the minimum could never start",
        ),
        pytest.param(
            tfjob(**{"max-instances": 1}),
            "spec.max-instances",
            "at least 2",
            id="more replicas than the maximum do not fit into TF_CONFIG",
        ),
        pytest.param(
            tfjob({"Worker": replica("tensorflow")}, **{"min-instances": 4, "max-instances": 2}),
            "spec.min-instances",
            "at most 2 (spec.max-instances)",
            id="a minimum above the maximum is refused",
        ),
        pytest.param(
            tfjob({"Chief": PS}, **{"max-instances": 2}), f"{REPLICAS}.Chief", "a Worker", id="a lone chief cannot grow"
        ),
        pytest.param(
            tfjob({"Worker": WORKER, "worker": WORKER}),
            f"{REPLICAS}.worker",
            "Worker once",
            id="the same type in two spellings is written twice",
        ),
        pytest.param(
            tfjob(backoffLimit=1, runPolicy={"backoffLimit": 2}),
            "spec.backoffLimit",
            "2 as in spec.runPolicy.backoffLimit",
            id="the two shapes contradict each other",
        ),
    ],
)
def test_dragon_1_a_job_that_cannot_run_is_refused_with_the_place_and_what_would_do(job, path, expected):
    found = problems(job)
    assert list(found) == [path]
    assert expected in found[path][1]


def test_dragon_1_types_are_known_in_any_case():
    job = workload(tfjob({"ps": PS, "WORKER": WORKER}))
    assert [role.role for role in job.roles] == [Role.PS, Role.WORKER]


@pytest.mark.parametrize(
    ("job", "sizes"),
    [
        pytest.param(tfjob({"Worker": replica("tensorflow", 3)}), (3, 3, 3), id="bounds left out are the replicas"),
        pytest.param(tfjob({"Worker": replica("tensorflow")}), (1, 1, 1), id="nothing said is one worker"),
        pytest.param(tfjob(**{"max-instances": 4}), (2, 2, 4), id="only a maximum: the replicas are the minimum"),
        pytest.param(tfjob(**{"min-instances": 1}), (1, 2, 2), id="only a minimum: the replicas are the maximum"),
        pytest.param(
            tfjob({"Worker": replica("tensorflow")}, **{"min-instances": 2, "max-instances": 4}),
            (2, 2, 4),
            id="replicas left out are the minimum",
        ),
        pytest.param(
            tfjob({"Worker": replica("tensorflow")}, **{"max-instances": 4}), (1, 1, 4), id="a maximum and nothing else"
        ),
        pytest.param(annotated(tfjob(), min_workers=1, max_workers=3), (1, 2, 3), id="annotations say it, too"),
    ],
)
def test_dragon_1_bounds_are_filled_in(job, sizes):
    read = workload(job)
    assert (read.workers_min, read.workers_initial, read.workers_max) == sizes


def test_dragon_2_what_a_minimal_job_leaves_out():
    job = workload(tfjob({"Worker": replica("tensorflow")}))
    worker = job.template(Role.WORKER)
    assert (worker.replicas, worker.restart_policy) == (1, RestartPolicy.NEVER)
    assert job.run_policy.clean_up is CleanUp.RUNNING
    assert (job.run_policy.backoff_limit, job.run_policy.active_deadline_s) == (None, None)
    assert job.run_policy.ttl_after_finished_s is None
    assert job.port is None  # the kind's own, 2222: tests/engines/contracts


@pytest.mark.parametrize(
    ("resources", "request_", "limit"),
    [
        pytest.param(
            {"limits": {"cpu": "4", "memory": "8Gi"}},
            Resources(4000, 8 << 30),
            Resources(4000, 8 << 30),
            id="limits alone are what is planned",
        ),
        pytest.param(
            {"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "1Gi"}},
            Resources(1000, 1 << 30),
            Resources(4000, 1 << 30),
            id="a request goes before the limit of its own resource only",
        ),
        pytest.param({"limits": {"nvidia.com/gpu": 2}}, Resources(0, 0, 2000), Resources(0, 0, 2000), id="GPUs"),
        pytest.param({}, Resources(), Resources(), id="nothing asked, nothing planned"),
    ],
)
def test_dragon_3_the_request_is_what_the_pod_really_takes(resources, request_, limit):
    job = workload(tfjob({"Worker": replica("tensorflow", resources=resources)}))
    assert job.template(Role.WORKER).request == request_
    assert job.template(Role.WORKER).limit == limit


@pytest.mark.parametrize(
    ("types", "roles", "contract"),
    [
        pytest.param(
            {"Chief": PS, "Worker": WORKER}, ["chief", "worker"], Contract.RESTART, id="a chief, no servers: all anew"
        ),
        pytest.param(
            {"PS": PS, "Chief": PS, "Worker": WORKER, "Evaluator": PS},
            ["ps", "chief", "evaluator", "worker"],
            Contract.PARAMETER_SERVER,
            id="every type there is",
        ),
        pytest.param({"Worker": WORKER}, ["worker"], Contract.RESTART, id="workers alone are a collective"),
        pytest.param({"Master": PS}, ["master"], Contract.RESTART, id="a lone master is the worker"),
        pytest.param({"PS": PS, "Chief": PS}, ["ps", "chief"], Contract.PARAMETER_SERVER, id="a chief with its server"),
    ],
)
def test_dragon_8_every_replica_type_is_placed(types, roles, contract):
    job = workload(tfjob(types))
    assert [role.word for role in job.roles] == roles
    assert job.roles[-1].role is Role.WORKER
    assert job.contract is contract


@pytest.mark.parametrize(
    ("policy", "success"),
    [
        pytest.param({}, Success.LEADER, id="the chief or worker 0"),
        pytest.param({"successPolicy": ""}, Success.LEADER, id="the empty word is the default"),
        pytest.param({"successPolicy": "AllWorkers"}, Success.ALL_WORKERS, id="all of them"),
    ],
)
def test_whose_success_is_the_jobs(policy, success):
    assert workload(tfjob(**policy)).success is success


RUN_POLICY = {
    "cleanPodPolicy": "All",
    "ttlSecondsAfterFinished": 30,
    "activeDeadlineSeconds": 60,
    "backoffLimit": 2,
}


def test_both_shapes_say_the_same():
    flat, nested = workload(tfjob(**RUN_POLICY)), workload(tfjob(runPolicy=RUN_POLICY))
    assert flat == nested
    assert flat.run_policy.clean_up is CleanUp.ALL
    assert (flat.run_policy.ttl_after_finished_s, flat.run_policy.active_deadline_s) == (30.0, 60.0)
    assert flat.run_policy.backoff_limit == 2


SHARE = {"kubeshare/gpu_request": "0.334", "kubeshare/gpu_limit": "1.0", "kubeshare/gpu_mem": "1073741824"}


def shared(**changes: str | None) -> Manifest:
    worker = replica("tensorflow")
    pairs = {**SHARE, **{f"kubeshare/{key}": value for key, value in changes.items()}}
    worker["template"]["metadata"] = {"annotations": {key: value for key, value in pairs.items() if value is not None}}
    return tfjob({"Worker": worker})


def test_a_share_of_a_gpu_is_rounded_up():
    assert workload(shared()).template(Role.WORKER).request == Resources(0, 0, 334, 1 << 30)


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        pytest.param({"gpu_limit": "1.5"}, "gpu_limit", "at most 1.0", id="more than a card"),
        pytest.param(
            {"gpu_request": "0.6", "gpu_limit": "0.5"}, "gpu_request", "at most gpu_limit", id="above its limit"
        ),
        pytest.param({"gpu_mem": "-1"}, "gpu_mem", "a quantity", id="negative memory"),
        pytest.param({"gpu_mem": None}, "gpu_mem", "go together", id="one of the three is missing"),
        pytest.param({"gpu_request": "much"}, "gpu_request", "a quantity", id="no number"),
    ],
)
def test_a_share_that_makes_no_sense_is_refused(changes, key, expected):
    found = problems(shared(**changes))
    (path,) = found
    assert path == f'{REPLICAS}.Worker.template.metadata.annotations["kubeshare/{key}"]'
    assert expected in found[path][1]


def test_the_chief_beside_the_server_needs_a_server():
    assert dict(workload(annotated(tfjob(), chief_in_ps="true")).details) == {"chiefInPs": "true"}
    assert problems(annotated(tfjob({"Worker": WORKER}), chief_in_ps="true"))
    assert problems(annotated(tfjob(), chief_in_ps="yes"))
    assert workload(annotated(tfjob(), chief_in_ps="false")).details == ()


def test_an_annotation_may_choose_another_contract():
    assert workload(annotated(tfjob(), contract="restart")).contract is Contract.RESTART
    assert "parameter-server or restart" in str(problems(annotated(tfjob(), contract="torchrun")))
