"""What an owner wants to have run, as every engine needs it: programs, rules for ends and restarts, elastic contract.

Values only. Reading manifests is `wire/manifests/`; what a worker finds in its environment is `engines/contracts/`. The
scheduling core sees no more of it than the `JobSpec` that `Workload.job_spec` gives.
"""

from dataclasses import dataclass
from enum import StrEnum

from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import FixedRole, JobSpec, Role
from sterna.model.neighbours import NO_TRAITS, HostPort, PodTraits
from sterna.model.node_affinity import NodeTerm, NodeWish
from sterna.model.nodes import Toleration
from sterna.model.pod_labels import role_labels, usual_port
from sterna.model.resources import NOTHING, Resources


class Contract(StrEnum):
    """What happens to the workers that stay when others come or go."""

    PARAMETER_SERVER = "parameter-server"  # nothing: constant TF_CONFIG, state lives on the parameter servers
    TORCHRUN = "torchrun"  # the agents stay and meet again (c10d); their processes resume from the checkpoint
    DISCOVERY = "discovery"  # Horovod: the launcher asks discover_hosts.sh which hosts are there
    RESTART = "restart"  # no worker stays: all stop at one committed step and start again at the new size


class RestartPolicy(StrEnum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"  # tried again after one of RETRIED_CODES, final after any other


RETRIED_CODES = frozenset({130, 137, 138, 143})  # INT, KILL, USR1 (by which a program asks for it) and TERM


class CleanUp(StrEnum):
    """What is taken away once a job has ended."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class Success(StrEnum):
    """Whose success is the job's."""

    LEADER = "leader"  # chief, master or launcher; worker 0 where there is none of them
    ALL_WORKERS = "all-workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One container, as far as a process can stand for it."""

    argv: tuple[str, ...]  # command and args. Empty: the image's own entry point, which no process can stand for
    env: tuple[tuple[str, str], ...] = ()  # in the manifest's order, later ones may use earlier ones: $(NAME)
    env_fields: tuple[tuple[str, str], ...] = ()  # those that tell where the worker is: (NAME, "spec.nodeName")
    env_absent: tuple[tuple[str, str], ...] = ()  # those that only a cluster can tell: (NAME, "secret tokens")
    cwd: str | None = None  # None: where the manifest was submitted from
    image: str | None = None  # told to the owner; processes do not use it
    post_start: tuple[str, ...] = ()  # run beside the program once it has started; empty: none
    pre_stop: tuple[str, ...] = ()  # run before the program is told to stop, within the grace period; empty: none
    grace_s: float = 30.0  # from the beginning of a stop to the kill


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTemplate:
    role: Role
    replicas: int  # of fixed roles; what workers begin with is `Workload.workers_initial`
    program: Program
    request: Resources = NOTHING  # of one replica: what is counted
    limit: Resources = NOTHING  # of the program alone: what is enforced; 0: no limit
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    pod: PodTraits = NO_TRAITS  # what its pods are to others, as the template has it; `Workload.job_spec` completes it
    on_host_network: bool = False  # then its ports are ports of the node
    called: str = ""  # in names, where it is not the role's own word: a lone master is the worker
    claims: tuple[str, ...] = ()  # persistent volume claims that its pods mount, in a cluster

    @property
    def word(self) -> str:
        """`worker`, `ps`, ...: what the role is called in names."""
        return self.called or self.role.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPolicy:
    backoff_limit: int | None = None  # restarts after failures before the job fails. None: without limit
    active_deadline_s: float | None = None  # from the first start. None: none
    ttl_after_finished_s: float | None = None  # None: kept until it is deleted
    clean_up: CleanUp = CleanUp.RUNNING
    suspend: bool = False
    managed_by: str | None = None  # another controller's name: the job is left alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A job as its manifest says it, whatever kind it is of."""

    namespace: str = "default"
    name: str
    api_version: str
    kind: str  # TFJob, PyTorchJob, MPIJob, ElasticJob
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    roles: tuple[RoleTemplate, ...]  # fixed roles first, the elastic workers last
    contract: Contract
    success: Success = Success.LEADER
    run_policy: RunPolicy = RunPolicy()
    workers_min: int = 1
    workers_max: int = 1
    workers_initial: int = 1
    workers_step: int = 1
    processes_per_worker: int = 1  # torchrun's nproc-per-node, MPI's slots
    port: int | None = None  # the first role's named port, where the manifest fixes one. None: the engine finds one
    units_total: float | None = None  # epochs or steps, where the manifest says how many. None: the program tells
    accelerator: str | None = None
    moves_between_pools: bool = False
    category: str = ""
    priority: int = 0
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    node_terms: tuple[NodeTerm, ...] = ()
    node_wishes: tuple[NodeWish, ...] = ()
    node_preference: NodeId | None = None
    gates: tuple[str, ...] = ()  # of its pod templates: while there are any, nothing of it may be started
    rendezvous: tuple[tuple[str, str], ...] = ()  # torchrun: backend, id, conf, maxRestarts as the manifest has them
    details: tuple[tuple[str, str], ...] = ()  # what else the environment depends on: mpiImplementation, chiefInPs, ...

    @property
    def id(self) -> JobId:
        return JobId(f"{self.namespace}/{self.name}")

    def template(self, role: Role) -> RoleTemplate:
        return next(template for template in self.roles if template.role is role)

    @property
    def claims(self) -> tuple[str, ...]:
        """Those of all roles."""
        return tuple(sorted({claim for template in self.roles for claim in template.claims}))

    def job_spec(self, *, submitted_s: float) -> JobSpec:
        """What the scheduling core is told."""
        fixed = tuple(
            FixedRole(template.role, template.replicas, template.request, template.limit)
            for template in self.roles
            if template.role is not Role.WORKER
        )
        return JobSpec(
            id=self.id,
            submitted_s=submitted_s,
            request=self.template(Role.WORKER).request,
            workers_min=self.workers_min,
            workers_max=self.workers_max,
            workers_initial=self.workers_initial,
            workers_step=self.workers_step,
            fixed=fixed,
            accelerator=self.accelerator,
            moves_between_pools=self.moves_between_pools,
            category=self.category,
            kind=self.kind,
            priority=self.priority,
            selector=self.selector,
            tolerations=self.tolerations,
            node_terms=self.node_terms,
            node_wishes=self.node_wishes,
            node_preference=self.node_preference,
            restarts_on_resize=self.contract is Contract.RESTART,
            limit=self.template(Role.WORKER).limit,
            pods=tuple((template.role, self._traits(template)) for template in self.roles),
        )

    def _traits(self, template: RoleTemplate) -> PodTraits:
        """What pods of this role are to others once they are made: with the job's own labels and its port."""
        labels = {**dict(template.pod.labels), **role_labels(self.kind, self.name, template.word)}
        traits = template.pod.of_pod(self.namespace, labels)
        if not template.on_host_network:
            return traits
        port = usual_port(self.kind)[1] if self.port is None else self.port
        return traits._replace(ports=tuple(sorted({*traits.ports, HostPort(port)})))
