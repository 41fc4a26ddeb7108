"""Rules between pods as templates have them: what is read, what the job completes, and what is refused by name."""

import pytest

from sterna.model.jobs import Role
from sterna.model.neighbours import EvenRule, HostPort, PodSelector, PodTerm, PodTraits
from sterna.model.node_affinity import LabelOperator, LabelRequirement
from sterna.wire.problems import InvalidDocument
from tests.wire.manifests.builders import with_container, with_pod, workload

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def traits_of_worker(spec, labels=None):
    manifest = with_pod(**spec)
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] = {"labels": labels or {}}
    return workload(manifest).job_spec(submitted_s=0.0).traits_of(Role.WORKER)


def test_what_pods_are_to_others_has_the_labels_that_every_pod_of_the_job_gets():
    assert traits_of_worker({}, {"app": "a"}) == PodTraits(
        "default",
        (("app", "a"), ("training.kubeflow.org/job-name", "job1"), ("training.kubeflow.org/replica-type", "worker")),
    )


def test_required_affinity_to_pods_is_read_and_preferred_is_not():
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    term = {"topologyKey": "zone", "labelSelector": selector, "namespaces": ["x"], "matchLabelKeys": ["app", "none"]}
    wish = {"weight": 3, "podAffinityTerm": {"topologyKey": "zone"}}
    found = traits_of_worker(
        {
            "affinity": {
                "podAntiAffinity": {REQUIRED: [term], "preferredDuringSchedulingIgnoredDuringExecution": [wish]},
                "podAffinity": {REQUIRED: [{"topologyKey": "rack", "namespaceSelector": {}}]},
            }
        },
        {"app": "b"},
    )
    requirements = (
        LabelRequirement("app", LabelOperator.IN, ("a",)),
        LabelRequirement("tier", LabelOperator.EXISTS),
        LabelRequirement("app", LabelOperator.IN, ("b",)),
    )
    assert found.apart == (PodTerm("zone", PodSelector(requirements, ("x",))),)
    assert found.together == (PodTerm("rack", PodSelector(None, (), ())),)


def test_a_spread_that_must_hold_is_read_and_one_that_should_is_not():
    spread = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    more = {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    wish = {**spread, "whenUnsatisfiable": "ScheduleAnyway"}
    found = traits_of_worker({"topologySpreadConstraints": [{**spread, **more}, wish]})
    assert found.even == (EvenRule("zone", PodSelector((), ("default",)), 2, 3, False, True),)


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        pytest.param({}, (), id="a port of the container alone is no port of the node"),
        pytest.param({"hostPort": 80}, (HostPort(80),), id="a host port"),
        pytest.param(
            {"hostPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1"},
            (HostPort(80, "UDP", "10.0.0.1"),),
            id="of one protocol and address",
        ),
    ],
)
def test_host_ports(spec, ports):
    manifest = with_container(ports=[{"containerPort": 8080, **spec}])
    assert workload(manifest).job_spec(submitted_s=0.0).traits_of(Role.WORKER).ports == ports


def test_on_the_network_of_the_node_every_port_is_one_of_the_node_and_so_is_the_job_s_own():
    manifest = with_container(ports=[{"containerPort": 8080}])
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["hostNetwork"] = True
    found = workload(manifest).job_spec(submitted_s=0.0).traits_of(Role.WORKER)
    assert found.ports == (HostPort(8080), HostPort(23456))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param(
            {"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": {}}]}}}, "topologyKey", id="no topology key"
        ),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {
                        REQUIRED: [{"topologyKey": "z", "namespaceSelector": {"matchLabels": {"team": "a"}}}]
                    }
                }
            },
            "namespaceSelector",
            id="namespaces by a label that only the cluster knows",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "Perhaps"}]},
            "whenUnsatisfiable",
            id="no such word",
        ),
        pytest.param({"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 0}]}, "maxSkew", id="no skew"),
    ],
)
def test_rules_between_pods_that_cannot_be_obeyed_are_refused_by_name(spec, field):
    with pytest.raises(InvalidDocument) as refused:
        workload(with_pod(**spec))
    assert field in str(refused.value)
