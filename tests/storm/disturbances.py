"""What may happen in a storm, one function each: to jobs, to pods, to nodes, to namespaces, to the operator.

Each does one thing to one thing that chance picks and says what, or does nothing where nothing is there to do it to. A
refusal by the API server is an answer like any other: what is asked for may be gone already, or be nonsense.
"""

from collections.abc import Callable
from contextlib import suppress

from tests.cluster.pod_status import Rejection, thrown_out
from tests.cluster.requests import ApiError, Body
from tests.storm.errands import Errand
from tests.storm.weather import Weather

Disturbance = Callable[[Weather], str | None]  # what was done. None: there was nothing to do it to

EVICTED = Rejection("Evicted", "The node was low on resource: memory.")
QUOTA = "storm"
_SIZED = ("ElasticJob", "TFJob", "PyTorchJob")


# -- jobs


def job_deleted(weather: Weather) -> str | None:
    errand = weather.some_job()
    if errand is None:
        return None
    weather.forget(errand)
    weather.api.delete(errand.path, {"propagationPolicy": weather.chance.choice(("Background", "Foreground"))})
    return f"deleted {errand.name}"


def job_resized(weather: Weather) -> str | None:
    """Within what its kind allows; what it holds may be outside of that by now."""
    errand = weather.some_job(*_SIZED)
    if errand is None:
        return None
    low = weather.chance.choice((1, 1, 2))
    errand.sizes = low, low + weather.chance.choice((0, 1, 2))
    weather.api.patch(errand.path, {"spec": errand.size_spec(*errand.sizes)})
    return f"{errand.name} is to have {errand.sizes[0]} to {errand.sizes[1]} workers"


def job_suspended_or_resumed(weather: Weather) -> str | None:
    errand = weather.some_job()
    if errand is None:
        return None
    errand.suspended = not errand.suspended and weather.chance.random() < 0.5
    weather.api.patch(errand.path, {"spec": {"runPolicy": {"suspend": errand.suspended}}})
    return f"{'suspended' if errand.suspended else 'resumed'} {errand.name}"


def template_edited(weather: Weather) -> str | None:
    errand = weather.some_job()
    if errand is None:
        return None
    image = f"localhost/none:{weather.chance.randrange(2, 9)}"
    weather.api.patch(errand.path, {"spec": errand.template_spec(image=image)})
    return f"{errand.name} has image {image}"


def priority_changed(weather: Weather) -> str | None:
    errand = weather.some_job()
    if errand is None:
        return None
    priority = str(weather.chance.randrange(10))
    weather.api.patch(errand.path, {"metadata": {"annotations": {"sterna.dev/priority": priority}}})
    return f"{errand.name} has priority {priority}"


def job_sized_out_of_bounds(weather: Weather) -> str | None:
    """As `kubectl scale` does it: what is asked for is above the maximum, and stays in the spec."""
    errand = weather.some_job(*_SIZED)
    if errand is None or not _is_known(weather, errand):
        return None
    weather.api.patch(errand.path, {"spec": errand.size_spec(*errand.sizes, initial=100)})
    return f"{errand.name} is asked to have 100 workers"


def template_made_invalid(weather: Weather) -> str | None:
    """It stays so."""
    errand = weather.some_job()
    if errand is None or not _is_known(weather, errand):
        return None
    limits = weather.chance.choice(({"cpu": "many"}, {"nvidia.com/gpu": "-1"}, {"memory": "1Gib"}))
    weather.api.patch(errand.path, {"spec": errand.template_spec(resources={"limits": limits})})
    return f"{errand.name} is to have {limits}"


def status_wiped(weather: Weather) -> str | None:
    """Of a job that has not ended; what runs is told by its pods."""
    errand = weather.some_job()
    found = None if errand is None else weather.api.get(errand.path)
    if errand is None or found is None or _has_ended(found):
        return None
    version = {"resourceVersion": found["metadata"]["resourceVersion"]}
    weather.api.patch(f"{errand.path}/status", {"metadata": version, "status": None})
    return f"wiped the status of {errand.name}"


# -- pods


def owner_removed(weather: Weather) -> str | None:
    """The pod is no job's any more, and keeps its name and its room until the storm is over."""
    pod = weather.some_pod()
    if pod is None:
        return None
    weather.api.patch(_path(pod), {"metadata": {"uid": pod["metadata"]["uid"], "ownerReferences": None}})
    weather.ownerless.add(_path(pod))
    return f"took pod {pod['metadata']['name']} from its job"


def label_changed(weather: Weather) -> str | None:
    """One by which the pods of a job are found."""
    pod = weather.some_pod()
    labels = {} if pod is None else pod["metadata"].get("labels", {})
    known = sorted(key for key in labels if key.endswith(("job-name", "replica-index", "slot", "workerid")))
    if pod is None or not known:
        return None
    key = weather.chance.choice(known)
    labels = {key: weather.chance.choice((None, "forged", "7"))}
    weather.api.patch(_path(pod), {"metadata": {"uid": pod["metadata"]["uid"], "labels": labels}})
    weather.ownerless.add(_path(pod))
    return f"pod {pod['metadata']['name']} has {labels}"


def pod_deleted(weather: Weather) -> str | None:
    pod = weather.some_pod()
    if pod is None:
        return None
    weather.api.delete(_path(pod), {"preconditions": {"uid": pod["metadata"]["uid"]}})
    return f"deleted pod {pod['metadata']['name']}"


def pod_deleted_at_once(weather: Weather) -> str | None:
    pod = weather.some_pod()
    if pod is None:
        return None
    weather.api.delete(_path(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}})
    return f"deleted pod {pod['metadata']['name']} without grace"


def pod_evicted_by_api(weather: Weather) -> str | None:
    pod = weather.some_pod()
    if pod is None:
        return None
    name = pod["metadata"]["name"]
    body = {"apiVersion": weather.eviction_version, "kind": "Eviction", "metadata": {"name": name}}
    weather.api.create(f"{_path(pod)}/eviction", body)
    return f"evicted pod {name}"


def pod_evicted_by_kubelet(weather: Weather) -> str | None:
    pod = weather.some_pod("Running")
    if pod is None or pod["spec"]["nodeName"] in weather.silent:
        return None
    status = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": thrown_out(pod["status"], EVICTED)}
    weather.api.patch(f"{_path(pod)}/status", status)
    return f"the kubelet evicted pod {pod['metadata']['name']}"


# -- nodes


def node_cordoned_or_uncordoned(weather: Weather) -> str | None:
    node = weather.some_node()
    on = node not in weather.cordoned and len(weather.cordoned) * 3 < len(weather.nodes.names)
    (weather.cordoned.add if on else weather.cordoned.discard)(node)
    weather.nodes.cordon(node, on=on)
    return f"{'cordoned' if on else 'uncordoned'} {node}"


def node_flaps(weather: Weather) -> str | None:
    """Not ready, and back after a moment or with a later one of these."""
    if weather.silent and (weather.chance.random() < 0.6 or len(weather.silent) * 4 >= len(weather.nodes.names)):
        node = weather.chance.choice(sorted(weather.silent))
        weather.silent.discard(node)
        weather.nodes.start_kubelet(node)
        return f"{node} is ready again"
    node = weather.some_node()
    weather.nodes.stop_kubelet(node)
    if weather.chance.random() < 0.5:
        weather.nodes.start_kubelet(node)
        return f"{node} was not ready for a moment"
    weather.silent.add(node)
    return f"{node} is not ready"


def node_deleted_or_registered_again(weather: Weather) -> str | None:
    if weather.deleted:
        node = weather.deleted.pop()
        weather.nodes.register_again(node)
        return f"{node} is there again"
    node = weather.some_node()
    weather.nodes.delete(node)
    weather.deleted.add(node)
    weather.cordoned.discard(node)
    return f"{node} is gone"


def node_refuses(weather: Weather) -> str | None:
    """Every pod that comes there, until a later one of these."""
    if len(weather.sick) * 5 >= len(weather.nodes.names):
        node = weather.chance.choice(sorted(weather.sick))
        del weather.sick[node]
        return f"{node} takes pods again"
    node = weather.some_node()
    weather.sick[node] = weather.chance.choice(REFUSALS)
    return f"{node} refuses pods: {weather.sick[node].reason}"


REFUSALS = (
    Rejection("OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 1"),
    Rejection("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu"),
    Rejection("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"),
    Rejection("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present, which is unexpected"),
)


# -- namespaces


def quota_changed(weather: Weather) -> str | None:
    """Made, made larger or smaller, taken away."""
    namespace = weather.chance.choice(weather.namespaces)
    path, pods = f"/api/v1/namespaces/{namespace}/resourcequotas", str(weather.chance.randrange(1, 12))
    body = {"metadata": {"name": QUOTA}, "spec": {"hard": {"pods": pods}}}
    if namespace not in weather.quotas:
        weather.api.create(path, body)
        weather.quotas.add(namespace)
        return f"{namespace} may have {pods} pods"
    if weather.chance.random() < 0.5:
        weather.api.patch(f"{path}/{QUOTA}", body)
        return f"{namespace} may have {pods} pods now"
    weather.api.delete(f"{path}/{QUOTA}")
    weather.quotas.discard(namespace)
    return f"{namespace} has no quota"


# -- the operator


def operator_killed(weather: Weather) -> str | None:
    weather.operator.kill()
    pause_s = weather.chance.choice((0.0, 0.0, 1.0))
    weather.pass_s(pause_s)
    weather.operator.start()
    return f"killed the operator, started {pause_s:g} s later"


def _is_known(weather: Weather, errand: Errand) -> bool:
    """Has the operator taken it in? One that is nonsense from the first look on fails by that."""
    return bool(weather.api.get(errand.path).get("status", {}).get("conditions"))


def _has_ended(job: Body) -> bool:
    found = job.get("status", {}).get("conditions", [])
    return any(each["type"] in ("Succeeded", "Failed") and each["status"] == "True" for each in found)


def _path(pod: Body) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


IN_FORCE: tuple[tuple[Disturbance, int], ...] = (  # and how often each comes beside the others
    (job_deleted, 2),
    (job_resized, 4),
    (job_suspended_or_resumed, 4),
    (template_edited, 2),
    (priority_changed, 2),
    (pod_deleted, 3),
    (pod_deleted_at_once, 3),
    (pod_evicted_by_api, 3),
    (pod_evicted_by_kubelet, 3),
    (node_cordoned_or_uncordoned, 3),
    (node_flaps, 4),
    (node_deleted_or_registered_again, 2),
    (node_refuses, 2),
    (quota_changed, 2),
    (operator_killed, 2),
    (job_sized_out_of_bounds, 2),
    (template_made_invalid, 2),
    (status_wiped, 1),
    (owner_removed, 2),
    (label_changed, 2),
)


def mend(weather: Weather) -> None:
    """The end of everything that lasts; jobs that were suspended stay so."""
    for node in sorted(weather.deleted):
        weather.nodes.register_again(node)
    for node in sorted(weather.silent):
        weather.nodes.start_kubelet(node)
    for node in sorted(weather.cordoned):
        weather.nodes.cordon(node, on=False)
    for namespace in sorted(weather.quotas):
        weather.api.delete(f"/api/v1/namespaces/{namespace}/resourcequotas/{QUOTA}")
    for path in sorted(weather.ownerless):
        with suppress(ApiError):  # gone already
            weather.api.delete(path, {"gracePeriodSeconds": 0})
    for lasting in (weather.deleted, weather.silent, weather.cordoned, weather.quotas, weather.sick):
        lasting.clear()
    weather.ownerless.clear()


def is_open(errand: Errand) -> bool:
    return bool(errand.earns) and not errand.suspended
