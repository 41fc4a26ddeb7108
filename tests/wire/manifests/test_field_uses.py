"""Every field of a pod has a line that says what becomes of it, and the reader does as its line says."""

from typing import Any

import pytest

from sterna.interfaces.reference.manifest_fields import KIND_SHAPES, POD_TABLES
from sterna.wire.crds.words import words_about
from sterna.wire.manifests import pods
from sterna.wire.manifests.field_uses import FIELD_USES, Treatment
from tests.wire.manifests.builders import Manifest, elasticjob, mpijob, notes, problems, tfjob, with_container, with_pod

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
POD = "spec.pytorchReplicaSpecs.Worker.template.spec"

# As Kubernetes 1.34 has them, and of 1.35 the one that it adds to a pod.
KUBERNETES = {
    "PodSpec": """activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy
        enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname
        hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy priority
        priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName schedulerName
        schedulingGates securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace
        subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef""",
    "Affinity": "nodeAffinity podAffinity podAntiAffinity",
    "NodeAffinity": """preferredDuringSchedulingIgnoredDuringExecution
        requiredDuringSchedulingIgnoredDuringExecution""",
    "PodAffinity": """preferredDuringSchedulingIgnoredDuringExecution
        requiredDuringSchedulingIgnoredDuringExecution""",
    "SpreadConstraint": """labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy
        topologyKey whenUnsatisfiable""",
    "PodToleration": "effect key operator tolerationSeconds value",
    "Container": """args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe
        resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce
        terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir""",
    "ContainerResources": "claims limits requests",
    "ContainerPort": "containerPort hostIP hostPort name protocol",
    "Volume": """awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir ephemeral fc
        flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi name nfs persistentVolumeClaim
        photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret storageos vsphereVolume""",
    "PodMetadata": """annotations creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generateName
        generation labels managedFields name namespace ownerReferences resourceVersion selfLink uid""",
}


@pytest.mark.parametrize("shape", POD_TABLES)
def test_what_becomes_of_each_field_that_kubernetes_has_is_said_and_nothing_else_is(shape):
    assert sorted(FIELD_USES[shape]) == sorted(KUBERNETES[shape].split())


@pytest.mark.parametrize("shape", [name for name in POD_TABLES if hasattr(pods, name)])
def test_a_field_that_the_reader_uses_is_not_said_to_go_unheeded(shape):
    """Of affinity to other pods it checks what is preferred, and does not use it."""
    unheeded = [key for key in getattr(pods, shape).keys if FIELD_USES[shape][key].treatment in SAID]
    assert unheeded == [] or shape == "PodAffinity"


SAID = (Treatment.IGNORED, Treatment.REFUSED)


@pytest.mark.parametrize("shape", KIND_SHAPES.values(), ids=lambda shape: shape.__name__)
def test_every_field_of_the_kinds_has_words(shape):
    assert [key for key in shape.keys if not words_about(shape, key)] == []


def test_every_line_that_is_said_has_words():
    lines = {(shape, key): use for shape, uses in FIELD_USES.items() for key, use in uses.items()}
    assert [where for where, use in lines.items() if (use.said or use.treatment in SAID) and not use.words] == []


def mpi_v2(**spec: Any) -> Manifest:
    return mpijob(version="v2beta1", **spec)


@pytest.mark.parametrize(
    ("job", "path", "words"),
    [
        pytest.param(with_pod(schedulerName="volcano"), f"{POD}.schedulerName", "chooses the nodes", id="a scheduler"),
        pytest.param(with_pod(preemptionPolicy="Never"), f"{POD}.preemptionPolicy", "gives way", id="no preemption"),
        pytest.param(with_pod(priorityClassName="gold"), f"{POD}.priorityClassName", "gold", id="a class by name"),
        pytest.param(
            with_pod(schedulingGates=[{"name": "example.com/quota"}]),
            f"{POD}.schedulingGates",
            "waits until",
            id="a gate, which is obeyed, and said because nothing happens until it is gone",
        ),
        pytest.param(
            with_pod(
                affinity={"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "k"}}]}}
            ),
            f"{POD}.affinity.podAntiAffinity.{PREFERRED}",
            "not honoured",
            id="a wish about other pods",
        ),
        pytest.param(
            with_pod(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}]),
            f"{POD}.topologySpreadConstraints[0].whenUnsatisfiable",
            "not honoured",
            id="a wish to spread",
        ),
        pytest.param(
            with_pod(volumes=[{"name": "a"}, {"name": "b", "rbd": {"image": "x"}}]),
            f"{POD}.volumes[1].rbd",
            "not decided",
            id="a disk in the pod itself",
        ),
        pytest.param(
            with_container(resources={"limits": {"rdma/hca": 1}, "requests": {"rdma/hca": 1}}),
            f'{POD}.containers[0].resources.limits["rdma/hca"]',
            "not counted",
            id="a resource that is not counted, once",
        ),
        pytest.param(
            tfjob(runPolicy={"schedulingPolicy": {"queue": "low"}}),
            "spec.runPolicy.schedulingPolicy.queue",
            "order",
            id="a field of the kind itself",
        ),
        pytest.param(mpi_v2(sshAuthMountPath="/home"), "spec.sshAuthMountPath", "SSH", id="one of two versions"),
        pytest.param(
            elasticjob(command=None, template={"spec": {"schedulerName": "x", "containers": [{"image": "i"}]}}),
            "spec.template.spec.schedulerName",
            "chooses the nodes",
            id="in the template of our own kind",
        ),
    ],
)
def test_what_is_not_honoured_is_said_by_its_path(job, path, words):
    (warning,) = notes(job)[0]
    assert warning.startswith(f"document 1: {path}: ")
    assert words in warning


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"topologySpreadConstraints": [SPREAD]}, id="a demand to spread"),
        pytest.param({"schedulerName": "default-scheduler"}, id="the scheduler that every cluster has"),
        pytest.param({"schedulingGates": [], "resourceClaims": None, "preemptionPolicy": ""}, id="nothing was written"),
        pytest.param({"securityContext": {"runAsUser": 1}, "hostIPC": True, "dnsPolicy": "Default"}, id="passed on"),
        pytest.param({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {}}]}, id="other volumes"),
    ],
)
def test_nothing_is_said_of_what_is_honoured(spec):
    assert notes(with_pod(**spec))[0] == ()


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims", id="devices by claim"),
        pytest.param(
            {"initContainers": [{"name": "a", "resources": {"claims": [{"name": "gpu"}]}}]},
            "initContainers[0].resources.claims",
            id="a container that uses them, of those that are not read",
        ),
        pytest.param(
            {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]},
            "volumes[0].ephemeral",
            id="a claim that is made with the pod",
        ),
        pytest.param({"ephemeralContainers": [{"name": "debug"}]}, "ephemeralContainers", id="no new pod has them"),
    ],
)
def test_a_demand_that_cannot_be_decided_is_refused(spec, path):
    assert list(problems(with_pod(**spec))) == [f"{POD}.{path}"]
