"""The manifests of the five systems that came before: each is read as what it was, or is plainly none of our kinds."""

import pytest
import yaml

from sterna.model.jobs import Role
from sterna.model.resources import Resources
from sterna.model.workload import CleanUp, Contract, RestartPolicy, Workload
from sterna.wire.manifests import read_manifests, workload_of_object
from sterna.wire.problems import InvalidDocument
from tests.wire.manifests.reference import EXAMPLES, JOBS, Example

SERVER = Resources(4000, 8 << 30)


def read(name: str) -> Workload:
    (example,) = (example for example in EXAMPLES if example.name == name)
    (document,) = read_manifests(example.path.read_bytes())
    return document.workload


@pytest.mark.parametrize("example", JOBS, ids=lambda example: example.name)
def test_a_job_of_theirs_is_read_as_what_it_was(example: Example):
    workload = read(example.name)
    assert workload.kind == example.kind
    assert (workload.workers_min, workload.workers_initial, workload.workers_max) == example.sizes


@pytest.mark.parametrize("example", JOBS, ids=lambda example: example.name)
def test_text_and_stored_object_say_the_same(example: Example):
    assert workload_of_object(yaml.safe_load(example.path.read_bytes())).workload == read(example.name)


@pytest.mark.parametrize("example", [one for one in EXAMPLES if not one.kind], ids=lambda example: example.name)
def test_what_is_kubernetes_own_is_not_taken_for_a_job(example: Example):
    with pytest.raises(InvalidDocument, match=r"expected one of ElasticJob, MPIJob, PyTorchJob, TFJob"):
        read(example.name)


def test_every_file_is_in_the_table_and_every_system_too():
    files = {path.stem for path in EXAMPLES[0].path.parent.glob("*.yaml")}
    assert files == {example.name for example in EXAMPLES}
    assert {example.document for example in EXAMPLES} == {
        *("E-DRAGON", "container-migration", "SpeCon", "Voda", "pytorchjob-migration"),
    }


@pytest.mark.parametrize(
    ("name", "worker"),
    [
        pytest.param("e-dragon-cpu", SERVER, id="limits alone"),
        pytest.param("e-dragon-gpu", SERVER._replace(gpu_milli=1000), id="a whole GPU"),
        pytest.param("e-dragon-kubeshare", SERVER._replace(gpu_milli=500, gpu_bytes=3189243904), id="a half"),
    ],
)
def test_the_three_jobs_of_dragon_differ_in_their_gpus_alone(name, worker):
    job = read(name)
    assert [(role.role, role.replicas) for role in job.roles] == [(Role.PS, 1), (Role.WORKER, 4)]
    assert (job.template(Role.PS).request, job.template(Role.WORKER).request) == (SERVER, worker)
    assert {role.restart_policy for role in job.roles} == {RestartPolicy.ON_FAILURE}
    assert {role.program.grace_s for role in job.roles} == {0.0}
    assert (job.contract, job.run_policy.clean_up, job.port) == (Contract.PARAMETER_SERVER, CleanUp.ALL, 2222)


def test_the_chief_of_container_migration_is_beside_the_server_and_a_node_is_preferred():
    job = read("container-migration-job")
    assert dict(job.details) == {"chiefInPs": "true"}
    assert job.node_preference == "node-1"
    assert job.template(Role.WORKER).request == Resources(500, 1 << 30)


def test_voda_says_it_in_the_launchers_environment():
    job = read("voda-mnist")
    assert (job.contract, job.units_total, job.accelerator) == (Contract.DISCOVERY, 10, "nvidia-gtx-1080ti")
    assert [toleration.key for toleration in job.tolerations] == ["vodascheduler/hostname"]


def test_pytorchjob_migration_keeps_its_hooks_and_its_node():
    job = read("pytorchjob-migration-mnist")
    assert [(role.role, role.replicas) for role in job.roles] == [(Role.MASTER, 1), (Role.WORKER, 3)]
    assert all(role.program.pre_stop and role.program.post_start for role in job.roles)
    assert job.selector == (("kubernetes.io/hostname", "gpu-10-252-192-48"),)
