"""Quotas, policies and webhooks that do not let pods in: the job says so, gives its room back, and is tried again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sterna.lifecycle import admission_denials
from tests.cluster.requests import Body
from tests.deploy.rbac import EVERYTHING, roles_of
from tests.deploy.rendering import objects, render
from tests.kubernetes.jobs import elasticjob, pytorchjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.webhook import DenyingWebhook

HASTE: dict[str, Any] = {"retry_s": 0.2, "retry_max_s": 0.5, "admission_patience_s": 1.0}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that gave its seats back asks again soon."""
    monkeypatch.setattr(admission_denials, "FIRST_S", 2.0)


def quota(lab: Lab, **hard: str) -> None:
    """Once the API server counts by it."""
    path = f"/api/v1/namespaces/{lab.namespace}/resourcequotas"
    lab.api.create(path, {"metadata": {"name": "limits"}, "spec": {"hard": hard}})
    lab.until(lambda: lab.api.get(f"{path}/limits").get("status", {}).get("hard") == hard, "the quota is counted")


def raise_quota(lab: Lab, **hard: str) -> None:
    lab.api.patch(f"/api/v1/namespaces/{lab.namespace}/resourcequotas/limits", {"spec": {"hard": hard}})


def scheduling(lab: Lab, name: str, kind: str = "ElasticJob") -> Body:
    found: Body = lab.job(kind, name).get("status", {}).get("scheduling", {})
    return found


def until_denied(lab: Lab, name: str) -> str:
    """Until the job waits and holds nothing. What it says."""

    def waits() -> bool:
        said = scheduling(lab, name)
        return (said.get("state"), said.get("reason")) == ("Waiting", "AdmissionDenied")

    lab.until(waits, f"{name} waits and says why")
    lab.until_pods(name)
    running = lab.condition("ElasticJob", name, "Running")
    assert running is None or running["status"] == "False"
    lab.until(lambda: "AdmissionDenied" in lab.reasons(name), "an event tells it")
    return str(scheduling(lab, name)["message"])


@pytest.mark.usefixtures("short_pauses")
def test_a_gang_that_a_quota_does_not_let_in_leaves_its_gpus_to_another_and_runs_once_the_quota_is_raised(lab: Lab):
    quota(lab, pods="1")
    lab.nodes.add(1, gpus=3)
    lab.start(**HASTE)
    lab.submit(elasticjob("gang", workers=(3, 3)))
    lab.until(lambda: scheduling(lab, "gang").get("reason") == "AdmissionDenied", "it says what is wrong")
    lab.submit(elasticjob("wide", gpus=3))
    assert "exceeded quota: limits" in until_denied(lab, "gang")
    lab.until_pods("wide", "wide-worker-0")
    raise_quota(lab, pods="4")
    lab.nodes.exit("wide-worker-0", 0)
    lab.until_true("ElasticJob", "wide", "Succeeded")
    lab.until_pods("gang", *(f"gang-worker-{number}" for number in range(3)))
    lab.until_true("ElasticJob", "gang", "Running")
    lab.until(lambda: "denial" not in scheduling(lab, "gang"), "the past is forgotten")


def one_gpu_each(lab: Lab) -> None:
    limits = {"limits": [{"type": "Container", "max": {"nvidia.com/gpu": "1"}}]}
    lab.api.create(f"/api/v1/namespaces/{lab.namespace}/limitranges", {"metadata": {"name": "most"}, "spec": limits})


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(
    "refuse",
    [
        pytest.param(one_gpu_each, id="by a limit range"),
        pytest.param(lambda lab: quota(lab, pods="0"), id="by a quota"),
    ],
)
def test_a_job_that_would_still_be_refused_is_not_placed_again_to_find_out(lab: Lab, refuse: Callable[[Lab], None]):
    refuse(lab)
    lab.nodes.add(1, gpus=2)
    lab.start(**HASTE)
    lab.submit(elasticjob("greedy", gpus=2))
    until_denied(lab, "greedy")
    lab.until(lambda: scheduling(lab, "greedy")["denial"]["times"] == 3, "it was asked about twice more")
    assert [event["count"] for event in lab.events("greedy") if event["reason"] == "Placed"] == [1]


def test_a_job_whose_template_a_limit_range_refuses_waits_until_its_owner_mends_it(lab: Lab):
    one_gpu_each(lab)
    lab.nodes.add(1, gpus=2)
    lab.start(**HASTE)
    lab.submit(elasticjob("greedy", gpus=2))
    assert "maximum nvidia.com/gpu usage per Container is 1" in until_denied(lab, "greedy")
    lab.edit("ElasticJob", "greedy", {"spec": {"resources": {"limits": {"nvidia.com/gpu": 1}}}})
    lab.until_pods("greedy", "greedy-worker-0")


@pytest.mark.usefixtures("short_pauses")
def test_what_a_webhook_says_is_shown_in_one_line_and_the_job_runs_once_it_lets_pods_in(lab: Lab):
    lab.nodes.add(1, gpus=1)
    with DenyingWebhook(lab.plane, lab.namespace, "not on\n\x1b[31mFridays" + "!" * 2000) as webhook:
        lab.start(**HASTE)
        lab.submit(elasticjob("late"))
        said = until_denied(lab, "late")
        assert "not on [31mFridays!" in said
        assert len(said) < 600
        webhook.words = ""
        lab.until_pods("late", "late-worker-0")


def test_a_job_whose_services_are_refused_waits_as_well(lab: Lab):
    quota(lab, services="0")
    lab.nodes.add(1, gpus=1)
    lab.start(**HASTE)
    lab.submit(elasticjob("unseen"))
    assert "exceeded quota: limits" in until_denied(lab, "unseen")


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("PyTorchJob", pytorchjob("some", workers=(1, 3), replicas=3), id="members come and go"),
        pytest.param("ElasticJob", elasticjob("some", workers=(1, 3)), id="it starts anew with fewer"),
    ],
)
def test_an_elastic_job_runs_with_as_many_workers_as_are_let_in_and_grows_once_more_are(lab: Lab, kind: str, text: str):
    quota(lab, pods="2")
    lab.nodes.add(1, gpus=3)
    lab.start(**HASTE)
    lab.submit(text)
    lab.until(lambda: scheduling(lab, "some", kind).get("denial", {}).get("size") == 2, "it keeps what was let in")
    lab.until(lambda: len(lab.pods("some")) == 2, "two workers are there")
    lab.until_true(kind, "some", "Running")
    lab.until(lambda: "AdmissionDenied" in lab.reasons("some"), "an event tells it")
    raise_quota(lab, pods="5")
    lab.until(lambda: len(lab.pods("some")) == 3, "it grows")


@pytest.fixture
def half_granted(lab: Lab) -> Iterator[tuple[str, list[Body]]]:
    """A role, and what it should have: it lacks the right to create pods, and is that of the default account."""
    rules = [rule for role in roles_of(objects(render(EVERYTHING))) for rule in role["rules"]]
    fewer = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create"]} if "pods" in rule["resources"] else rule
        for rule in rules
    ]
    name, account = {"name": lab.namespace}, {"kind": "ServiceAccount", "name": "default", "namespace": lab.namespace}
    lab.api.create(f"{_RBAC}/clusterroles", {"metadata": name, "rules": fewer})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name}
    lab.api.create(f"{_RBAC}/clusterrolebindings", {"metadata": name, "roleRef": role, "subjects": [account]})
    yield f"{_RBAC}/clusterroles/{lab.namespace}", rules
    for plural in ("clusterrolebindings", "clusterroles"):
        lab.api.delete(f"{_RBAC}/{plural}/{lab.namespace}")


def test_an_operator_that_may_not_create_pods_says_that_it_is_the_one_in_trouble(
    lab: Lab, half_granted: tuple[str, list[Body]]
):
    role, rules = half_granted
    lab.nodes.add(1, gpus=1)
    lab.start(**HASTE, kubeconfig=lab.plane.service_account_kubeconfig(lab.namespace, "default"))
    lab.submit(elasticjob("fine"))
    lab.until(lambda: scheduling(lab, "fine").get("reason") == "OperatorProblem", "it says whose trouble it is")
    said = scheduling(lab, "fine")
    assert "cannot create resource" in said["message"]
    assert said["seats"], "the job did nothing wrong, and keeps its place"
    lab.api.patch(role, {"rules": rules})
    lab.until_pods("fine", "fine-worker-0")
    lab.until(lambda: scheduling(lab, "fine").get("reason") != "OperatorProblem", "all is well")
