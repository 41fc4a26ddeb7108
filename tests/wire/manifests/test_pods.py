"""What is used of a pod, what is left out and said, and typing errors in the fields that matter."""

from typing import Any

import pytest

from sterna.model.ids import NodeId
from sterna.model.jobs import Role
from sterna.model.node_affinity import NODE_NAME, LabelOperator, LabelRequirement, NodeWish
from sterna.model.nodes import Effect, Taint, Toleration
from sterna.model.resources import Resources
from sterna.model.workload import Program
from tests.wire.manifests.builders import (
    Manifest,
    annotated,
    notes,
    problems,
    pytorchjob,
    replica,
    tfjob,
    with_container,
    with_pod,
    workload,
)

POD = "spec.pytorchReplicaSpecs.Worker.template.spec"
CONTAINER = f"{POD}.containers[0]"


def asks(cpu: str, **more: str) -> Manifest:
    return {"name": "first", "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}


def program(**container: Any) -> Program:
    return workload(with_container(**container)).template(Role.WORKER).program


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        pytest.param({"command": ["a", "b"], "args": ["c"]}, ("a", "b", "c"), id="args follow the command"),
        pytest.param({"command": ["a"]}, ("a",), id="a command alone"),
        pytest.param({"command": None, "args": ["c"]}, (), id="args of an entry point that only the image knows"),
        pytest.param({"command": []}, (), id="an empty command is none"),
    ],
)
def test_what_is_run(container, argv):
    assert program(**container).argv == argv


def test_the_environment_keeps_its_order_and_what_it_comes_from():
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)2"},
        {"name": "EMPTY"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "hub"}}},
        {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "extras", "key": "x", "optional": True}}},
    ]
    made = program(env=env, envFrom=[{"configMapRef": {"name": "settings"}}])
    assert made.env == (("A", "1"), ("B", "$(A)2"), ("EMPTY", ""))
    assert made.env_fields == (("NODE", "spec.nodeName"), ("LABEL", "metadata.labels['app']"))
    assert made.env_absent == (("envFrom[0]", "the config map settings"), ("TOKEN", "the secret tokens"))
    (aside,) = notes(with_container(env=env))[1]
    assert "extras" in aside


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        pytest.param({"resource": "limits.cpu"}, "2", id="CPUs are rounded up"),
        pytest.param({"resource": "limits.cpu", "divisor": "1m"}, "1500", id="in thousandths"),
        pytest.param({"resource": "limits.memory", "divisor": "1Mi"}, "1024", id="memory in MiB"),
        pytest.param({"resource": "requests.cpu", "divisor": "0"}, "2", id="a limit is the request; divisor left out"),
    ],
)
def test_a_container_knows_its_own_amounts(reference, value):
    env = [{"name": "N", "valueFrom": {"resourceFieldRef": reference}}]
    made = program(env=env, resources={"limits": {"cpu": "1500m", "memory": "1Gi"}})
    assert made.env == (("N", value),)


def test_an_amount_that_is_not_set_is_the_nodes_to_tell():
    assert program(env=[{"name": "N", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]).env_absent


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        pytest.param({"exec": {"command": ["sh", "-c", "save $(X)"]}}, ("sh", "-c", "save $(X)"), id="a command"),
        pytest.param({"sleep": {"seconds": 5}}, ("sleep", "5"), id="a pause"),
        pytest.param({"httpGet": {"path": "/", "port": 80}}, (), id="what a process cannot answer"),
    ],
)
def test_hooks(hook, words):
    made = program(lifecycle={"preStop": hook, "postStart": hook})
    assert (made.pre_stop, made.post_start) == (words, words)
    assert len(notes(with_container(lifecycle={"preStop": hook}))[1]) == (0 if words else 1)


def test_what_a_process_cannot_stand_for_is_said():
    job = with_pod(volumes=[{"name": "data"}], initContainers=[{"name": "copy"}])
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"].append(
        {"name": "proxy", "image": "p"}
    )
    warnings, aside = notes(job)
    assert not warnings
    assert [text.split(": ")[1].removeprefix(POD) for text in aside] == [
        ".initContainers",
        ".volumes",
        ".containers[1]",
    ]


def test_amounts_of_all_containers_are_counted_and_the_main_ones_limit_is_enforced():
    job = with_container(resources={"limits": {"cpu": "1"}})
    containers = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    containers.insert(0, {"name": "proxy", "image": "p", "resources": {"limits": {"cpu": "100m", "memory": "1Mi"}}})
    worker = workload(job).template(Role.WORKER)
    assert (worker.request, worker.limit) == (Resources(1100, 1 << 20), Resources(1000, 0))


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        pytest.param({"initContainers": [asks("3")]}, 3000, id="an init container that asks for more"),
        pytest.param({"initContainers": [asks("500m", restartPolicy="Always")]}, 1500, id="a sidecar"),
        pytest.param({"resources": {"requests": {"cpu": "4"}}}, 4000, id="the pod as a whole"),
        pytest.param({"resources": {"limits": {"cpu": "4"}}}, 1000, id="a limit of the whole beside a container's own"),
        pytest.param({"overhead": {"cpu": "250m"}}, 1250, id="overhead of the runtime class"),
    ],
)
def test_what_else_a_pod_asks_for_is_counted(spec: Manifest, cpu_milli: int):
    job = with_container(resources={"requests": {"cpu": "1"}})
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"].update(spec)
    assert workload(job).template(Role.WORKER).request == Resources(cpu_milli)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        pytest.param({"initContainers": [asks("1e12")]}, ".initContainers[0].resources.requests.cpu", id="at first"),
        pytest.param({"resources": {"limits": {"memory": "1e25"}}}, ".resources.limits.memory", id="as a whole"),
        pytest.param({"overhead": {"cpu": "1e12"}}, ".overhead.cpu", id="on top"),
    ],
)
def test_amounts_that_no_machine_has_are_told_by_where_they_stand(spec: Manifest, where: str):
    assert list(problems(with_pod(**spec))) == [f"{POD}{where}"]


def test_the_roles_restart_policy_goes_over_the_pods():
    warnings, _ = notes(with_pod(restartPolicy="Always"))
    assert "OnFailure" in warnings[0]
    assert not notes(with_pod(restartPolicy="OnFailure"))[0]


HOSTNAME = "kubernetes.io/hostname"


def affinity(*expressions: tuple[str, str, list[str]], kind: str = "required") -> Manifest:
    terms = [{"matchExpressions": [dict(zip(("key", "operator", "values"), one, strict=False)) for one in expressions]}]
    key = f"{kind}DuringSchedulingIgnoredDuringExecution"
    if kind == "required":
        return {"affinity": {"nodeAffinity": {key: {"nodeSelectorTerms": terms}}}}
    return {"affinity": {"nodeAffinity": {key: [{"weight": 1, "preference": terms[0]}]}}}


@pytest.mark.parametrize(
    ("pod", "selector", "terms", "preference"),
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd"}, (), None, id="labels"),
        pytest.param({"nodeName": "n1"}, {}, (((NODE_NAME, "In", ("n1",)),),), None, id="a node by name"),
        pytest.param(affinity((HOSTNAME, "In", ["n1"])), {HOSTNAME: "n1"}, (), None, id="one node that must be"),
        pytest.param(affinity(("zone", "In", ["a"])), {"zone": "a"}, (), None, id="one value of any label"),
        pytest.param(
            affinity((HOSTNAME, "In", ["n1", "n2"])), {}, (((HOSTNAME, "In", ("n1", "n2")),),), None, id="several nodes"
        ),
        pytest.param(
            affinity(("zone", "NotIn", ["a"]), ("disk", "Exists", []), ("cpus", "Gt", ["7"])),
            {},
            ((("zone", "NotIn", ("a",)), ("disk", "Exists", ()), ("cpus", "Gt", ("7",))),),
            None,
            id="every operator",
        ),
        pytest.param(
            {"nodeSelector": {"zone": "b"}, **affinity(("zone", "In", ["a"]))},
            {"zone": "b"},
            ((("zone", "In", ("a",)),),),
            None,
            id="two demands that contradict each other both stand",
        ),
        pytest.param(affinity((HOSTNAME, "In", ["n1"]), kind="preferred"), {}, (), "n1", id="one node that is liked"),
        pytest.param({"nodeSelector": {"sterna.dev/accelerator": "a100"}}, {}, (), None, id="the pool is no label"),
    ],
)
def test_where_it_may_run(pod, selector, terms, preference):
    job = workload(with_pod(**pod))
    assert dict(job.selector) == selector
    assert job.node_terms == terms
    assert job.node_preference == preference
    assert not notes(with_pod(**pod))[0]


def test_alternatives_of_node_affinity_stay_alternatives():
    pod = affinity(("zone", "In", ["a"]))
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms.append({"matchFields": [{"key": NODE_NAME, "operator": "In", "values": ["n7"]}]})
    job = workload(with_pod(**pod))
    assert job.selector == ()
    assert job.node_terms == ((("zone", "In", ("a",)),), ((NODE_NAME, "In", ("n7",)),))


def test_preferred_node_affinity_is_a_wish_with_its_weight():
    assert workload(with_pod(**affinity(("zone", "In", ["a"]), kind="preferred"))).node_wishes == (
        NodeWish(1, (LabelRequirement("zone", LabelOperator.IN, ("a",)),)),
    )


def test_what_one_role_demands_of_its_node_holds_for_the_whole_job():
    job = tfjob()
    specs = job["spec"]["tfReplicaSpecs"]
    specs["PS"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd", "zone": "a"}
    specs["Worker"]["template"]["spec"].update({"nodeSelector": {"zone": "b"}, **affinity(("cpus", "Gt", ["7"]))})
    read = workload(job)
    assert dict(read.selector) == {"disk": "ssd", "zone": "a"}
    assert read.node_terms == ((("zone", "In", ("b",)), ("cpus", "Gt", ("7",))),)


@pytest.mark.parametrize(
    ("expression", "field", "expected"),
    [
        pytest.param(("zone", "Near", ["a"]), "operator", "NotIn", id="an operator that is none"),
        pytest.param(("zone", "In", []), "values", "at least one value", id="In nothing"),
        pytest.param(("zone", "Exists", ["a"]), "values", "no values", id="a value that must exist"),
        pytest.param(("cpus", "Gt", ["many"]), "values", "one whole number", id="greater than a word"),
        pytest.param(("cpus", "Gt", ["-1"]), "values", "one whole number", id="greater than what no label can be"),
        pytest.param(("cpus", "Lt", ["1", "2"]), "values", "one whole number", id="less than two numbers"),
    ],
)
def test_a_requirement_that_means_nothing_is_refused_with_its_place(expression, field, expected):
    path = f"{POD}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    ((where, (_, wanted)),) = problems(with_pod(**affinity(expression))).items()
    assert where == f"{path}.matchExpressions[0].{field}"
    assert expected in wanted


def test_the_nodes_of_a_tfjob_may_be_preferred():
    assert workload(tfjob(**{"node-preference": "n7"})).node_preference == NodeId("n7")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        pytest.param({"operator": "Exists"}, True, id="everything"),
        pytest.param({"key": "gpu", "operator": "Exists"}, True, id="whatever its value"),
        pytest.param({"key": "gpu", "value": "a100"}, True, id="this value"),
        pytest.param({"key": "gpu"}, False, id="the empty value is not this one"),
        pytest.param({"key": "gpu", "value": "a100", "effect": "NoExecute"}, False, id="another effect"),
    ],
)
def test_tolerations_mean_what_they_do_in_a_cluster(toleration, tolerates):
    (read,) = workload(with_pod(tolerations=[toleration])).tolerations
    assert isinstance(read, Toleration)
    assert read.tolerates(Taint("gpu", "a100", Effect.NO_SCHEDULE)) is tolerates


def classed(**spec: Any) -> Manifest:
    job = pytorchjob(runPolicy={"schedulingPolicy": spec.pop("policy", {})})
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"].update(spec)
    return job


@pytest.mark.parametrize(
    ("job", "priority"),
    [
        pytest.param(annotated(pytorchjob(), priority="7"), 7, id="an annotation"),
        pytest.param(classed(policy={"priorityClass": "50"}), 50, id="a class that is a number"),
        pytest.param(classed(policy={"priorityClass": "high"}), 0, id="a class that only the cluster knows"),
        pytest.param(classed(priority=9), 9, id="the pod's own number"),
        pytest.param(classed(priorityClassName="-5"), -5, id="the pod's class"),
        pytest.param(classed(policy={"priorityClass": "high"}, priority=3), 3, id="the next one that is a number"),
    ],
)
def test_priority(job, priority):
    assert workload(job).priority == priority


@pytest.mark.parametrize(
    ("job", "path", "meant"),
    [
        pytest.param(with_container(comand=["x"]), f"{CONTAINER}.comand", "command", id="comand"),
        pytest.param(with_container(resource={}), f"{CONTAINER}.resource", "resources", id="resource"),
        pytest.param(with_container(envs=[]), f"{CONTAINER}.envs", "env", id="envs"),
        pytest.param(with_container(workingdir="/"), f"{CONTAINER}.workingdir", "workingDir", id="another case"),
        pytest.param(
            with_container(resources={"limit": {"cpu": 1}}), f"{CONTAINER}.resources.limit", "limits", id="limit"
        ),
        pytest.param(
            with_container(resources={"limits": {"nvidia.com/gpus": 1}}),
            f'{CONTAINER}.resources.limits["nvidia.com/gpus"]',
            "nvidia.com/gpu",
            id="gpus",
        ),
        pytest.param(
            with_container(resources={"requests": {"memmory": 1}}),
            f"{CONTAINER}.resources.requests.memmory",
            "memory",
            id="memmory",
        ),
        pytest.param(
            with_container(lifecycle={"prestop": {}}), f"{CONTAINER}.lifecycle.prestop", "preStop", id="prestop"
        ),
        pytest.param(with_pod(nodeSelectors={}), f"{POD}.nodeSelectors", "nodeSelector", id="nodeSelectors"),
        pytest.param(with_pod(toleration=[]), f"{POD}.toleration", "tolerations", id="toleration"),
        pytest.param(
            with_pod(terminationGracePeriod=3),
            f"{POD}.terminationGracePeriod",
            "terminationGracePeriodSeconds",
            id="grace",
        ),
    ],
)
def test_a_typing_error_in_a_field_that_matters_is_an_error(job, path, meant):
    found = problems(job)
    assert list(found) == [path]
    assert f'did you mean "{meant}"?' in found[path][1]


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(with_container(livenessProbe={}, stdin=True, tty=True, securityContext={}), id="of a container"),
        pytest.param(with_pod(hostNetwork=True, dnsPolicy="Default", resources={}, schedulerName="x"), id="of a pod"),
        pytest.param(with_pod(aFieldOfTheFuture={"x": [1]}), id="one that nobody knows yet"),
        pytest.param(
            with_container(resources={"limits": {"rdma/hca": 1, "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}}),
            id="resources of others",
        ),
        pytest.param(with_container(env=None, args=None, resources=None), id="keys without a value"),
        pytest.param({**pytorchjob(), "status": {"anything": 1}}, id="what the cluster wrote itself"),
    ],
)
def test_everything_else_that_kubernetes_knows_may_stand_there(job):
    assert not problems(job)


@pytest.mark.parametrize(
    ("job", "path", "expected"),
    [
        pytest.param(
            with_container(env=[{"name": "N", "value": 3}]),
            f"{CONTAINER}.env[0].value",
            'write "3"',
            id="a bare number",
        ),
        pytest.param(
            with_container(env=[{"name": "N", "value": True}]),
            f"{CONTAINER}.env[0].value",
            'write "true"',
            id="a bare true",
        ),
        pytest.param(with_container(env=[{"value": "3"}]), f"{CONTAINER}.env[0].name", "a name", id="no name"),
        pytest.param(with_container(env=[{"name": "A=B"}]), f"{CONTAINER}.env[0].name", "a name", id="no such name"),
        pytest.param(
            with_container(
                env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
            ),
            f"{CONTAINER}.env[0].value",
            "either",
            id="two values",
        ),
        pytest.param(
            with_container(env=[{"name": "A", "valueFrom": {}}]),
            f"{CONTAINER}.env[0].valueFrom",
            "fieldRef",
            id="a value from nowhere",
        ),
        pytest.param(
            with_container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.mood"}}}]),
            f"{CONTAINER}.env[0].valueFrom.fieldRef.fieldPath",
            "metadata.name",
            id="a field that no pod has",
        ),
        pytest.param(with_container(command="python x"), f"{CONTAINER}.command", "a list", id="a command in one piece"),
        pytest.param(with_container(command=["a\0b"]), f"{CONTAINER}.command[0]", "U+0000", id="a zero byte"),
        pytest.param(
            with_container(resources={"limits": {"cpu": "-1"}}),
            f"{CONTAINER}.resources.limits.cpu",
            "0 or more",
            id="-1",
        ),
        pytest.param(
            with_container(resources={"limits": {"nvidia.com/gpu": "lots"}}),
            f'{CONTAINER}.resources.limits["nvidia.com/gpu"]',
            "a quantity",
            id="no number",
        ),
        pytest.param(
            with_container(resources={"limits": {"memory": "9Ei"}}),
            f"{CONTAINER}.resources.limits.memory",
            "no machine",
            id="more than there is",
        ),
        pytest.param(
            with_container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
            f"{CONTAINER}.resources.requests.cpu",
            "at most the limit (1)",
            id="more than its limit",
        ),
        pytest.param(
            with_container(ports=[{"name": "pytorchjob-port", "containerPort": 70000}]),
            f"{CONTAINER}.ports[0].containerPort",
            "at most 65535",
            id="a port beyond ports",
        ),
        pytest.param(
            with_pod(terminationGracePeriodSeconds="30"),
            f"{POD}.terminationGracePeriodSeconds",
            "write 30 without quotes",
            id="a number in quotes",
        ),
        pytest.param(with_pod(tolerations=[{}]), f"{POD}.tolerations[0].operator", "Exists", id="tolerates what?"),
        pytest.param(
            pytorchjob({"Worker": {**replica("pytorch"), "restartPolicy": "Sometimes"}}),
            "spec.pytorchReplicaSpecs.Worker.restartPolicy",
            "'ExitCode'",
            id="a policy nobody knows",
        ),
        pytest.param(
            annotated(pytorchjob(), priority="soon"),
            'metadata.annotations["sterna.dev/priority"]',
            "a whole number",
            id="a priority that is none",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_would_do(job, path, expected):
    found = problems(job)
    assert list(found) == [path]
    assert expected in found[path][1]
