"""What admission makes of a template is what is counted: no node gets more than it has, and no pod must go for it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
import yaml

from sterna.engines.kubernetes.apiserver.objects import Pod
from sterna.engines.kubernetes.bodies.trial_body import GENERATE_NAME
from sterna.engines.kubernetes.world.pod_amounts import request_of_pod
from tests.cluster.chaos import ChaosProxy
from tests.cluster.faults import Answer, Delay
from tests.cluster.requests import Body
from tests.kubernetes.jobs import tfjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import USER

CPUS = 8  # of a node


def gang(name: str, *, workers: int = 2, **pod: Any) -> str:
    """So many workers, or none, that ask for one CPU each; `pod` is what else their template says."""
    job = yaml.safe_load(tfjob(name, workers=(workers, workers, workers), ps=0, gpus=0, cpu="1"))
    spec = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    spec.update(pod)
    return yaml.safe_dump(job)


def started(lab: Lab, *, nodes: int = 2, **settings: Any) -> None:
    lab.nodes.add(nodes, cpu=str(CPUS))
    lab.start(**settings)


def limit_range(lab: Lab, cpu: str) -> None:
    body = {
        "metadata": {"name": "defaults"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": cpu}, "defaultRequest": {"cpu": cpu}}]},
    }
    lab.api.create(f"/api/v1/namespaces/{lab.namespace}/limitranges", body)


def unasking(name: str, *, workers: int = 2) -> str:
    """The same, but its template asks for no CPU."""
    job = yaml.safe_load(gang(name, workers=workers))
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] = {}
    return yaml.safe_dump(job)


def taken(lab: Lab) -> Counter[str]:
    """CPUs that pods ask for, by node, as kube-scheduler counts them."""
    used: Counter[str] = Counter()
    for pod in lab.all_pods():
        used[pod["spec"]["nodeName"]] += request_of_pod(msgspec.convert(pod, Pod)).cpu_milli // 1000
    return used


def counted(lab: Lab, name: str) -> list[Body]:
    found: list[Body] = lab.job("TFJob", name)["status"]["scheduling"].get("requests", [])
    return found


def why(lab: Lab, name: str) -> Body:
    found: Body = lab.job("TFJob", name).get("status", {}).get("scheduling", {})
    return found


@contextmanager
def runtime_class(lab: Lab, cpu: str) -> Iterator[str]:
    """It belongs to no namespace."""
    name, path = f"sandboxed-{lab.namespace}", "/apis/node.k8s.io/v1/runtimeclasses"
    lab.api.create(path, {"metadata": {"name": name}, "handler": "x", "overhead": {"podFixed": {"cpu": cpu}}})
    try:
        yield name
    finally:
        lab.api.delete(f"{path}/{name}")


def test_a_default_of_the_namespace_is_counted_before_anything_starts(lab: Lab):
    limit_range(lab, "5")
    started(lab)
    lab.submit(unasking("gang"))
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    assert sorted(taken(lab).values()) == [5, 5], "10 CPUs are too much for one node of 8"
    assert counted(lab, "gang") == [{"counted": {"cpu": 5}}]


def test_a_default_that_no_node_has_keeps_the_job_waiting_and_its_reason_says_so(lab: Lab):
    limit_range(lab, "24")
    started(lab)
    lab.submit(unasking("gang") + "---\n" + gang("small"))
    lab.until_pods("small", "small-worker-0", "small-worker-1")
    lab.until(lambda: why(lab, "gang").get("reason") == "NeverFits", "the job is told")
    assert "24" in why(lab, "gang")["message"]
    lab.until_rest()
    assert not lab.all_pods("gang")


def test_overhead_of_a_runtime_class_is_counted(lab: Lab):
    with runtime_class(lab, "4") as name:
        started(lab)
        lab.submit(gang("gang", runtimeClassName=name))
        lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
        assert sorted(taken(lab).values()) == [5, 5]


def test_init_containers_of_a_job_are_counted(lab: Lab):
    first = {"name": "fetch", "image": "localhost/none:1", "resources": {"requests": {"cpu": "5"}}}
    started(lab)
    lab.submit(gang("gang", initContainers=[first]))
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    assert sorted(taken(lab).values()) == [5, 5]
    assert not counted(lab, "gang"), "the template says so itself"


def test_a_new_default_moves_no_pod_that_runs_and_is_counted_for_those_that_come(lab: Lab):
    started(lab)
    lab.submit(unasking("first"))
    before = lab.until_pods("first", "first-worker-0", "first-worker-1")
    limit_range(lab, "5")
    lab.submit(unasking("second"))
    lab.until_pods("second", "second-worker-0", "second-worker-1")
    lab.operators[0].restart()
    lab.edit("TFJob", "first", {"metadata": {"annotations": {"touched": "yes"}}})
    lab.until_rest()
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.pods("first")}
    assert after == {name: pod["metadata"]["uid"] for name, pod in before.items()}
    assert sorted(taken(lab).values()) == [5, 5]
    assert not counted(lab, "first"), "its pods take what they take"


def test_equal_templates_are_asked_about_once_and_another_one_once_more(lab: Lab, chaos: ChaosProxy):
    lab.nodes.add(2, cpu=str(CPUS))
    lab.start(kubeconfig=chaos.kubeconfig(USER))
    for number in range(4):
        lab.submit(gang(f"gang-{number}", workers=1))
    for number in range(4):
        lab.until_pods(f"gang-{number}", f"gang-{number}-worker-0")
    lab.submit(gang("other", workers=1, priorityClassName="", terminationGracePeriodSeconds=1))
    lab.until_pods("other", "other-worker-0")
    assert asked(chaos) == 2
    assert not [pod for pod in lab.all_pods() if pod["metadata"]["name"].startswith(GENERATE_NAME)]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Answer(403), id="a quota or a policy says no"),
        pytest.param(Answer(400), id="a webhook knows no dry run"),
        pytest.param(Answer(500), id="the server fails"),
        pytest.param(Delay(3600), id="the server does not answer"),
    ],
)
def test_without_an_answer_the_template_is_counted_as_it_is_written(lab: Lab, chaos: ChaosProxy, fault: Any):
    rule = chaos.inject(fault, method="POST", path="dryRun=All", times=None)
    lab.nodes.add(2, cpu=str(CPUS))
    lab.start(kubeconfig=chaos.kubeconfig(USER))
    lab.submit(gang("gang"))
    lab.until(lambda: rule.hits, "the server is asked")
    lab.until_pods("gang", "gang-worker-0", "gang-worker-1")
    assert not counted(lab, "gang")


def asked(chaos: ChaosProxy) -> int:
    return sum("dryRun=All" in seen.path for seen in chaos.requests)
