"""The pure parts: nodes and guests as values, templates, memory, rules, options."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.kubernetes.apiserver.configmap_document import PACKED_FROM_BYTES
from sterna.engines.kubernetes.apiserver.objects import NodeObject, Pod
from sterna.engines.kubernetes.bodies.pod_templates import templates_of
from sterna.engines.kubernetes.loop.rules import rules_of
from sterna.engines.kubernetes.process.excluded_namespaces import refusing_excluded
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.progress.policy_memory import memory_data, memory_of
from sterna.engines.kubernetes.world.node_objects import UNSCHEDULABLE, guest_of, node_of, sign_of, takes_room
from sterna.engines.kubernetes.world.pod_amounts import request_of_pod
from sterna.lifecycle.node_trust import NodeSign
from sterna.lifecycle.rule_names import settings_in, settings_text
from sterna.model.errors import InvalidRequest
from sterna.model.ids import JobId
from sterna.model.jobs import Role
from sterna.model.nodes import Doubt, Effect, GuestKind, Taint
from sterna.model.resources import Resources
from sterna.model.target import PolicyMemory
from sterna.wire.manifests import workload_of_object
from tests.engines.kubernetes.operator.lab import elastic_job, tf_job

CONFIG = OperatorConfig()


def node(**parts: Any) -> NodeObject:
    room = {"cpu": "7910m", "memory": "16Gi", "nvidia.com/gpu": "2", "pods": "110"}
    status = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": "n"}, "status": status, **parts}, NodeObject)


def pod(**spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p", "namespace": "x"}, "spec": spec}, Pod)


def container(cpu: str = "", *, limit: str = "", restart: str | None = None) -> dict[str, Any]:
    amounts = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    return {"name": "c", "resources": amounts, **({"restartPolicy": restart} if restart else {})}


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        pytest.param({"containers": [container("1"), container("500m")]}, 1500, id="containers add up"),
        pytest.param({"containers": [container(limit="2")]}, 2000, id="a limit counts where there is no request"),
        pytest.param({"containers": [container("1", limit="2")]}, 1000, id="a request goes before the limit"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
            3000,
            id="init containers run one after the other",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", restart="Always"), container("3")]},
            5000,
            id="a sidecar runs beside those that come after it",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", restart="Always")]},
            3000,
            id="a sidecar runs beside the containers",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead comes on top"),
    ],
)
def test_dragon_3_what_a_pod_takes_is_what_the_cluster_says_it_takes(spec: dict[str, Any], cpu_milli: int):
    assert request_of_pod(pod(**spec)).cpu_milli == cpu_milli


def resized(spec: str, has: str, granted: str, *conditions: tuple[str, str]) -> dict[str, Any]:
    status = {"name": "c", "resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": granted}}
    told = [{"type": type_, "status": "True", "reason": reason} for type_, reason in conditions]
    return {"spec": {"containers": [container(spec)]}, "status": {"containerStatuses": [status], "conditions": told}}


@pytest.mark.parametrize(
    ("found", "cpu_milli"),
    [
        pytest.param(resized("1", "1", "1"), 1000, id="a pod that is not resized"),
        pytest.param(resized("3", "1", "1", ("PodResizePending", "Deferred")), 3000, id="it asks for more"),
        pytest.param(resized("1", "3", "3"), 3000, id="it has more than it asks for now"),
        pytest.param(resized("1", "1", "3"), 3000, id="its node has granted more than it has"),
        pytest.param(resized("9", "1", "2", ("PodResizePending", "Infeasible")), 2000, id="its node never will"),
    ],
)
def test_a_pod_that_is_resized_takes_the_most_of_what_it_asks_for_and_has(found: dict[str, Any], cpu_milli: int):
    assert request_of_pod(msgspec.convert(found, Pod)).cpu_milli == cpu_milli


@pytest.mark.parametrize(
    ("status", "cpu_milli"),
    [
        pytest.param({}, 4000, id="what it asks for as a whole, whatever its containers do"),
        pytest.param({"resources": {"requests": {"cpu": "6"}}}, 6000, id="or what it has, while that is more"),
        pytest.param({"resources": {}, "allocatedResources": {"cpu": "5"}}, 5000, id="or what its node has granted"),
    ],
)
def test_a_pod_that_asks_as_a_whole(status: dict[str, Any], cpu_milli: int):
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {}}
    assert request_of_pod(msgspec.convert({"spec": spec, "status": status}, Pod)).cpu_milli == cpu_milli


def test_a_node_is_what_it_offers_and_whom_it_lets_in():
    found = node_of(
        node(
            metadata={"name": "n", "labels": {"zone": "b", "nvidia.com/gpu.product": "A100"}},
            spec={"taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}], "unschedulable": True},
        )
    )
    assert found.allocatable == Resources(7910, 16 << 30, 2000)
    assert found.accelerator == "A100"
    assert found.labels == (("nvidia.com/gpu.product", "A100"), ("zone", "b"))
    assert set(found.taints) == {Taint("team", "red", Effect.NO_SCHEDULE), Taint(UNSCHEDULABLE)}
    assert found.ready
    assert not found.cordoned, "a cordon keeps newcomers away; what is there stays"


@pytest.mark.parametrize(
    ("labels", "accelerator"),
    [
        pytest.param({"sterna.dev/accelerator": "a", "vodascheduler/accelerator": "b"}, "a", id="ours goes first"),
        pytest.param({"vodascheduler/accelerator": "b", "nvidia.com/gpu.product": "c"}, "b", id="then Voda's"),
        pytest.param({}, "gpu", id="a node with GPUs nobody named"),
    ],
)
def test_the_pool_of_a_node(labels: dict[str, str], accelerator: str):
    assert node_of(node(metadata={"name": "n", "labels": labels})).accelerator == accelerator


@pytest.mark.parametrize(
    ("status", "ready"), [("True", True), ("False", False), ("Unknown", False)], ids=["ready", "not ready", "silent"]
)
def test_readiness(status: str, ready: bool):
    found = node_of(node(status={"conditions": [{"type": "Ready", "status": status}]}))
    assert found.ready is ready
    assert node_of(node(metadata={"name": "n", "annotations": {"sterna.dev/drain": "true"}})).cordoned


@pytest.mark.parametrize(
    ("found", "sign"),
    [
        pytest.param({}, NodeSign(ready=True), id="a node that is ready"),
        pytest.param({"status": "Unknown"}, NodeSign(ready=False, told_s=60.0), id="a silent node"),
        pytest.param(
            {"status": "False"}, NodeSign(ready=False, told_s=60.0), id="a kubelet whose network is not ready"
        ),
        pytest.param(
            {"status": "False", "message": "[container runtime is down, node is shutting down]"},
            NodeSign(ready=False, leaves=True, told_s=60.0),
            id="a kubelet in a graceful shutdown",
        ),
        pytest.param(
            {"status": "Unknown", "taint": "node.kubernetes.io/out-of-service"},
            NodeSign(ready=False, leaves=True, told_s=60.0),
            id="a silent node of which people say that it is off",
        ),
        pytest.param(
            {"status": "Unknown", "taint": "node.cloudprovider.kubernetes.io/shutdown"},
            NodeSign(ready=False, leaves=True, told_s=60.0),
            id="a silent node of which its cloud says that it is off",
        ),
        pytest.param(
            {"meta": {"deletionTimestamp": "1970-01-01T00:02:00Z"}},
            NodeSign(ready=False, leaves=True, told_s=60.0),
            id="a node that is being deleted",
        ),
        pytest.param({"status": "Unknown", "since": "soon"}, NodeSign(ready=False), id="a moment that is none"),
    ],
)
def test_what_is_seen_of_a_node(found: dict[str, Any], sign: NodeSign):
    ready = {"type": "Ready", "status": found.get("status", "True"), "message": found.get("message", "")}
    ready["lastTransitionTime"] = found.get("since", "1970-01-01T00:01:00Z")
    meta = {"name": "n", **found.get("meta", {})}
    taints = [{"key": found["taint"], "effect": "NoExecute"}] if "taint" in found else []
    assert sign_of(node(metadata=meta, spec={"taints": taints}, status={"conditions": [ready]})) == sign


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"])
def test_taints_that_follow_from_readiness_drive_nothing_out_and_keep_newcomers_away(key: str):
    """How long a node may be silent is our own rule, which jobs need not tolerate."""
    taints = [{"key": key, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    found = node_of(node(spec={"taints": taints}))
    assert (found.taints, found.doubt, found.ready, found.schedulable) == ((), Doubt.NOT_READY, True, False)
    assert found.keeps(())


def test_cards_that_somebody_listed_are_known_by_name_and_nonsense_is_not():
    listed = node_of(node(metadata={"name": "n", "annotations": {"kubeshare/gpu_info": "x:1024,y:2048"}}))
    assert [(card.id, card.memory_bytes) for card in listed.devices] == [("x", 1 << 30), ("y", 2 << 30)]
    for text in ("x:1024", "x:1024,x:1024", "x,y", ":,:"):
        assert node_of(node(metadata={"name": "n", "annotations": {"kubeshare/gpu_info": text}})).devices == ()


def test_serving_pods_are_known_and_pods_that_are_over_take_no_room():
    serving = msgspec.convert({"metadata": {"name": "s", "annotations": {"SERVING_POD": "true"}}}, Pod)
    assert guest_of(serving).kind is GuestKind.SERVING
    on_a_node = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}
    assert takes_room(msgspec.convert(on_a_node, Pod))
    assert not takes_room(msgspec.convert({**on_a_node, "status": {"phase": "Succeeded"}}, Pod))
    assert not takes_room(pod(containers=[]))


def test_templates_are_kept_whole_and_shorthand_becomes_a_pod():
    body = tf_job("job")
    body["spec"]["tfReplicaSpecs"]["worker"] = body["spec"]["tfReplicaSpecs"].pop("Worker")  # any case will do
    body["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["shareProcessNamespace"] = True
    found = templates_of(body["spec"], workload_of_object(body).workload)
    assert found[Role.PS]["spec"]["shareProcessNamespace"] is True
    assert found[Role.WORKER] == body["spec"]["tfReplicaSpecs"]["worker"]["template"]
    short = elastic_job("job")
    made = templates_of(short["spec"], workload_of_object(short).workload)[Role.WORKER]
    assert made["spec"]["containers"][0]["command"] == ["sleep", "1000"]
    assert made["spec"]["terminationGracePeriodSeconds"] == 2


numbers = st.dictionaries(st.text(max_size=8), st.floats(allow_nan=False), max_size=4)


@given(st.dictionaries(st.text(max_size=12).map(JobId), numbers, max_size=6), numbers, st.none() | st.floats(0, 2e9))
def test_what_is_remembered_is_read_back_as_it_was(jobs, values, last_s):
    memory = PolicyMemory(jobs, values, last_s)
    assert memory_of(memory_data(memory)) == memory


def test_a_large_memory_fits_into_one_config_map_and_what_others_wrote_is_refused():
    memory = PolicyMemory({JobId(f"namespace/job-{n}"): {"queue": 1.0, "since": n / 7} for n in range(10_000)})
    data = memory_data(memory)
    assert sum(len(text) for text in data.values()) < PACKED_FROM_BYTES
    assert memory_of(data) == memory
    for nonsense in ({"memory.json": "{"}, {"memory.json": "[]"}, {"other": ""}, {"memory.json.zlib": "x"}):
        with pytest.raises(InvalidRequest, match="sterna-memory"):
            memory_of(nonsense)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"policy": "bogus"}, id="no such policy"),
        pytest.param({"settings": "order"}, id="a setting without a value"),
        pytest.param({"policy": "fifo", "settings": "bogus=1"}, id="no such setting"),
        pytest.param({"rateLimitSeconds": "-1"}, id="a negative rate limit"),
        pytest.param({"rateLimitSeconds": "soon"}, id="no number"),
        pytest.param({"placement": "bogus"}, id="no such placement"),
        pytest.param({"policy": "dragon", "placement": "count"}, id="a placement that the policy cannot use"),
        pytest.param({"rebalance": "bogus"}, id="no such rebalancer"),
        pytest.param({"rebalance": "specon", "rebalanceSettings": "bogus=1"}, id="no such setting of a rebalancer"),
        pytest.param({"rebalanceSettings": "judge.bogus=1"}, id="no such setting of the judge"),
        pytest.param({"rebalanceSettings": "round-s=1"}, id="a setting of nobody's"),
        pytest.param({"Policy": "fifo"}, id="no such key"),
    ],
)
def test_rules_that_make_no_sense_are_refused_as_a_whole(data: dict[str, str]):
    with pytest.raises(InvalidRequest):
        rules_of(CONFIG, data)


def test_what_the_config_map_says_goes_over_how_the_operator_was_started():
    config = OperatorConfig(policy="fifo", settings={"order": "seat"}, rate_limit_s=7.0)
    assert rules_of(config, None).policy_settings == {"order": "seat"}
    changed = rules_of(config, {"policy": "elastic-fifo", "starvingAfterSeconds": "60"})
    assert (changed.size.name, changed.policy_settings, changed.rate_limit_s) == ("elastic-fifo", {}, 7.0)
    assert changed.settings.starving_after_s == 60.0
    assert settings_in(settings_text({"a": "1", "b": "x=y"})) == {"a": "1", "b": "x=y"}


def test_rebalancers_are_those_of_the_config_map_or_those_it_was_started_with():
    config = OperatorConfig(rebalance=("specon",), rebalance_settings={"round-s": "5", "judge.threshold": "0.2"})
    started = rules_of(config, None)
    assert (started.rebalance, started.judging) == (("specon",), {"threshold": "0.2"})
    assert started.settings.rebalance is not None
    assert rules_of(config, {"rebalance": "none"}).settings.rebalance is None
    other = rules_of(config, {"rebalance": "imbalance, drain", "rebalanceSettings": "judge.threshold=0.3"})
    assert (other.rebalance, other.judging) == (("imbalance", "drain"), {"threshold": "0.3"})
    assert rules_of(config, {"rebalance": "imbalance"}).rebalance_settings == {}, "others have other settings"
    assert rules_of(config, None) == started, "the same words are the same rules"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"namespace": "Not A Name"}, "namespace"),
        ({"watch": ()}, "watch namespace"),
        ({"watch": ("team", "kube-system")}, "watch namespace"),
        ({"exclude": ("Not A Name",)}, "exclude namespace"),
        ({"watch": ("team",), "exclude": ("team",)}, "exclude namespace"),
        ({"identity": " "}, "identity"),
        ({"lease_s": 5.0, "renew_s": 5.0}, "renew"),
        ({"cluster_domain": "no domain"}, "cluster domain"),
        ({"health_port": 70_000}, "health port"),
    ],
    ids=lambda value: str(value),
)
def test_an_operator_is_not_started_with_what_makes_no_sense(wrong: dict[str, Any], field: str):
    with pytest.raises(InvalidRequest, match=f"^{field}"):
        OperatorConfig(**wrong)


@pytest.mark.parametrize(
    ("settings", "namespace", "refused"),
    [
        pytest.param({}, "team", False, id="a team's namespace is for jobs"),
        pytest.param({}, "kube-system", True, id="the cluster's own is not"),
        pytest.param({}, "kube-node-lease", True, id="nor this one of it"),
        pytest.param({}, "kube-systems", False, id="another one that begins like it is"),
        pytest.param({"namespace": "ours"}, "ours", True, id="the operator's own is not"),
        pytest.param({"namespace": "ours"}, "sterna-system", False, id="one that is not its own is"),
        pytest.param({"namespace": "ours", "watch": ("ours",)}, "ours", False, id="unless somebody names it"),
        pytest.param({"exclude": ("billing",)}, "billing", True, id="one that somebody excludes is not"),
        pytest.param({"exclude": ("billing",)}, "kube-system", True, id="which adds to the others"),
    ],
)
def test_s4_where_jobs_are_refused(settings: dict[str, Any], namespace: str, refused: bool):
    config = OperatorConfig(**settings)
    assert config.excludes(namespace) is refused
    document = {"metadata": {"name": "job", "namespace": namespace}}
    found: list[Any] = []
    parse = refusing_excluded(config, lambda body: found.append(body))  # type: ignore[arg-type, return-value]
    if refused:
        with pytest.raises(InvalidRequest, match=r"^metadata\.namespace"):
            parse(document)
    else:
        parse(document)
    assert found == ([] if refused else [document])
