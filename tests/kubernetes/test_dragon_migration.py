"""DRAGON's row 41 on a real API server: what is the same about a worker that was moved, and what is not."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.requests import Body
from tests.kubernetes.jobs import tfjob
from tests.kubernetes.lab import Lab

NAMES = ("job1-ps-0", "job1-worker-0", "job1-worker-1", "job1-worker-2")


def started(lab: Lab) -> tuple[dict[str, Body], str, str]:
    """A job of one server and three workers on one node, and another node that has room. Pods by name."""
    lab.nodes.add(1, gpus=3, cpu="64")
    lab.start()
    lab.submit(tfjob("job1", workers=(3, 3, 3)))
    pods = lab.until_pods("job1", *NAMES)
    (home,) = {str(pod["spec"]["nodeName"]) for pod in pods.values()}
    lab.nodes.add(1, gpus=3, cpu="64")
    other = next(name for name in lab.nodes.names if name != home)
    return pods, home, other


def move(lab: Lab, worker: int, to: str, *, name: str = "away") -> None:
    ask(lab, worker, to, name=name)
    lab.until(lambda: lab.job("Migration", name).get("status", {}).get("phase") == "Succeeded", f"{name} is over")


def ask(lab: Lab, worker: int, to: str, *, name: str = "away") -> None:
    body = {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "Migration",
        "metadata": {"name": name},
        "spec": {"job": "job1", "worker": worker, "to": to},
    }
    lab.api.create(f"/apis/sterna.dev/v1alpha1/namespaces/{lab.namespace}/migrations", body)


def of(pods: dict[str, Body], read: Callable[[Body], Any]) -> dict[str, Any]:
    return {name: read(pod) for name, pod in pods.items()}


def uid(pod: Body) -> str:
    return str(pod["metadata"]["uid"])


def variable(name: str) -> Callable[[Body], str | None]:
    def read(pod: Body) -> str | None:
        env = pod["spec"]["containers"][0]["env"]
        return next((found.get("value") for found in env if found["name"] == name), None)

    return read


def label(name: str) -> Callable[[Body], str | None]:
    return lambda pod: pod["metadata"]["labels"].get(name)


@pytest.mark.parametrize("worker", [1, 0], ids=["any worker", "worker 0, whose end is the job's"])
def test_dragon_41_a_moved_worker_has_its_index_and_tf_config_and_a_new_slot(lab: Lab, worker: int):
    before, home, other = started(lab)
    moved = f"job1-worker-{worker}"
    move(lab, worker, other)
    after = lab.until_pods("job1", *NAMES)
    assert of(after, label("tf-replica-index")) == of(before, label("tf-replica-index"))
    assert of(after, label("tf-job-role")) == of(before, label("tf-job-role"))
    assert of(after, variable("TF_CONFIG")) == of(before, variable("TF_CONFIG"))
    assert after[moved]["spec"]["nodeName"] == other
    assert uid(after[moved]) != uid(before[moved])
    slot = label("tf-job-workerid")
    assert slot(after[moved]) not in of(before, slot).values(), "a new slot, that nobody had"
    others = {name: pod for name, pod in before.items() if name != moved}
    assert of({name: after[name] for name in others}, uid) == of(others, uid), "nobody else was touched"
    assert {pod["spec"]["nodeName"] for name, pod in after.items() if name != moved} == {home}


def test_dragon_41_the_service_follows_the_worker(lab: Lab):
    """It selects by index, so that the name leads to whichever pod has it; the service itself is never written."""
    before, _, other = started(lab)
    path = f"/api/v1/namespaces/{lab.namespace}/services"
    known = {found["metadata"]["name"]: found for found in lab.api.items(path)}
    move(lab, 1, other)
    after = lab.until_pods("job1", *NAMES)
    services = {found["metadata"]["name"]: found for found in lab.api.items(path)}
    assert of(services, uid) == of(known, uid)
    selector = services["job1-worker-1"]["spec"]["selector"]
    chosen = [name for name, pod in after.items() if selector.items() <= pod["metadata"]["labels"].items()]
    assert chosen == ["job1-worker-1"]
    assert uid(after["job1-worker-1"]) != uid(before["job1-worker-1"])


def test_dragon_41_the_old_pod_goes_before_the_new_one_comes_and_has_its_own_grace(lab: Lab):
    """Names are the same for whoever has the index, so there is never a second pod of one: what can be chosen is how
    long the old one has, by its template, and training goes on without it meanwhile.
    """
    lab.nodes.add(1, gpus=3, cpu="64")
    lab.start()
    lab.submit(tfjob("job1", workers=(3, 3, 3), grace_s=7))
    before = lab.until_pods("job1", *NAMES)
    lab.nodes.add(1, gpus=3, cpu="64")
    other = next(name for name in lab.nodes.names if name != before["job1-worker-1"]["spec"]["nodeName"])
    lab.nodes.habits.on_stop = lambda _: None  # it takes as long as it may
    ask(lab, 1, other)

    def going() -> Body | None:
        return next((pod for pod in lab.all_pods("job1") if "deletionTimestamp" in pod["metadata"]), None)

    pod = lab.until(going, "the old pod is told to go")
    assert (uid(pod), pod["metadata"]["deletionGracePeriodSeconds"]) == (uid(before["job1-worker-1"]), 7)
    lab.until(lambda: lab.job("Migration", "away").get("status", {}).get("phase") == "Moving", "it is being moved")
    running = {name: uid(pod) for name, pod in before.items() if name != "job1-worker-1"}
    assert {pod["metadata"]["name"]: uid(pod) for pod in lab.pods("job1")} == running, "the others train on alone"
    lab.nodes.let_go("job1-worker-1")
    lab.until_pods("job1", *NAMES)
    lab.until(lambda: lab.job("Migration", "away")["status"]["phase"] == "Succeeded", "the move is over")
    assert lab.job("Migration", "away")["status"]["downtimeSeconds"] == 0, "those that stay never noticed"


def test_dragon_41_moves_come_and_go_and_a_worker_stays_who_it_is(lab: Lab):
    before, home, other = started(lab)
    for number, to in enumerate((other, home, other)):
        move(lab, 2, to, name=f"move-{number}")
        after = lab.until_pods("job1", *NAMES)
        assert after["job1-worker-2"]["spec"]["nodeName"] == to
        assert variable("TF_CONFIG")(after["job1-worker-2"]) == variable("TF_CONFIG")(before["job1-worker-2"])
    assert lab.job("TFJob", "job1")["status"]["scheduling"]["migrations"] == 3
