"""What `kubectl explain` says about the fields of our kinds and Kubeflow's. Of pods Kubernetes itself tells."""

from collections.abc import Mapping

from sterna.wire.manifests.field_uses import FIELD_USES, Treatment
from sterna.wire.manifests.shapes import Shape


def words_about(shape: type[Shape], key: str) -> str | None:
    """A sentence or two. None: nothing is said here about this field."""
    for each in () if shape.is_open else shape.__mro__:  # one of two versions may say it
        use = FIELD_USES.get(each.__name__, {}).get(key)
        if use is not None and use.treatment is Treatment.IGNORED:
            return f"{use.words[0].upper()}{use.words[1:]}."
    if key in _OF_SHAPE.get(shape.__name__, {}):
        return _OF_SHAPE[shape.__name__][key]
    return None if shape.is_open and shape.__name__ not in _OF_SHAPE else _COMMON.get(key)


_COMMON: Mapping[str, str] = {  # the same wherever it stands
    "activeDeadlineSeconds": "The job fails when it is this old, counted from its first start.",
    "backoffLimit": "How many restarts after failures there may be before the job fails. Left out: any number.",
    "cleanPodPolicy": "Which pods are deleted when the job has ended. Left out: Running.",
    "conditions": "What is true of it now; the one that changed last stands last.",
    "message": "The same in a sentence, with numbers.",
    "mpiReplicaSpecs": "Launcher and Worker, in any case.",
    "observedGeneration": "The generation of the spec that this was said about.",
    "priority": "Larger goes first, where the policy looks at it. Left out: 0.",
    "reason": "Why, as one word of a closed list.",
    "replicas": "How many. Of elastic workers: how many to begin with. Left out: 1.",
    "restartPolicy": "What happens when a container ends. ExitCode: tried again after 130, 137, 138 and 143 only.",
    "runPolicy": "How the job ends, is cleaned up and starts again.",
    "slotsPerWorker": "Processes to a worker. Left out: 1.",
    "template": "The pod, as everywhere in Kubernetes.",
    "ttlSecondsAfterFinished": "The job is deleted so long after its end. Left out: it is kept.",
}

_SHORTHAND: Mapping[str, str] = {
    "template": "The pod, as everywhere in Kubernetes; instead of the fields of its one container beside it.",
    "image": "Of the one container.",
    "command": "Of the one container.",
    "args": "Of the one container.",
    "env": "Of the one container.",
    "workingDir": "Of the one container.",
    "resources": "Of the one container.",
    "lifecycle": "Of the one container: preStop and postStart.",
    "terminationGracePeriodSeconds": "From the first word of a stop to the kill. Left out: 30.",
    "nodeSelector": "Labels that a node must have.",
    "tolerations": "Taints that are no obstacle.",
    "restartPolicy": "Left out: OnFailure.",
}

_OF_SHAPE: Mapping[str, Mapping[str, str]] = {
    "TFJobSpec": {
        "tfReplicaSpecs": "PS, Worker, Chief or Master, Evaluator, in any case.",
        "successPolicy": "AllWorkers: every worker must end well. Left out: the chief decides, or worker 0.",
        "enableDynamicWorker": "TF_CONFIG tells a worker of itself and the parameter servers only.",
        "min-instances": "The least number of workers to run with. Left out: the replicas of Worker.",
        "max-instances": "The largest number of workers to run with. Left out: the replicas of Worker.",
        "node-preference": "A node that is tried first.",
    },
    "PyTorchJobSpec": {
        "pytorchReplicaSpecs": "Master, Worker or both, in any case.",
        "elasticPolicy": "With it torchrun's agents meet again at every change of size. Without it all start anew.",
        "nprocPerNode": "Processes to a worker: a number, auto, gpu or cpu. Left out: 1.",
    },
    "ElasticPolicy": {
        "minReplicas": "The least number of workers to run with. Left out: the replicas of Worker.",
        "maxReplicas": "The largest number of workers to run with. Left out: the replicas of Worker.",
        "rdzvBackend": "Where torchrun's agents meet. Left out: c10d.",
        "rdzvPort": "Of the rendezvous.",
        "rdzvHost": "Of the rendezvous. Left out: the first of the job.",
        "rdzvId": "Of the rendezvous. Left out: made from the name of the job.",
        "rdzvConf": "Further settings of the rendezvous.",
        "standalone": "torchrun's own flag for a single node.",
        "nProcPerNode": "As nprocPerNode of the spec.",
        "maxRestarts": "Of torchrun's agents; a peer that leaves counts as a failure there. Left out: 100.",
    },
    "Setting": {"key": "Without an equals sign.", "value": "Without a comma."},
    "MPIJobSpec": {
        "mainContainer": "The container whose end decides. Left out: the first one.",
        "runLauncherAsWorker": "The launcher counts as a worker and stands first among the hosts.",
        "launcherCreationPolicy": "When the launcher is started. Left out: AtStartup.",
        "mpiImplementation": "Decides how hosts are written down. Left out: OpenMPI.",
    },
    "ElasticJobSpec": {
        **_SHORTHAND,
        "workers": "How many: min, max, initial, step.",
        "roles": "What stands beside the workers: ps, chief, master, launcher, evaluator.",
        "contract": "What happens to the workers that stay when others come or go. Left out: restart.",
        "successPolicy": "Whose end is the job's. Left out: the leader's where there is one, else all workers'.",
        "processesPerWorker": "Left out: 1.",
        "port": "Where the first of the job listens. Left out: the usual one of the contract.",
        "epochs": "How much work there is, for policies that ask how much is left.",
        "accelerator": "The pool of nodes.",
        "category": "Jobs of one category share what is learned about their speed. Left out: the name.",
    },
    "FixedRoleBody": _SHORTHAND,
    "Sizes": {
        "min": "The least number of workers to run with. Left out: initial, or 1.",
        "max": "The largest number of workers to run with. Left out: initial.",
        "initial": "How many to begin with; what `kubectl scale` changes. Left out: min.",
        "step": "Sizes are min, min + step, and so on. Left out: 1.",
    },
    "RunPolicyBody": {
        "suspend": "The job gives back everything and waits until this is false.",
        "managedBy": "A job that another controller manages is left alone.",
        "schedulingPolicy": "Of this, the priority class is used.",
    },
    "SchedulingPolicy": {
        "priorityClass": "A number, or a class that has one.",
    },
    "MigrationSpec": {
        "job": "The job to move, by name; or a node to empty.",
        "kind": "Of the job, where several kinds have one of this name.",
        "worker": "Only the worker of this number. Left out: the whole job.",
        "to": "The node to move to. Left out: the scheduler finds one.",
        "node": "The node to empty, instead of a job.",
        "reason": "In your own words; it is kept with the record.",
    },
    "Condition": {
        "type": "What it is about.",
        "status": "Whether it is so.",
        "lastUpdateTime": "When anything of this was last written.",
        "lastTransitionTime": "When the status last changed.",
    },
    "ReplicaStatus": {
        "active": "Pods that run.",
        "succeeded": "Pods that ended well.",
        "failed": "Pods that ended otherwise.",
        "selector": "Finds the pods.",
        "labelSelector": "Finds the pods, in the older form.",
    },
    "JobStatus": {
        "replicaStatuses": "How many pods of each role are how far.",
        "startTime": "When the operator took it up.",
        "completionTime": "When it ended.",
        "lastReconcileTime": "Not written.",
        "enqueueTime": "When it began to wait.",
        "startRunTime": "When it was first placed.",
        "finishedTime": "When it was put among the finished ones.",
        "selector": "Finds the workers' pods, for autoscalers that scale by them.",
        "scheduling": "How the scheduler sees the job, and what it must remember of it.",
    },
    "Scheduling": {
        "state": "Waiting, Starting, Running, Resizing, Migrating, Restarting, Suspended, Succeeded or Failed.",
        "workers": "How many run, and the bounds: 2/1-4.",
        "gpus": "GPUs that it holds, in all.",
        "nodes": "Nodes that it is on.",
        "restarts": "Starts after a failure.",
        "resizes": "Changes of size.",
        "migrations": "Moves.",
        "reason": "Why, as one word of a closed list.",
        "message": "The same in a sentence, with numbers.",
    },
    "MigrationStatus": {
        "phase": "Pending and Moving are under way, the others are ends.",
        "from": "The nodes it was on.",
        "to": "The nodes it went to.",
        "worker": "The worker that was moved. Left out: all of the job.",
        "startedAt": "When those that move were told.",
        "finishedAt": "When training went on, or it was clear that it would not.",
        "downtimeSeconds": "How long training stood still.",
        "committedStep": "The step that the job acknowledged and went on from.",
    },
}
