"""Hosts for MPI and Horovod. The script is run, because that is what Horovod does with it."""

import subprocess
from typing import Any

import pytest

from sterna.engines.contracts import environment_of
from sterna.model.jobs import Role
from sterna.model.workload import Contract, Workload
from tests.engines.contracts.jobs import in_cluster, job, on_one_machine, worker

LAUNCHER = worker(0, Role.LAUNCHER)


def mpi(contract: Contract = Contract.DISCOVERY, **fields: Any) -> Workload:
    return job("MPIJob", contract, (Role.LAUNCHER, 1), **{"workers_max": 3, **fields})


def printed(script: str) -> list[str]:
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=30).stdout.split()


def test_the_script_lists_ready_workers_and_no_others():
    workload = mpi(processes_per_worker=2)
    members = in_cluster(workload, [0, 1, 2])
    ready = {(Role.LAUNCHER, 0), (Role.WORKER, 0), (Role.WORKER, 2)}
    files = environment_of(workload, LAUNCHER, members, ready=ready).files
    assert files["discover_hosts.sh"].startswith("#!/bin/sh\n")
    assert printed(files["discover_hosts.sh"]) == ["job1-worker-0.default.svc:2", "job1-worker-2.default.svc:2"]
    assert files["hostfile"] == "job1-worker-0.default.svc slots=2\njob1-worker-2.default.svc slots=2\n"


def test_nobody_is_ready_yet():
    workload = mpi()
    files = environment_of(workload, LAUNCHER, in_cluster(workload), ready=set()).files
    assert (printed(files["discover_hosts.sh"]), files["hostfile"]) == ([], "")


def test_on_one_machine_the_host_stands_there_once_with_all_its_slots():
    workload = mpi()
    files = environment_of(workload, LAUNCHER, on_one_machine(workload, [0, 1, 2])).files
    assert printed(files["discover_hosts.sh"]) == ["127.0.0.1:3"]


@pytest.mark.parametrize(
    ("implementation", "line", "variable"),
    [
        pytest.param("OpenMPI", "job1-worker-0.default.svc slots=2", "OMPI_MCA_orte_default_hostfile", id="Open MPI"),
        pytest.param("Intel", "job1-worker-0.default.svc:2", "I_MPI_HYDRA_HOST_FILE", id="Intel MPI"),
        pytest.param("MPICH", "job1-worker-0.default.svc:2", "HYDRA_HOST_FILE", id="MPICH"),
    ],
)
def test_each_implementation_has_its_notation(implementation, line, variable):
    workload = mpi(Contract.RESTART, processes_per_worker=2, details=(("mpiImplementation", implementation),))
    made = environment_of(workload, LAUNCHER, in_cluster(workload), files_dir="/run/job")
    assert made.files["hostfile"] == f"{line}\n"
    assert made.env[variable] == "/run/job/hostfile"


def test_the_launcher_may_work_too():
    workload = mpi(details=(("runLauncherAsWorker", "true"),))
    made = environment_of(workload, LAUNCHER, in_cluster(workload, [0]))
    assert made.files["hostfile"].split()[::2] == ["job1-launcher-0.default.svc", "job1-worker-0.default.svc"]


def test_workers_are_told_no_more_than_their_role():
    workload = mpi()
    assert environment_of(workload, worker(0), in_cluster(workload)).env == {"K_MPI_JOB_ROLE": "worker"}


def test_vodas_programs_find_the_jobs_name():
    workload = mpi(name="resnet-20211015-035048", details=(("vodaEnvironment", "true"),))
    assert environment_of(workload, LAUNCHER, in_cluster(workload)).env["JOB_NAME"] == "resnet-20211015-035048"
    assert "JOB_NAME" not in environment_of(mpi(), LAUNCHER, in_cluster(mpi())).env


def test_the_environment_does_not_depend_on_who_is_ready():
    workload = mpi()
    members = in_cluster(workload, [0, 1])
    envs = [environment_of(workload, LAUNCHER, members, ready=ready).env for ready in (None, set(), {(Role.WORKER, 1)})]
    assert envs[0] == envs[1] == envs[2]


def test_our_own_kind_may_discover_as_well():
    workload = job("ElasticJob", Contract.DISCOVERY, (Role.LAUNCHER, 1), workers_max=2)
    made = environment_of(workload, LAUNCHER, in_cluster(workload, [0, 1]))
    assert printed(made.files["discover_hosts.sh"]) == [f"job1-worker-{n}.default.svc:1" for n in (0, 1)]


def test_a_launcher_that_is_the_worker_finds_itself_in_the_hostfile():
    workload = job("MPIJob", Contract.RESTART)
    made = environment_of(workload, worker(0), in_cluster(workload))
    assert made.env["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert made.files["hostfile"] == "job1-worker-0.default.svc slots=1\n"
