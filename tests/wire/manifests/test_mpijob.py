"""MPIJob of both versions, and Voda's environment of its launcher."""

import pytest

from sterna.model.jobs import Role
from sterna.model.workload import Contract, RestartPolicy, Success
from tests.wire.manifests.builders import Manifest, annotated, mpijob, problems, workload

LAUNCHER = "spec.mpiReplicaSpecs.Launcher"
ENV = f"{LAUNCHER}.template.spec.containers[0].env[0].value"


@pytest.mark.parametrize(
    ("env", "sizes"),
    [
        pytest.param({"NUM_PROC": "2", "MIN_NUM_PROC": "1", "MAX_NUM_PROC": "4"}, (1, 2, 4), id="all three"),
        pytest.param({"NP": "2", "MIN_NP": "1", "MAX_NP": "4"}, (1, 2, 4), id="by their older names"),
        pytest.param({"NUM_PROC": "3", "NP": "2", "MAX_NP": "4"}, (3, 3, 4), id="the newer name goes first"),
        pytest.param({"MIN_NUM_PROC": "2", "MAX_NUM_PROC": "4"}, (2, 2, 4), id="NUM_PROC left out is the minimum"),
        pytest.param({"NUM_PROC": "3"}, (3, 3, 3), id="not elastic, but not the replicas either"),
        pytest.param({"MAX_NUM_PROC": "4"}, (1, 1, 4), id="only a maximum"),
    ],
)
def test_voda_2_numbers_in_the_launchers_environment(env, sizes):
    job = workload(mpijob(env, workers=1))
    assert (job.workers_min, job.workers_initial, job.workers_max) == sizes


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param({"NUM_PROC": "two"}, "a whole number", id="a word"),
        pytest.param({"MIN_NUM_PROC": "-1"}, "a whole number", id="a negative number"),
        pytest.param({"MAX_NUM_PROC": "0"}, "from 1", id="nothing"),
        pytest.param({"NP": "1.5"}, "a whole number", id="a half"),
        pytest.param({"MIN_NUM_PROC": "4", "MAX_NUM_PROC": "2"}, "at most 2", id="a minimum above the maximum"),
        pytest.param(
            {"NUM_PROC": "5", "MAX_NUM_PROC": "4", "MIN_NUM_PROC": "1"}, "from 1 to 4", id="above the maximum"
        ),
        pytest.param({"EPOCHS": "many", "NP": "1"}, "a whole number", id="epochs that are no number"),
        pytest.param({"JOB_PRIORITY": "high", "NP": "1"}, "a whole number", id="a priority that is no number"),
    ],
)
def test_voda_2_what_is_no_number_or_impossible_is_refused(env, expected):
    found = problems(mpijob(env))
    assert list(found) == [ENV]
    assert expected in found[ENV][1]


def test_voda_2_epochs_and_priority():
    job = workload(mpijob({"NUM_PROC": "1", "EPOCHS": "30", "JOB_PRIORITY": "2"}))
    assert (job.units_total, job.priority) == (30, -2)  # 0 is the highest there, the larger goes first here


def test_other_jobs_may_use_the_names_for_themselves():
    job = workload(mpijob({"EPOCHS": "all of them", "JOB_PRIORITY": "whatever"}))
    assert (job.units_total, job.priority) == (None, 0)


def test_processes_are_counted_by_slots():
    job = workload(mpijob({"NUM_PROC": "4", "MAX_NUM_PROC": "8"}, slotsPerWorker=2))
    assert (job.workers_initial, job.workers_max, job.processes_per_worker) == (2, 4, 2)
    assert "slotsPerWorker (2)" in str(problems(mpijob({"NUM_PROC": "3"}, slotsPerWorker=2)))


def test_the_category_is_the_name_without_its_timestamp_and_the_pool_is_by_label():
    job = mpijob({"NUM_PROC": "1"})
    job["metadata"]["name"] = "resnet-20211015-035048"
    job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["nodeSelector"] = {
        "vodascheduler/accelerator": "nvidia-1080ti",
        "disk": "ssd",
    }
    read = workload(job)
    assert read.category == "resnet"
    assert (read.accelerator, read.selector) == ("nvidia-1080ti", (("disk", "ssd"),))


def asking(command: list[str]) -> Manifest:
    job = mpijob()
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"] = command
    return job


@pytest.mark.parametrize(
    ("job", "contract"),
    [
        pytest.param(mpijob({"MIN_NUM_PROC": "1"}), Contract.DISCOVERY, id="Voda's elastic jobs ask for hosts"),
        pytest.param(
            asking(["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh"]),
            Contract.DISCOVERY,
            id="so does whoever names the script",
        ),
        pytest.param(asking(["mpirun", "-n", "2", "pi"]), Contract.RESTART, id="plain mpirun is given them once"),
        pytest.param(annotated(mpijob(), max_workers=4), Contract.RESTART, id="elastic by annotation: all anew"),
        pytest.param(annotated(mpijob(), contract="discovery"), Contract.DISCOVERY, id="the owner knows better"),
    ],
)
def test_what_happens_to_those_that_stay(job, contract):
    assert workload(job).contract is contract


def test_a_launcher_without_workers_is_the_worker():
    job = workload(mpijob(version="v2beta1", workers=None))
    assert [(role.role, role.word) for role in job.roles] == [(Role.WORKER, "launcher")]


@pytest.mark.parametrize(
    ("job", "path"),
    [
        pytest.param(mpijob(mpiImplementation="Intel"), "spec.mpiImplementation", id="v1 has no implementations"),
        pytest.param(mpijob(version="v2beta1", mainContainer="x"), "spec.mainContainer", id="v2 has no main container"),
        pytest.param(mpijob(version="v2beta1", cleanPodPolicy="All"), "spec.cleanPodPolicy", id="v2 has it nested"),
        pytest.param(mpijob(slotsPerWorker=0), "spec.slotsPerWorker", id="no slots"),
    ],
)
def test_each_version_has_fields_of_its_own(job, path):
    assert list(problems(job)) == [path]


def test_no_launcher_and_two_of_them():
    job = mpijob()
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["replicas"] = 2
    assert list(problems(job)) == [f"{LAUNCHER}.replicas"]
    del job["spec"]["mpiReplicaSpecs"]["Launcher"]
    assert list(problems(job)) == [LAUNCHER]


def test_defaults():
    job = workload(mpijob(version="v2beta1"))
    assert (job.success, job.workers_min, job.workers_max) == (Success.LEADER, 2, 2)
    assert {role.restart_policy for role in job.roles} == {RestartPolicy.NEVER}
    assert dict(job.details)["mpiImplementation"] == "OpenMPI"
