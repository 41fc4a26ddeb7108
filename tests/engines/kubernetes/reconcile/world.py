"""A cluster in a few lines, for one job: objects as the API server keeps them, kubelets that do as they are told.

`World.turn` is what the operator does with one look: the status first, then the effects, everything through JSON as on
the wire. Kubelets act only when asked (`kubelets`), so that a test stops the world wherever it likes.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, Pod, ServiceObject
from sterna.engines.kubernetes.apiserver.timestamps import second_text
from sterna.engines.kubernetes.reconcile.effects import (
    BindPod,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePod,
    DeleteService,
    Effect,
    NudgePod,
    WriteConfigMap,
)
from sterna.engines.kubernetes.reconcile.intentions import explained, given_up, grown, shrunk
from sterna.engines.kubernetes.reconcile.job_view import JobView, NodeFacts, Options
from sterna.engines.kubernetes.reconcile.reconcile import Reconciled, reconcile
from sterna.engines.kubernetes.status.job_events import REASONS, JobEvent
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.status.status_reading import status_read
from sterna.engines.kubernetes.world.job_value import value_of
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from sterna.model.plan import Grow, Shrink
from sterna.model.resources import Resources
from sterna.model.why import Because, Why
from sterna.model.workload import Contract, Program, RestartPolicy, RoleTemplate, RunPolicy, Success, Workload

CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch"}
BECAUSE = Because(Why.NEXT_IN_ORDER)
GRACE_S = 30


def workload(
    contract: Contract = Contract.PARAMETER_SERVER,
    *fixed: tuple[Role, int],
    kind: str = "TFJob",
    restarts: RestartPolicy = RestartPolicy.NEVER,
    workers: tuple[int, int] = (1, 4),
    **more: Any,
) -> Workload:
    """`workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4))`."""
    roles = [*fixed, (Role.WORKER, workers[1])]
    more.setdefault("run_policy", RunPolicy())
    return Workload(
        name=more.pop("name", "job1"),
        api_version="sterna.dev/v1alpha1" if kind == "ElasticJob" else "kubeflow.org/v1",
        kind=kind,
        roles=tuple(
            RoleTemplate(
                role=role,
                replicas=count,
                program=Program(argv=("train",)),
                request=Resources(cpu_milli=1000, gpu_milli=1000 if role is Role.WORKER else 0),
                restart_policy=restarts,
            )
            for role, count in roles
        ),
        contract=contract,
        success=more.pop("success", Success.LEADER),
        workers_min=workers[0],
        workers_max=workers[1],
        workers_initial=workers[0],
        **more,
    )


def template(kind: str = "TFJob", **spec: Any) -> dict[str, Any]:
    container = {"name": CONTAINERS.get(kind, "main"), "image": "train:1", "command": ["train"]}
    return {"spec": {"containers": [container], **spec}}


def at(ordinal: int, node: str = "n1", role: Role = Role.WORKER) -> Worker:
    return Worker(role, ordinal, NodeId(node))


PS = at(0, "n1", Role.PS)


def workers(count: int, node: str = "n1") -> tuple[Worker, ...]:
    return tuple(at(ordinal, node) for ordinal in range(count))


class World:
    def __init__(
        self,
        of: Workload | None = None,
        *,
        templates: Mapping[Role, dict[str, Any]] | None = None,
        nodes: tuple[str, ...] = ("n1", "n2", "n3"),
        options: Options = Options(),  # noqa: B008  (a value)
        status: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        self.workload = of or workload(Contract.PARAMETER_SERVER, (Role.PS, 1))
        kind = self.workload.kind
        self.templates = dict(templates or {t.role: template(kind) for t in self.workload.roles})
        self.nodes = {name: NodeFacts() for name in nodes}
        self.options = options
        self.status: dict[str, Any] = status or {}
        self.fields = fields  # of the look, where a test wants another
        self.pods: dict[str, dict[str, Any]] = {}
        self.vanished: list[dict[str, Any]] = []
        self.services: dict[str, dict[str, Any]] = {}
        self.config_map: Any = None  # or a dict
        self.deleted = False
        self.now_s = 1_700_000_000.0
        self.events: list[JobEvent] = []
        self.happenings: list[str] = []
        self.done: list[Effect] = []  # everything that was carried out
        self.writes = 0  # of the status
        self.wake_s: Any = None  # or a moment
        self._uids = 0

    # -- looking ------------------------------------------------------------------------------------------------------

    def look(self, **fields: Any) -> JobView:
        status = status_read(copy.deepcopy(self.status))
        values: dict[str, Any] = {
            "api_version": self.workload.api_version,
            "kind": self.workload.kind,
            "namespace": "default",
            "name": self.workload.name,
            "uid": "job-uid",
            "created_s": 1_600_000_000.0,
            "workload": self.workload,
            "templates": self.templates,
            "status": status,
            "standing": status.recorded,
            "pods": tuple(msgspec.convert(pod, Pod) for _, pod in sorted(self.pods.items())),
            "vanished": tuple(msgspec.convert(pod, Pod) for pod in self.vanished),
            "services": tuple(msgspec.convert(found, ServiceObject) for _, found in sorted(self.services.items())),
            "config_map": None if self.config_map is None else msgspec.convert(self.config_map, ConfigMapObject),
            "nodes": self.nodes,
        }
        return JobView(**(values | self.fields | fields))

    @property
    def standing(self) -> Any:
        """A `Standing`, said to be anything: what is in it is what the tests are about."""
        return status_read(self.status).recorded

    def phase(self) -> Phase:
        return status_read(self.status).recorded.phase

    @property
    def value(self) -> Any:
        """A `Job`, as the core sees it; None: it does not."""
        return value_of(self.look())

    @property
    def conditions(self) -> list[str]:
        """Those that users of the kind know: `Running=True`."""
        known = ("Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
        return [f"{c['type']}={c['status']}" for c in self.status.get("conditions", []) if c["type"] in known]

    def condition(self, kind: str) -> dict[str, Any]:
        return next(c for c in self.status["conditions"] if c["type"] == kind)

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]

    # -- what the operator does ---------------------------------------------------------------------------------------

    def turn(self, standing: Standing | None = None) -> Reconciled:
        """One look and what follows from it."""
        view = self.look()
        if standing is not None:
            view = view.but(standing)
        self.vanished = []
        done = reconcile(view, self.now_s, self.options)
        if done.status is not None:
            self.status = merged(self.status, json.loads(json.dumps(done.status)))
            self.writes += 1
        assert {event.reason for event in done.events} <= REASONS
        self.events += done.events
        self.happenings += done.happenings
        self.wake_s = done.wake_s
        for effect in done.effects:
            self.carry_out(effect)
        return done

    def rest(self, *, kubelets: bool = True) -> None:
        """Until nothing is left to be done."""
        for _ in range(30):
            done = self.turn()
            acted = kubelets and self.kubelets()
            if done.status is None and not done.effects and not acted:
                return
        raise AssertionError(f"no rest: {done.effects} {done.status}")

    def grow(self, *to: Worker, because: Because = BECAUSE) -> bool:
        """False: stale."""
        standing = grown(self.look(), Grow(self.look().id, to, because), self.now_s)
        if standing is None:
            return False
        self.turn(standing)
        return True

    def shrink(self, *to: Worker, then: tuple[Worker, ...] | None = None, because: Because = BECAUSE) -> None:
        view = self.look()
        growth = None if then is None else Grow(view.id, then, because)
        self.turn(shrunk(view, Shrink(view.id, to, because), growth, self.now_s))

    def give_up(self, because: Because = BECAUSE) -> None:
        self.turn(given_up(self.look(), because, self.now_s))

    def explain(self, because: Because) -> None:
        self.turn(explained(self.look(), because))

    def started(self, *held: Worker) -> "World":
        """Taken in, placed, and at work."""
        self.rest()
        assert self.grow(*held)
        self.rest()
        return self

    def carry_out(self, effect: Effect) -> None:
        self.done.append(effect)
        match effect:
            case CreatePod(name, body):
                assert name not in self.pods, f"pod {name} is there already"
                self.pods[name] = self._stored(body, status={"phase": "Pending"})
            case DeletePod(name, uid, grace_s):
                self.delete_pod(name, uid=uid, grace_s=grace_s)
            case CreateService(name, body):
                assert name not in self.services
                self.services[name] = self._stored(body)
            case DeleteService(name):
                del self.services[name]
            case WriteConfigMap(_, body, exists):
                assert exists == (self.config_map is not None)
                self.config_map = self._stored(body)
            case NudgePod(name, _, annotations):
                self.pods[name]["metadata"]["annotations"].update(annotations)
            case BindPod(name, _, node):
                self.pods[name]["spec"]["nodeName"] = node
            case DeleteJob():
                self.deleted = True

    # -- what kubelets, users and fate do -----------------------------------------------------------------------------

    def kubelets(self) -> bool:
        """Start what is to start, end what is to go. Says whether anything happened."""
        acted = False
        for name, pod in list(self.pods.items()):
            node = pod["spec"].get("nodeName")
            if not node or node not in self.nodes or not self.nodes[node].ready:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self.exit(name, 143) if pod["status"]["phase"] == "Running" else None
                self.vanish(name)
                acted = True
            elif pod["status"]["phase"] == "Pending" and not pod["status"].get("containerStatuses"):
                self.run(name)
                acted = True
        return acted

    def run(self, name: str, *, ready: bool = True, restarts: int = 0) -> None:
        pod = self.pods[name]
        started = {"running": {"startedAt": second_text(self.now_s)}}
        self._set(pod, "Running", started, ready=ready, restarts=restarts)

    def exit(self, name: str, code: int, *, message: str = "", reason: str = "", restarts: int = 0) -> None:
        """Its program ends, for good."""
        ended = {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "message": message,
            "finishedAt": second_text(self.now_s),
        }
        phase = "Succeeded" if code == 0 else "Failed"
        self._set(self.pods[name], phase, {"terminated": ended}, ready=False, restarts=restarts)

    def restart_in_place(self, name: str, *, restarts: int, code: int = 1, message: str = "") -> None:
        self.run(name, restarts=restarts)
        ended = {"exitCode": code, "reason": "Error", "message": message, "finishedAt": second_text(self.now_s)}
        self.pods[name]["status"]["containerStatuses"][0]["lastState"] = {"terminated": ended}

    def fail(self, name: str, reason: str, message: str = "") -> None:
        """By the kubelet's hand: the program never had a say."""
        self.pods[name]["status"] = {"phase": "Failed", "reason": reason, "message": message}

    def wait_for(self, name: str, reason: str, message: str = "") -> None:
        """A container does not come up."""
        waiting = {"waiting": {"reason": reason, "message": message}}
        self._set(self.pods[name], "Pending", waiting, ready=False)

    def delete_pod(self, name: str, *, uid: str | None = None, grace_s: int | None = None) -> None:
        pod = self.pods.get(name)
        if pod is None or (uid is not None and pod["metadata"]["uid"] != uid):
            return
        over = pod["status"]["phase"] in ("Succeeded", "Failed")
        if grace_s == 0 or over or not pod["spec"].get("nodeName"):
            self.vanish(name)
        elif "deletionTimestamp" not in pod["metadata"]:
            grace = pod["spec"].get("terminationGracePeriodSeconds", GRACE_S) if grace_s is None else grace_s
            pod["metadata"]["deletionTimestamp"] = second_text(self.now_s + grace)
            pod["metadata"]["deletionGracePeriodSeconds"] = grace

    def vanish(self, name: str) -> None:
        self.vanished.append(self.pods.pop(name))

    def lose(self, node: str) -> None:
        self.nodes[node] = self.nodes[node]._replace(ready=False)

    def edit(self, **fields: Any) -> None:
        """Its owner changes the job."""
        self.workload = replace(self.workload, **fields)
        self.fields["generation"] = self.fields.get("generation", 1) + 1

    def edit_policy(self, **fields: Any) -> None:
        self.edit(run_policy=replace(self.workload.run_policy, **fields))

    def _set(self, pod: dict[str, Any], phase: str, state: dict[str, Any], *, ready: bool, restarts: int = 0) -> None:
        name = pod["spec"]["containers"][0]["name"]
        status = {"name": name, "ready": ready, "restartCount": restarts, "state": state}
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        pod["status"] = {"phase": phase, "containerStatuses": [status], "conditions": [condition]}

    def _stored(self, body: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        self._uids += 1
        stored = json.loads(json.dumps(body))
        stored["metadata"]["uid"] = f"uid-{self._uids}"
        return {**stored, **more}


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7386."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            before = result.get(key)
            result[key] = merged(before if isinstance(before, dict) else {}, value)
        else:
            result[key] = value
    return result
