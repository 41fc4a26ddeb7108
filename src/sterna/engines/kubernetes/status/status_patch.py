"""The status of a job as it is to be written, and what of it has to be: a merge patch of what is not there already.

Fields that users of these kinds know, and `scheduling`: how the job stands, with what `kubectl get` has columns for.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from sterna.engines.contracts.naming import labels_of
from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.apiserver.timestamps import second_text
from sterna.engines.kubernetes.reconcile.job_view import JobView, ReplicaCount
from sterna.engines.kubernetes.reconcile.observed_pods import Seen, Trouble
from sterna.engines.kubernetes.reconcile.seated_pods import Look
from sterna.engines.kubernetes.status.job_events import Reason
from sterna.engines.kubernetes.status.standing import Standing
from sterna.engines.kubernetes.status.standing_codec import DECIDED, KEYS, TOLD, standing_text
from sterna.engines.kubernetes.status.status_reading import conditions_text
from sterna.lifecycle.changes import ChangeKind
from sterna.lifecycle.condition_rules import invalid_spec
from sterna.lifecycle.gang_roles import size_of
from sterna.model.conditions import Conditions, ended
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.resources import WHOLE_GPU_MILLI
from sterna.model.workload import CleanUp, RoleTemplate, Workload

_DISPLAY = frozenset({"state", "workers", "gpus", "nodes", DECIDED})
_SCHEDULING = KEYS | _DISPLAY  # what else stands there is a newer operator's
_NODES_SHOWN = 5
_STATES: Mapping[str, str] = {
    ChangeKind.RESIZE: "Resizing",
    ChangeKind.MIGRATION: "Migrating",
    ChangeKind.RESTART: "Restarting",
}


def status_patch(look: Look, conditions: Conditions, *, epoch: int) -> Body | None:
    """What has to be written. None: nothing."""
    return _patch_of(look.view, _body(look, conditions), look.standing, epoch)


def refused_patch(view: JobView, conditions: Conditions, standing: Standing, *, epoch: int) -> Body | None:
    """Of a job that nothing is known of but that its spec makes no sense."""
    body = {
        "conditions": conditions_text(conditions),
        "observedGeneration": view.generation,
        "scheduling": {**_standing_shown(view, standing, None), "state": standing.phase.value},
    }
    if standing.finished_s is not None:
        body["completionTime"] = second_text(standing.finished_s)
    return _patch_of(view, body, standing, epoch)


def shown_reason(view: JobView) -> tuple[str, str]:
    """Reason and message that the status shows as it is."""
    scheduling = view.status.body.get("scheduling")
    found = scheduling if isinstance(scheduling, Mapping) else {}
    return str(found.get("reason") or ""), str(found.get("message") or "")


def _patch_of(view: JobView, body: Body, standing: Standing, epoch: int) -> Body | None:
    """A new leader alone is no reason to write; whatever is written has the epoch of the leader."""
    before = view.status.body
    # What any program wrote of a job stays when it has ended: it may have ended before an operator of ours saw it.
    owned = frozenset[str]() if standing.finished else _OWNED
    patch = _merge_patch(before, body, owned=owned)
    if not patch or standing.epoch == epoch:
        return patch or None
    return {**patch, "scheduling": {**patch.get("scheduling", {}), "epoch": epoch}}


_OWNED = frozenset({"startTime", "completionTime", "startRunTime", "finishedTime"})  # those that may go again


def _merge_patch(before: Mapping[str, Any], after: Mapping[str, Any], *, owned: Collection[str] | None) -> Body:
    """RFC 7386: None for keys that go, of those that are ours (None: all are)."""
    patch: Body = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, Mapping):
            inner = _merge_patch(old, value, owned=_SCHEDULING if owned is not None and key == "scheduling" else None)
            if inner:
                patch[key] = inner
        elif old != value or key not in before:
            patch[key] = value
    gone = (key for key, value in before.items() if key not in after and value is not None)
    patch.update({key: None for key in gone if owned is None or key in owned})
    return patch


def _body(look: Look, conditions: Conditions) -> Body:
    view, workload, standing = look.view, look.workload, look.standing
    moments = {
        "enqueueTime": standing.enqueued_s,
        "startTime": standing.active_s,
        "startRunTime": standing.first_started_s,
        "completionTime": standing.finished_s,
        "finishedTime": standing.finished_s,
    }
    return {
        "conditions": conditions_text(conditions),
        "observedGeneration": view.generation,
        "selector": _selector(workload, workload.template(Role.WORKER)),
        "scheduling": {**_standing_shown(view, standing, _trouble(look)), **_columns(look)},
        "replicaStatuses": {
            type_of(template): {
                **{key: number for key, number in count._asdict().items() if number},
                "selector": _selector(workload, template),
            }
            for template, count in _counts(look)
        },
        **{key: second_text(at_s) for key, at_s in moments.items() if at_s is not None},
    }


def type_of(template: RoleTemplate) -> str:
    """`Worker`, `PS`: as manifests call it."""
    return "PS" if template.role is Role.PS else template.word.capitalize()


def _standing_shown(view: JobView, standing: Standing, trouble: Trouble | None) -> Body:
    """What was decided moves to `decided` while something more pressing is shown in its place."""
    text = standing_text(standing)
    if view.problem and not standing.finished:
        trouble = Trouble(invalid_spec(view.kind), f"the latest edit is ignored: {view.problem}")
    if trouble is None:
        return text
    decided = {key: text.pop(key) for key in TOLD if key in text}
    reason, message = shown_reason(view)
    # A kubelet words the same trouble differently each time: the first message is kept.
    same = reason == trouble.reason and not view.problem
    return {**text, "reason": trouble.reason, "message": message if same else trouble.message, DECIDED: decided}


def _trouble(look: Look) -> Trouble | None:
    if look.standing.finished:
        return None
    denial, hindrance = look.standing.denial, look.view.hindrance
    if denial is not None and denial.tries:
        return Trouble(str(denial.because.why), denial.words)
    if hindrance is not None and not hindrance.denied and look.seats:
        return Trouble(Reason.OPERATOR_PROBLEM, hindrance.message)
    found = (seen.trouble for _, seen in sorted(look.current.items()))
    return next((trouble for trouble in found if trouble is not None), None)


def _columns(look: Look) -> Body:
    standing, workload = look.standing, look.workload
    size = size_of(standing.assigned)
    milli = 0 if look.view.spec is None else size * look.view.spec.request.gpu_milli
    nodes = sorted({worker.node for worker in standing.assigned})
    more = f" +{len(nodes) - _NODES_SHOWN}" if len(nodes) > _NODES_SHOWN else ""
    return {
        "state": _state(look),
        "workers": f"{size}/{workload.workers_min}-{workload.workers_max}",
        "gpus": f"{milli / WHOLE_GPU_MILLI:g}",
        "nodes": ",".join(nodes[:_NODES_SHOWN]) + more,
    }


def _state(look: Look) -> str:
    standing = look.standing
    if standing.phase not in (Phase.RUNNING, Phase.RESIZING):
        return standing.phase.value
    if standing.change is not None:
        return _STATES.get(standing.change.kind, standing.phase.value)
    return "Running" if look.all_run else "Starting"


def _selector(workload: Workload, template: RoleTemplate) -> str:
    """Of all pods of a role: the labels of one of them but for its index."""
    labels = labels_of(workload, template.role, 0)
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if not key.endswith("replica-index"))


def _counts(look: Look) -> list[tuple[RoleTemplate, ReplicaCount]]:
    """As the pods are; of a job that has ended as they were, since the clean-up is no news about them."""
    before, standing = look.view.status, look.standing
    was_over = before.recorded.finished or ended(before.conditions)
    stays_as_it_is = look.workload.run_policy.clean_up is CleanUp.NONE and standing.phase is Phase.FAILED
    if was_over and not stays_as_it_is:
        return [(template, before.replicas.get(type_of(template), ReplicaCount())) for template in look.workload.roles]
    counted = [(template, _count(look, template)) for template in look.workload.roles]
    if not standing.finished or stays_as_it_is:
        return counted
    return [(template, _final(standing, count)) for template, count in counted]


def _final(standing: Standing, count: ReplicaCount) -> ReplicaCount:
    """A pod that was at work when the job succeeded counts as succeeded."""
    well = count.active if standing.phase is Phase.SUCCEEDED else 0
    return ReplicaCount(0, count.succeeded + well, count.failed)


def _count(look: Look, template: RoleTemplate) -> ReplicaCount:
    phases = Counter(_phase(seen) for seen in look.pods if seen.place is not None and seen.place[0] is template.role)
    gone = {seen.place for seen in look.pods}
    done = sum(role is template.role for role, ordinal in look.done if (role, ordinal) not in gone)
    return ReplicaCount(phases["Running"], phases["Succeeded"] + done, phases["Failed"])


def _phase(seen: Seen) -> str:
    return "" if seen.terminating and not seen.over else seen.pod.status.phase
