"""The pod of one seat: the job's own template, whole, with what makes it a member of its job put into it. Pure.

Everything in the template stays. Over it go the name, labels, owner, node and restart policy; into it go the contract's
environment (in every container, before the template's own variables so that those may refer to it), the SDK's
variables and volume (in the container that decides), and the port that the others expect.
"""

import copy
from collections.abc import Collection, Mapping
from typing import Any

from sterna.engines.contracts import Member, addresses_of, environment_of, place_in_world
from sterna.engines.contracts.naming import labels_of, port_name, port_of
from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.bodies.mpi_hosts import NUDGE, config_mount, config_volume, digest_of, has_config
from sterna.engines.kubernetes.bodies.own_names import service_names
from sterna.engines.kubernetes.bodies.service_body import host_of, owner_reference
from sterna.engines.kubernetes.process.settings import Binding
from sterna.engines.kubernetes.reconcile.job_view import JobView, MonitorAt, Options
from sterna.engines.kubernetes.reconcile.observed_pods import DEVICES, INCARNATION, MAIN_CONTAINERS
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.lifecycle.gang_roles import TAKES_PART, Place, size_of
from sterna.model.jobs import Role
from sterna.model.workload import Contract, RestartPolicy, Workload
from sterna.protocol import environment as names
from sterna.protocol.tokens import job_token

SCHEDULER = "sterna"  # in pods that are bound after they were created
CHECKPOINT_DIR = "sterna.dev/checkpoint-dir"  # annotation of a job: a directory inside a volume of its template
MAILBOX_DIR = "/var/run/sterna/mailbox"
MAILBOX_VOLUME = "sterna-mailbox"
TERMINATION_LOG = "/dev/termination-log"  # where the kubelet looks, unless the container says otherwise
METRIC = "sterna.dev/metric"  # annotation of a job: which of its metrics is judged
NODE_ADDRESS = "STERNA_NODE_IP"
_OLD_NAMES = {"NODE_IP": "status.hostIP", "POD_NAME": "metadata.name"}  # what container-migration's programs read
_CHECKPOINT_MOUNTS = ("checkpoint", "checkpoints")


def members_of(view: JobView, workload: Workload, standing: Standing, options: Options) -> tuple[Member, ...]:
    """All members whose address a pod of this job may have to know: the same for all of its pods."""
    ordinals = [held.worker.ordinal for held in standing.seats if held.worker.role is Role.WORKER]
    port, name_of, domain = port_of(workload), service_names(view, workload), options.cluster_domain
    return tuple(
        Member(*place, host_of(name_of(place), workload.namespace, cluster_domain=domain), port)
        for place in addresses_of(workload, ordinals)
    )


def pod_body(
    view: JobView,
    workload: Workload,
    standing: Standing,
    seat: Seat,
    options: Options,
    *,
    hosts: dict[str, str],
    members: tuple[Member, ...],
    name: str,
) -> Body:
    """`hosts` are the files of an MPIJob as they are now; `members` as `members_of` tells."""
    place = seat.worker[:2]
    template = copy.deepcopy(dict(view.templates.get(place[0], {})))
    metadata, spec = _part(template, "metadata"), _part(template, "spec")
    containers = [container for container in spec.get("containers") or [] if isinstance(container, dict)]
    main = main_container(view, containers)
    contract = _contract_environment(workload, standing, seat, options, members)
    for container in containers:
        _give(container, contract)
    if main is not None:
        _give(main, sdk_environment(view, workload, standing, seat, main, members))
        if options.monitor is not None:
            _tell_of_monitor(main, view, options.monitor)
        _mount(spec, main, {"name": MAILBOX_VOLUME, "emptyDir": {}}, MAILBOX_DIR)
        _open_port(main, workload)
    if has_config(workload):
        for container in containers:
            _mount(spec, container, config_volume(view), config_mount()["mountPath"])
    spec["restartPolicy"] = _restart_policy(workload, place[0])
    _put(spec, seat, options)
    if options.binding is not Binding.NONE:
        _tolerate(spec, view)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{key: metadata[key] for key in ("annotations", "labels", "finalizers") if key in metadata},
            "name": name,
            "namespace": view.namespace,
            "labels": {**_texts(metadata.get("labels")), **labels_of(workload, *place, slot=seat.slot)},
            "annotations": {
                **_texts(metadata.get("annotations")),
                INCARNATION: str(standing.incarnation),
                **({DEVICES: ",".join(seat.worker.devices)} if seat.worker.devices else {}),
                **({NUDGE: digest_of(hosts)} if has_config(workload) and place[0] is Role.LAUNCHER else {}),
            },
            "ownerReferences": [owner_reference(view)],
        },
        "spec": spec,
    }


def main_container(view: JobView, containers: list[Body]) -> Body | None:
    """The one that decides. None: the template has none at all."""
    wanted = view.main_container or MAIN_CONTAINERS.get(view.kind, "")
    by_name = next((container for container in containers if container.get("name") == wanted), None)
    return by_name or next(iter(containers), None)


def checkpoint_dir(view: JobView, container: Body) -> str | None:
    """Where this job's checkpoints are, inside the container. None: there is nowhere to keep any."""
    annotations = dict(view.workload.annotations) if view.workload is not None else {}
    mount = annotations.get(CHECKPOINT_DIR)
    if not mount:
        mounts = [found for found in container.get("volumeMounts") or [] if isinstance(found, dict)]
        mount = next((m.get("mountPath") for name in _CHECKPOINT_MOUNTS for m in mounts if m.get("name") == name), None)
    if not isinstance(mount, str) or not mount.startswith("/"):
        return None
    return f"{mount.rstrip('/')}/{view.namespace}/{view.name}/{view.uid}"


def keeps_checkpoints(view: JobView) -> bool:
    """Can the workers of this job resume from what they saved?"""
    spec = view.templates.get(Role.WORKER, {}).get("spec") or {}
    containers = [found for found in spec.get("containers") or [] if isinstance(found, dict)]
    main = main_container(view, containers)
    return main is not None and checkpoint_dir(view, main) is not None


def sdk_environment(
    view: JobView, workload: Workload, standing: Standing, seat: Seat, container: Body, members: tuple[Member, ...]
) -> list[Body]:
    rank, world_size = _rank(workload, standing, seat.worker[:2], members)
    given = {
        names.JOB: str(view.id),
        names.RANK: str(rank),
        names.WORLD_SIZE: str(world_size),
        names.INCARNATION: str(standing.incarnation),
        names.MAILBOX: MAILBOX_DIR,
        names.SIGNALS: "1",  # nothing on the node could tell it otherwise: a stop is a SIGTERM
        names.TERMINATION_LOG: container.get("terminationMessagePath") or TERMINATION_LOG,
        names.GRACE_S: f"{workload.template(seat.worker.role).program.grace_s:g}",
    }
    if (directory := checkpoint_dir(view, container)) is not None:
        given[names.CHECKPOINT_DIR] = directory
    if workload.contract in (Contract.PARAMETER_SERVER, Contract.DISCOVERY):
        given[names.GANG] = "0"
    identity = _from_field(names.WORKER, "metadata.uid")
    return [*({"name": name, "value": value} for name, value in given.items()), identity]


def _tell_of_monitor(container: Body, view: JobView, monitor: MonitorAt) -> None:
    """Where to report, and with which token. It is this job's own and good for no other job, so that it may stand in
    the pod's environment, where every user who may read the pod reads it (docs/decisions/0016).
    """
    metric = dict(view.workload.annotations).get(METRIC) if view.workload is not None else None
    token = job_token(monitor.secret, namespace=view.namespace, job=view.name, uid=view.uid)
    _give(
        container,
        [
            _from_field(NODE_ADDRESS, "status.hostIP"),
            {"name": names.MONITOR_URL, "value": f"http://$({NODE_ADDRESS}):{monitor.port}"},
            {"name": names.MONITOR_TOKEN, "value": token},
            _from_field(names.POD, "metadata.name"),
            *([{"name": names.METRIC, "value": metric}] if metric else []),
        ],
    )
    written = {found.get("name") for found in container["env"] if isinstance(found, dict)}
    container["env"] += [_from_field(*pair) for pair in _OLD_NAMES.items() if pair[0] not in written]


def _from_field(name: str, path: str) -> Body:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _contract_environment(
    workload: Workload, standing: Standing, seat: Seat, options: Options, members: tuple[Member, ...]
) -> list[Body]:
    env = dict(environment_of(workload, seat.worker, members, incarnation=standing.incarnation).env)
    own_host = next((member.host for member in members if member[:2] == seat.worker[:2]), "")
    env |= _meeting(env, own_host, {member.host for member in members})
    return [{"name": name, "value": value} for name, value in env.items()]


def _meeting(env: Mapping[str, str], own_host: str, hosts: Collection[str]) -> dict[str, str]:
    """Where torchrun's agents meet at one of themselves: what they would otherwise find out too late, or wrongly."""
    endpoint = env.get("PET_RDZV_ENDPOINT", "").rpartition(":")[0]
    if endpoint not in hosts:
        return {}  # no agents, or a server of the owner's
    settings = {
        # An agent that asks DNS whether it is the host asks before its service has an address.
        "is_host": "true" if endpoint == own_host else "false",
        "keep_alive_interval": "2",  # those that leave are noticed soon: torchrun's own 15 s would be added to a shrink
        "keep_alive_max_attempt": "3",
    }
    written = env.get("PET_RDZV_CONF", "")
    added = [f"{key}={value}" for key, value in settings.items() if f"{key}=" not in written]
    # Agents that share their store tell its address in the first round only: one that joins later would wait in vain.
    return {"PET_RDZV_CONF": ",".join(filter(None, [written, *added])), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def _rank(workload: Workload, standing: Standing, place: Place, members: tuple[Member, ...]) -> tuple[int, int]:
    """Rank and size of the world. A gang that starts as a whole is numbered without gaps; a worker that
    comes and goes by itself has its ordinal's number, however often it is replaced.
    """
    if place[0] not in TAKES_PART:
        return 0, 1
    if workload.contract is Contract.RESTART:
        return place_in_world(*place, members) or (0, 1)
    leaders = sum(seat.worker.role in (Role.CHIEF, Role.MASTER) for seat in standing.seats)
    shift = leaders if place[0] is Role.WORKER else 0
    held = leaders + size_of(seat.worker for seat in standing.seats)
    return place[1] + shift, max(held, workload.workers_max + leaders, place[1] + shift + 1)


def _put(spec: Body, seat: Seat, options: Options) -> None:
    spec.pop("nodeName", None)
    if options.binding is not Binding.NONE:
        spec.pop("schedulingGates", None)  # a job is placed once it has none, and what is placed has none
    match options.binding:
        case Binding.NODE_NAME:
            spec["nodeName"] = seat.worker.node
        case Binding.BINDING:
            spec["schedulerName"] = SCHEDULER
        case Binding.NONE:
            pass  # the template names a scheduler, or the cluster's own one does it


def _tolerate(spec: Body, view: JobView) -> None:
    """A job is placed as a whole: what one of its roles tolerates, all must, or the others would be put out again."""
    tolerated = [found for found in spec.get("tolerations") or [] if isinstance(found, dict)]
    for template in view.templates.values():
        others = _part(dict(template), "spec").get("tolerations") or []
        tolerated += [found for found in others if isinstance(found, dict) and found not in tolerated]
    if tolerated:
        spec["tolerations"] = copy.deepcopy(tolerated)


def _restart_policy(workload: Workload, role: Role) -> str:
    policy = workload.template(role).restart_policy
    return (RestartPolicy.NEVER if policy is RestartPolicy.EXIT_CODE else policy).value


def _give(container: Body, variables: list[Body]) -> None:
    """Ours go before the template's, and over those of the same name."""
    ours = {variable["name"] for variable in variables}
    theirs = [
        found for found in container.get("env") or [] if not (isinstance(found, dict) and found.get("name") in ours)
    ]
    container["env"] = [*variables, *theirs]


def _mount(spec: Body, container: Body, volume: Body, path: str) -> None:
    """A template that has something of its own at this path keeps it."""
    mounts = list(container.get("volumeMounts") or [])
    if any(isinstance(found, dict) and found.get("mountPath") == path for found in mounts):
        return
    volumes = list(spec.get("volumes") or [])
    if not any(isinstance(found, dict) and found.get("name") == volume["name"] for found in volumes):
        spec["volumes"] = [*volumes, volume]
    container["volumeMounts"] = [*mounts, {"name": volume["name"], "mountPath": path}]


def _open_port(container: Body, workload: Workload) -> None:
    ports = list(container.get("ports") or [])
    if not any(isinstance(found, dict) and found.get("name") == port_name(workload) for found in ports):
        container["ports"] = [*ports, {"name": port_name(workload), "containerPort": port_of(workload)}]


def _part(template: Body, key: str) -> Body:
    found = template.get(key)
    return found if isinstance(found, dict) else {}


def _texts(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
