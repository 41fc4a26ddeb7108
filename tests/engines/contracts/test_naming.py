"""Names and labels that programs and people rely on."""

from dataclasses import replace

import pytest

from sterna.engines.contracts.members import addresses_of
from sterna.engines.contracts.naming import labels_of, leads, port_name, port_of, worker_name
from sterna.model.jobs import Role
from sterna.model.workload import Contract
from tests.engines.contracts.jobs import job

SERVED = job("TFJob", Contract.PARAMETER_SERVER, (Role.PS, 1), workers_max=4)


def test_dragon_4_names_of_a_job_with_one_server_and_four_workers():
    assert [worker_name(SERVED, *place) for place in addresses_of(SERVED, [0])] == [
        "job1-ps-0",
        "job1-worker-0",
        "job1-worker-1",
        "job1-worker-2",
        "job1-worker-3",
    ]


@pytest.mark.parametrize(
    ("role", "ordinal", "leading"),
    [
        pytest.param(Role.PS, 0, {}, id="a server leads nobody"),
        pytest.param(Role.WORKER, 0, {"tf-job-role": "master"}, id="worker 0 leads where there is no chief"),
        pytest.param(Role.WORKER, 3, {}, id="the others do not"),
    ],
)
def test_dragon_4_labels_of_a_pod_and_of_its_service(role, ordinal, leading):
    service = {
        "group-name": "kubeflow.org",
        "tf-job-name": "job1",
        "tf-replica-type": role.value,
        "tf-replica-index": str(ordinal),
    }
    assert labels_of(SERVED, role, ordinal) == service
    assert labels_of(SERVED, role, ordinal, slot="abcde") == {**service, "tf-job-workerid": "abcde", **leading}


@pytest.mark.parametrize("role", [Role.CHIEF, Role.MASTER, Role.LAUNCHER])
def test_a_leader_leads_and_worker_0_does_not(role):
    workload = job("TFJob", Contract.RESTART, (role, 1))
    assert leads(workload, role, 0)
    assert not leads(workload, Role.WORKER, 0)


@pytest.mark.parametrize(
    ("kind", "name", "port"),
    [
        pytest.param("TFJob", "tfjob-port", 2222, id="TensorFlow"),
        pytest.param("PyTorchJob", "pytorchjob-port", 23456, id="PyTorch"),
        pytest.param("MPIJob", "mpijob-port", 9999, id="MPI"),
        pytest.param("ElasticJob", "elasticjob-port", 29500, id="our own"),
    ],
)
def test_dragon_2_a_port_that_the_manifest_leaves_open(kind, name, port):
    workload = job(kind, Contract.RESTART)
    assert (port_name(workload), port_of(workload)) == (name, port)
    assert port_of(replace(workload, port=5555)) == 5555


@pytest.mark.parametrize(
    ("kind", "domain"),
    [("PyTorchJob", "training.kubeflow.org"), ("MPIJob", "training.kubeflow.org"), ("ElasticJob", "sterna.dev")],
)
def test_labels_of_the_other_kinds(kind, domain):
    assert labels_of(job(kind, Contract.RESTART), Role.WORKER, 0, slot="s") == {
        f"{domain}/job-name": "job1",
        f"{domain}/replica-type": "worker",
        f"{domain}/replica-index": "0",
        "sterna.dev/slot": "s",
        f"{domain}/job-role": "master",
    }


def test_a_lone_master_keeps_its_name():
    workload = job("PyTorchJob", Contract.RESTART)
    alone = replace(workload, roles=(replace(workload.roles[0], called="master"),))
    assert worker_name(alone, Role.WORKER, 0) == "job1-master-0"
