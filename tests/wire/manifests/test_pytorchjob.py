"""PyTorchJob: masters, workers, elastic policies."""

import pytest

from sterna.model.jobs import Role
from sterna.model.workload import Contract, RestartPolicy, Success
from tests.wire.manifests.builders import annotated, problems, pytorchjob, replica, workload

MASTER, WORKERS = replica("pytorch"), replica("pytorch", 2)
GPUS = replica("pytorch", 2, resources={"limits": {"nvidia.com/gpu": 4, "cpu": "3500m"}})


@pytest.mark.parametrize(
    ("types", "roles", "success"),
    [
        pytest.param({"Master": MASTER}, ["master"], Success.ALL_WORKERS, id="a lone master is the worker"),
        pytest.param({"Master": MASTER, "Worker": WORKERS}, ["master", "worker"], Success.LEADER, id="master decides"),
        pytest.param({"worker": WORKERS}, ["worker"], Success.ALL_WORKERS, id="workers among themselves, in any case"),
    ],
)
def test_who_takes_part(types, roles, success):
    job = workload(pytorchjob(types))
    assert [role.word for role in job.roles] == roles
    assert job.roles[-1].role is Role.WORKER
    assert (job.contract, job.success) == (Contract.RESTART, success)
    assert {role.restart_policy for role in job.roles} == {RestartPolicy.ON_FAILURE}


@pytest.mark.parametrize(
    ("policy", "sizes"),
    [
        pytest.param({}, (2, 2, 2), id="an elastic policy that says nothing"),
        pytest.param({"minReplicas": 1, "maxReplicas": 4}, (1, 2, 4), id="both bounds"),
        pytest.param({"maxReplicas": 4}, (2, 2, 4), id="the replicas are the minimum"),
    ],
)
def test_an_elastic_policy_is_torchruns_contract(policy, sizes):
    job = workload(pytorchjob(elasticPolicy=policy))
    assert (job.contract, job.success) == (Contract.TORCHRUN, Success.LEADER)
    assert (job.workers_min, job.workers_initial, job.workers_max) == sizes


def test_bounds_by_annotation_leave_the_contract_alone():
    job = workload(annotated(pytorchjob({"Master": MASTER, "Worker": WORKERS}), min_workers=1, max_workers=8))
    assert job.contract is Contract.RESTART
    assert (job.workers_min, job.workers_max) == (1, 8)
    assert job.job_spec(submitted_s=0.0).restarts_on_resize


@pytest.mark.parametrize(
    ("spec", "processes"),
    [
        pytest.param({}, 1, id="one where nobody says"),
        pytest.param({"nprocPerNode": "2"}, 2, id="text, as Kubeflow has it"),
        pytest.param({"nprocPerNode": 2}, 2, id="a number will do"),
        pytest.param({"nprocPerNode": "auto"}, 4, id="auto is as many as GPUs are asked for"),
        pytest.param({"nprocPerNode": "gpu"}, 4, id="gpu, too"),
        pytest.param({"nprocPerNode": "cpu"}, 3, id="cpu is whole CPUs asked for"),
        pytest.param({"elasticPolicy": {"nProcPerNode": 8}}, 8, id="the older place"),
    ],
)
def test_processes_of_a_worker(spec, processes):
    assert workload(pytorchjob({"Worker": GPUS}, **spec)).processes_per_worker == processes


def test_auto_without_gpus_is_one():
    assert workload(pytorchjob(nprocPerNode="auto")).processes_per_worker == 1


@pytest.mark.parametrize(
    ("job", "path", "expected"),
    [
        pytest.param(pytorchjob({}), "spec.pytorchReplicaSpecs", "a Master, a Worker", id="nobody takes part"),
        pytest.param(
            pytorchjob({"Master": replica("pytorch", 2)}),
            "spec.pytorchReplicaSpecs.Master.replicas",
            "one master",
            id="two masters",
        ),
        pytest.param(
            pytorchjob({"Worker": replica("main")}),
            "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].name",
            "pytorch",
            id="one container must be called pytorch",
        ),
        pytest.param(
            pytorchjob(elasticPolicy={"minReplicas": 3}),
            "spec.elasticPolicy.minReplicas",
            "at most 2",
            id="a minimum above the replicas, which are the maximum then",
        ),
        pytest.param(
            annotated(pytorchjob(elasticPolicy={"minReplicas": 1}), min_workers=2),
            'metadata.annotations["sterna.dev/min-workers"]',
            "1 as in spec.elasticPolicy.minReplicas",
            id="policy and annotation contradict each other",
        ),
        pytest.param(
            pytorchjob(elasticPolicy={"rdzvBackend": "zookeeper"}),
            "spec.elasticPolicy.rdzvBackend",
            "'c10d', 'etcd' or 'etcd-v2'",
            id="a rendezvous nobody knows",
        ),
        pytest.param(
            pytorchjob(elasticPolicy={"rdzvConf": [{"key": "a=b", "value": "1"}]}),
            "spec.elasticPolicy.rdzvConf[0]",
            "a key",
            id="a setting that would be read as two",
        ),
        pytest.param(
            pytorchjob(nprocPerNode="many"), "spec.nprocPerNode", "1 to 1024", id="a number of processes that is none"
        ),
        pytest.param(
            pytorchjob(nprocPerNode=2, elasticPolicy={"nProcPerNode": 3}),
            "spec.nprocPerNode",
            "3 as in",
            id="two numbers of processes",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(job, path, expected):
    found = problems(job)
    assert list(found) == [path]
    assert expected in found[path][1]


@pytest.mark.parametrize(
    ("policy", "port"),
    [
        pytest.param({"rdzvPort": 29400}, 29400, id="where one of us listens"),
        pytest.param(
            {"rdzvPort": 2379, "rdzvBackend": "etcd", "rdzvHost": "etcd"}, 23456, id="a server of the owner's"
        ),
    ],
)
def test_the_port_that_the_manifest_fixes(policy, port):
    worker = replica("pytorch", ports=[{"name": "pytorchjob-port", "containerPort": 23456}])
    assert workload(pytorchjob({"Worker": worker}, elasticPolicy=policy)).port == port
