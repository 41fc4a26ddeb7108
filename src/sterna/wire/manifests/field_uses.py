"""What becomes of every field of a pod, one line each: the reader goes by it, and docs/manifests.md shows it.

A field that a shape does not read itself must stand here (`fields_beside`), or a near miss of another field could not
be told from it. What is not honoured is said when a job is submitted, by its path and with the words of its line; what
is refused is a problem of the manifest. The fields are those of Kubernetes 1.34.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class Treatment(StrEnum):
    DECIDED = "decided by Sterna"
    PREFERRED = "a wish"
    PASSED = "passed on"
    IGNORED = "not honoured"
    REFUSED = "refused"


class FieldUse(NamedTuple):
    treatment: Treatment
    words: str = ""  # of what is not honoured: what is said when a job is submitted
    said_of: Callable[[Any], bool] = bool  # of what is said: which values are worth it
    inside: str = ""  # the table of what is in it, where no shape reads that. Empty: nothing more is looked at
    said: bool = False  # when a job is submitted, although it is decided by


def _decided(words: str, *, inside: str = "") -> FieldUse:
    return FieldUse(Treatment.DECIDED, words, inside=inside)


def _passed(words: str = "") -> FieldUse:
    return FieldUse(Treatment.PASSED, words)


def _wish(words: str) -> FieldUse:
    return FieldUse(Treatment.PREFERRED, words)


def _ignored(words: str, *, said_of: Callable[[Any], bool] = bool) -> FieldUse:
    return FieldUse(Treatment.IGNORED, words, said_of)


def _refused(words: str) -> FieldUse:
    return FieldUse(Treatment.REFUSED, words)


def _all_passed(names: str) -> dict[str, FieldUse]:
    return dict.fromkeys(names.split(), _passed())


OUR_SCHEDULERS = ("", "sterna", "default-scheduler")  # names that ask for nothing else
_DEVICES = "devices as resources (nvidia.com/gpu): claims of devices are kube-scheduler's to give, and it places no pod"
_SAME_DISK = "not decided: two pods with this disk may come to one node, which kube-scheduler would not do"

_POD_SPEC: Mapping[str, FieldUse] = {
    "activeDeadlineSeconds": _passed("the kubelet ends the pod so long after its start, which is a failure of it"),
    "affinity": _decided("see below"),
    "automountServiceAccountToken": _passed(),
    "containers": _decided("the one that trains decides about the job; what all of them request is counted"),
    "dnsConfig": _passed(),
    "dnsPolicy": _passed(),
    "enableServiceLinks": _passed(),
    "ephemeralContainers": _refused("none: Kubernetes takes them in a pod that is there, and in no new one"),
    "hostAliases": _passed(),
    "hostIPC": _passed(),
    "hostNetwork": _decided("the ports of its containers are then ports of the node"),
    "hostPID": _passed(),
    "hostUsers": _passed(),
    "hostname": _passed(),
    "hostnameOverride": _passed(),
    "imagePullSecrets": _passed(),
    "initContainers": _decided("what they request is counted, of sidecars beside the containers", inside="Container"),
    "nodeName": _decided("no other node is chosen for the job"),
    "nodeSelector": _decided(
        "as kube-scheduler does. Nodes are chosen for the job: what one role demands holds for all"
    ),
    "os": _passed("a kubelet of another system refuses the pod; `nodeSelector` says where the right ones are"),
    "overhead": _decided("counted with what the pod requests"),
    "preemptionPolicy": _ignored("not honoured: the policy of the scheduler decides which job gives way"),
    "priority": _decided("larger goes first, where the policy looks at it"),
    "priorityClassName": _decided(
        "where it is a number; of a class that has a name alone it is said that it counts as 0"
    ),
    "readinessGates": _passed("a worker counts as ready when they are true as well"),
    "resourceClaims": _refused(_DEVICES),
    "resources": _decided("of the pod as a whole: counted instead of what its containers request"),
    "restartPolicy": _decided(
        "of an ElasticJob; in the other kinds the one of the role goes over it, and that is said"
    ),
    "runtimeClassName": _decided(
        "its overhead is counted; a node that cannot run it refuses the pod, others are tried"
    ),
    "schedulerName": _ignored(
        "not honoured: Sterna chooses the nodes, unless its operator runs with --binding none",
        said_of=lambda name: name not in OUR_SCHEDULERS,
    ),
    "schedulingGates": FieldUse(Treatment.DECIDED, "the job waits until its templates have none any more", said=True),
    "securityContext": _passed(),
    "serviceAccount": _passed(),
    "serviceAccountName": _passed(),
    "setHostnameAsFQDN": _passed(),
    "shareProcessNamespace": _passed(),
    "subdomain": _passed(),
    "terminationGracePeriodSeconds": _decided("from the beginning of a stop to the kill"),
    "tolerations": _decided("of the workers, for the whole job"),
    "topologySpreadConstraints": _decided("see below", inside="SpreadConstraint"),
    "volumes": _decided("see below", inside="Volume"),
    "workloadRef": _ignored("not honoured: Sterna places the workers of a job together by itself"),
}

_AFFINITY: Mapping[str, FieldUse] = {
    "nodeAffinity": _decided("required: as kube-scheduler does, every operator, `matchFields` too; preferred: a wish"),
    "podAffinity": _decided("see below", inside="PodAffinity"),
    "podAntiAffinity": _decided("see below", inside="PodAffinity"),
}

_POD_AFFINITY: Mapping[str, FieldUse] = {
    "requiredDuringSchedulingIgnoredDuringExecution": _decided("as kube-scheduler does"),
    "preferredDuringSchedulingIgnoredDuringExecution": _ignored(
        "not honoured: where several nodes would do, other pods do not decide between them"
    ),
}

_SPREAD: Mapping[str, FieldUse] = {
    **dict.fromkeys(
        (
            *("labelSelector", "matchLabelKeys", "maxSkew", "minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy"),
            "topologyKey",
        ),
        _decided("as kube-scheduler does"),
    ),
    "whenUnsatisfiable": FieldUse(
        Treatment.DECIDED,
        "`DoNotSchedule` is obeyed, `ScheduleAnyway` is not honoured",
        said_of=lambda word: word == "ScheduleAnyway",
        said=True,
    ),
}

_NODE_AFFINITY: Mapping[str, FieldUse] = {
    "requiredDuringSchedulingIgnoredDuringExecution": _decided("as kube-scheduler does, every operator"),
    "preferredDuringSchedulingIgnoredDuringExecution": _wish(
        "of the workers: where several nodes hold the job, the one that meets most weight; a preferred host name is the"
        " node that is tried first"
    ),
}

_TOLERATION: Mapping[str, FieldUse] = {
    **dict.fromkeys(("key", "operator", "value", "effect"), _decided("as kube-scheduler does")),
    "tolerationSeconds": _passed("how long the pod stays on a node that got such a taint"),
}

_CONTAINER: Mapping[str, FieldUse] = {
    "args": _decided("what is run; `$(NAME)` is filled in as Kubernetes does"),
    "command": _decided("what is run; `$(NAME)` is filled in as Kubernetes does"),
    "env": _decided(
        "plain values; `fieldRef` (name, namespace, uid, labels, annotations, node, addresses); `resourceFieldRef`."
        " Sterna's own variables go over those of the same name"
    ),
    "envFrom": _passed("processes have no secrets and config maps: an optional one is left out, another is refused"),
    "image": _passed("processes do not use it"),
    "lifecycle": _decided("`preStop` and `postStart` with `exec` or `sleep`; the others in a cluster only"),
    "name": _decided("tells which container it is whose end decides about the job"),
    "ports": _decided("the port of a kind's own name is the one that the others find; see below for `hostPort`"),
    "resources": _decided("counted; see below", inside="ContainerResources"),
    "volumeMounts": _passed("of those called checkpoint or checkpoints Sterna knows where checkpoints are"),
    "workingDir": _passed("processes run there as well"),
    "restartPolicy": _passed("of init containers `Always` is a sidecar, whose request is counted"),
    **_all_passed(
        "imagePullPolicy livenessProbe readinessProbe resizePolicy restartPolicyRules securityContext startupProbe "
        "stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices"
    ),
}

_RESOURCES: Mapping[str, FieldUse] = {
    "claims": _refused(_DEVICES),
    "limits": _decided("a container without a request takes its limit"),
    "requests": _decided(
        "`cpu`, `memory`, `nvidia.com/gpu` (or `gpu`, for processes, may be a part of one card, with `gpuMemory`;"
        " KubeShare's three annotations say the same). Of others it is said that they are not counted"
    ),
}

_PORT: Mapping[str, FieldUse] = {
    "containerPort": _decided("see `ports`"),
    "hostIP": _decided("of `hostPort`: the address that is taken"),
    "hostPort": _decided("two pods with one port are not put on one node"),
    "name": _decided("see `ports`"),
    "protocol": _decided("of `hostPort`: ports of two protocols are two ports"),
}

_VOLUME: Mapping[str, FieldUse] = {
    "name": _passed(),
    "persistentVolumeClaim": _decided(
        "in a cluster: the job runs on nodes where the claim's volume can be (its node affinity, its labels of zone and"
        " region), and waits while the claim is not there or not bound, or is `ReadWriteOncePod` and several pods of"
        " the job mount it. One that waits for its first consumer (`WaitForFirstConsumer`) must be bound beforehand, by"
        " its `volumeName` or by the annotation `volume.kubernetes.io/selected-node`. Not looked at: which pods of"
        " others mount it, that a `ReadWriteOnce` volume is mounted on one node at a time, and how many volumes a node"
        " can attach (CSINode)"
    ),
    "ephemeral": _refused("a claim that is there before the pod (persistentVolumeClaim), or emptyDir"),
    "awsElasticBlockStore": _ignored(_SAME_DISK),
    "gcePersistentDisk": _ignored(_SAME_DISK),
    "iscsi": _ignored(_SAME_DISK),
    "rbd": _ignored(_SAME_DISK),
    **_all_passed(
        "azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir fc flexVolume flocker gitRepo glusterfs "
        "hostPath image nfs photonPersistentDisk portworxVolume projected quobyte scaleIO secret storageos "
        "vsphereVolume"
    ),
}

_METADATA: Mapping[str, FieldUse] = {
    "annotations": _passed("KubeShare's three say which share of a card is asked for"),
    "labels": _passed("those that Sterna finds its pods by go over them"),
    "finalizers": _passed(),
    **dict.fromkeys(
        ("name", "generateName", "namespace", "ownerReferences"),
        _ignored("not honoured: pods are named after their job, live in its namespace and belong to it"),
    ),
    **dict.fromkeys(
        (
            *("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields"),
            *("resourceVersion", "selfLink", "uid"),
        ),
        _ignored("not honoured: the API server sets it", said_of=lambda _: False),  # tools write null or 0 there
    ),
}

# By the shape that reads it, or by the name that `FieldUse.inside` has for it.
FIELD_USES: Mapping[str, Mapping[str, FieldUse]] = {
    "PodSpec": _POD_SPEC,
    "Affinity": _AFFINITY,
    "NodeAffinity": _NODE_AFFINITY,
    "PodAffinity": _POD_AFFINITY,
    "SpreadConstraint": _SPREAD,
    "PodToleration": _TOLERATION,
    "Container": _CONTAINER,
    "ContainerPort": _PORT,
    "ContainerResources": _RESOURCES,
    "Volume": _VOLUME,
    "PodMetadata": _METADATA,
    "SchedulingPolicy": {
        "minAvailable": _ignored("not honoured: a job starts with its least number of workers, or not at all"),
        "queue": _ignored("not honoured: the policy of the scheduler decides the order"),
        "minResources": _ignored("not honoured: what the least number of workers requests is what is kept for them"),
        "scheduleTimeoutSeconds": _ignored("not honoured: a job waits for as long as its owner lets it"),
    },
    "ElasticPolicy": {"metrics": _ignored("not honoured: the scheduler chooses the size")},
    "MPIJobV2Spec": {"sshAuthMountPath": _ignored("not honoured: no SSH keys are made or mounted")},
}


def fields_beside(shape: str, keys: tuple[str, ...]) -> frozenset[str]:
    """What Kubernetes knows there beside the keys that the shape reads itself."""
    return frozenset(FIELD_USES.get(shape, {})) - frozenset(keys)
