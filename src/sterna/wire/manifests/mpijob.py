"""MPIJob of both versions, and Voda's way of saying in the launcher's environment how elastic it is.

A launcher that asks `discover_hosts.sh` (elastic Horovod) bears workers that come and go. Any other is plain mpirun:
it is given a list of hosts once, so a change starts the job anew.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sterna.model.jobs import Role
from sterna.model.workload import Contract, RestartPolicy, Success, Workload
from sterna.wire.fields import COUNT_MAX, Count
from sterna.wire.manifests.assembling import Own, contract_of, run_policy_of, workload_of
from sterna.wire.manifests.findings import Findings, Path
from sterna.wire.manifests.job_shapes import FlatRunPolicy, JobShape, Replica, RunPolicyBody
from sterna.wire.manifests.pods import Text
from sterna.wire.manifests.roles import Part, part_of, template_of
from sterna.wire.manifests.shapes import Shape
from sterna.wire.manifests.sizes import Said, bounds_of, said

REPLICAS = ("spec", "mpiReplicaSpecs")


class MPIReplicas(Shape):
    any_case = True

    launcher: Replica | None = Field(default=None, alias="Launcher")
    worker: Replica | None = Field(default=None, alias="Worker")


class Implementation(StrEnum):
    OPEN_MPI = "OpenMPI"
    INTEL = "Intel"
    MPICH = "MPICH"


class CreationPolicy(StrEnum):
    AT_STARTUP = "AtStartup"
    WAIT_FOR_WORKERS_READY = "WaitForWorkersReady"


class MPIJobV1Spec(FlatRunPolicy):
    mpi_replica_specs: MPIReplicas = MPIReplicas()
    run_policy: RunPolicyBody = RunPolicyBody()
    slots_per_worker: Count = 1
    main_container: Text = ""


class MPIJobV2Spec(Shape):
    mpi_replica_specs: MPIReplicas = MPIReplicas()
    run_policy: RunPolicyBody = RunPolicyBody()
    slots_per_worker: Count = 1
    run_launcher_as_worker: bool = False
    ssh_auth_mount_path: Text | None = None
    launcher_creation_policy: Annotated[CreationPolicy, Field(strict=False)] = CreationPolicy.AT_STARTUP
    mpi_implementation: Annotated[Implementation, Field(strict=False)] = Implementation.OPEN_MPI


class MPIJobV1(JobShape):
    spec: MPIJobV1Spec = MPIJobV1Spec()


class MPIJobV2(JobShape):
    spec: MPIJobV2Spec = MPIJobV2Spec()


def workload_of_mpijob(job: MPIJobV1 | MPIJobV2, findings: Findings) -> Workload | None:
    spec = job.spec
    parts = _parts(spec.mpi_replica_specs, findings)
    if not parts:
        return None
    main = spec.main_container if isinstance(spec, MPIJobV1Spec) and spec.main_container else None
    roles = [template_of(part, findings, main=main) for part in parts]
    voda = _Voda(parts[0], dict(roles[0].program.env), spec.slots_per_worker, findings)
    workers = spec.mpi_replica_specs.worker
    replicas = said((*REPLICAS, "Worker", "replicas"), workers.replicas) if workers else None
    low, high = voda.workers("MIN_NUM_PROC", "MIN_NP"), voda.workers("MAX_NUM_PROC", "MAX_NP")
    elastic = low is not None or high is not None
    launch = " ".join((*roles[0].program.argv, *(value for _, value in roles[0].program.env)))
    asks = elastic or "discover_hosts" in launch or "host-discovery-script" in launch
    allowed = (Contract.DISCOVERY, Contract.RESTART) if asks else (Contract.RESTART, Contract.DISCOVERY)
    return workload_of(
        job,
        findings,
        roles=roles,
        pods=[part.pod for part in parts],
        contract=contract_of(job.metadata, allowed, findings),
        success=Success.LEADER,
        run_policy=run_policy_of(spec.run_policy, spec if isinstance(spec, MPIJobV1Spec) else None, findings),
        bounds=bounds_of(
            job.metadata,
            findings,
            initial=voda.workers("NUM_PROC", "NP") or (low if elastic else replicas),
            low=low,
            high=high,
        ),
        own=Own(epochs=voda.number("EPOCHS", least=1), priority=voda.priority()),
        policy=spec.run_policy,
        processes_per_worker=spec.slots_per_worker,
        details=_details(spec, voda.found),
    )


def _parts(replicas: MPIReplicas, findings: Findings) -> list[Part]:
    """The launcher first. Without workers it is the worker."""
    if replicas.launcher is None:
        findings.wrong((*REPLICAS, "Launcher"), None, "a launcher")
        return []
    path, alone = (*REPLICAS, "Launcher"), replicas.worker is None
    launcher = part_of(
        replicas.launcher,
        path,
        findings,
        role=Role.WORKER if alone else Role.LAUNCHER,
        policy=RestartPolicy.NEVER,
        called="launcher" if alone else "",
    )
    if launcher.replicas > 1:
        findings.wrong((*path, "replicas"), launcher.replicas, "1: there is one launcher")
    if replicas.worker is None:
        return [launcher]
    path = (*REPLICAS, "Worker")
    return [launcher, part_of(replicas.worker, path, findings, role=Role.WORKER, policy=RestartPolicy.NEVER)]


def _details(spec: MPIJobV1Spec | MPIJobV2Spec, voda: bool) -> tuple[tuple[str, str], ...]:
    details = [("vodaEnvironment", "true")] if voda else []
    if isinstance(spec, MPIJobV2Spec):
        details.append(("mpiImplementation", spec.mpi_implementation.value))
        details.append(("launcherCreationPolicy", spec.launcher_creation_policy.value))
        if spec.run_launcher_as_worker:
            details.append(("runLauncherAsWorker", "true"))
    return tuple(details)


class _Voda:
    """Numbers in the launcher's environment. Each has an older name that is still read."""

    _NAMES = ("NUM_PROC", "NP", "MIN_NUM_PROC", "MIN_NP", "MAX_NUM_PROC", "MAX_NP")
    _WHOLE = re.compile(r"[0-9]{1,9}")

    def __init__(self, launcher: Part, env: Mapping[str, str], slots: int, findings: Findings) -> None:
        self.found = any(name in env for name in self._NAMES)
        self._launcher, self._env, self._slots, self._findings = launcher, env, slots, findings

    def workers(self, *names: str) -> Said | None:
        """Processes are counted there, `slotsPerWorker` to a worker."""
        for name in names:
            number = self.number(name, least=1)
            if number is not None:
                if number % self._slots:
                    expected = f"a multiple of slotsPerWorker ({self._slots})"
                    self._findings.wrong(self._path(name), self._env[name], expected)
                return Said(self._path(name), max(1, number // self._slots))
        return None

    def priority(self) -> int | None:
        """0 is the highest there, and the larger goes first here."""
        number = self.number("JOB_PRIORITY", least=0) if self.found else None
        return None if number is None else -number

    def number(self, name: str, *, least: int) -> int | None:
        text = self._env.get(name)
        if text is None or not self.found:
            return None
        if not self._WHOLE.fullmatch(text) or not least <= int(text) <= COUNT_MAX:
            self._findings.unread(self._path(name), text, f"a whole number from {least} to {COUNT_MAX}, in quotes")
            return None
        return int(text)

    def _path(self, name: str) -> Path:
        for number, container in enumerate(self._launcher.pod.template.spec.containers):
            for index, variable in enumerate(container.env):
                if variable.name == name:
                    return (*self._launcher.pod.container_path(number), "env", index, "value")
        return self._launcher.path
