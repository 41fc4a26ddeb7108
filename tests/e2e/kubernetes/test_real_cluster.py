"""The promises to a platform team, on kubelets and containers: each with the operator killed in the middle of it."""

import sys
from pathlib import Path

from tests.cluster.requests import Body
from tests.e2e.kubernetes.stage import TRAINERS, Stage, seen, tf_config

GPU = {"nvidia.com/gpu": 1}


def members(name: str, count: int) -> list[str]:
    return [f"{name}-worker-{index}" for index in range(count)]


def uids(pods: dict[str, Body]) -> dict[str, str]:
    return {name: str(pod["metadata"]["uid"]) for name, pod in pods.items()}


def job1(stage: Stage, *, finish: Path) -> Body:
    """As the README of DRAGON has it, with programs that this machine has: limits only, one PS, four workers."""
    room = {"cpu": "4", "memory": "8Gi"}
    script = f'echo "$TF_CONFIG"; while [ ! -e {finish} ]; do sleep 0.2; done'
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "job1"},
        "spec": {
            "max-instances": 4,
            "min-instances": 1,
            "cleanPodPolicy": "All",
            "tfReplicaSpecs": {
                "PS": {
                    "replicas": 1,
                    "restartPolicy": "OnFailure",
                    "template": stage.template("tensorflow", "sleep", "10000", limits=room),
                },
                "Worker": {
                    "replicas": 4,
                    "restartPolicy": "OnFailure",
                    "template": stage.template("tensorflow", "sh", "-c", script, limits=room | GPU),
                },
            },
        },
    }


def elasticjob(name: str, template: Body, *, at_least: int, at_most: int, checkpoints: Path | None = None) -> Body:
    annotations = {"sterna.dev/checkpoint-dir": str(checkpoints)} if checkpoints else {}
    workers = {"min": at_least, "max": at_most}
    return {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"workers": workers, "template": template},
    }


def test_job1_starts_scales_4_2_4_with_the_survivors_untouched_and_finishes(stage: Stage):
    finish = stage.shared / "finish"
    stage.start_operator()
    stage.put(job1(stage, finish=finish))
    four = stage.until_pods("job1", "job1-ps-0", *members("job1", 4))
    domain = f"{stage.namespace}.svc:2222"
    assert tf_config(four["job1-worker-0"]) == {
        "cluster": {"ps": [f"job1-ps-0.{domain}"], "worker": [f"{name}.{domain}" for name in members("job1", 4)]},
        "task": {"type": "worker", "index": 0},
        "environment": "cloud",
    }
    stage.restart_operator()
    other = elasticjob("other", stage.template("main", "sleep", "10000", limits=GPU), at_least=4, at_most=4)
    stage.put(other)
    stage.until_pods("other", *members("other", 4))
    two = stage.until_pods("job1", "job1-ps-0", *members("job1", 2))
    assert uids(two).items() <= uids(four).items()
    stage.restart_operator()
    stage.delete("ElasticJob", "other")
    again = stage.until_pods("job1", "job1-ps-0", *members("job1", 4))
    assert uids(two).items() <= uids(again).items()
    assert tf_config(again["job1-worker-3"])["cluster"] == tf_config(four["job1-worker-0"])["cluster"]
    stage.restart_operator()
    finish.touch()
    stage.until_true("TFJob", "job1", "Succeeded")
    stage.until_pods("job1")


def test_a_pytorch_job_is_moved_between_two_kubelets_and_goes_on_at_the_committed_step(stage: Stage):
    checkpoints = stage.shared / "checkpoints"
    checkpoints.mkdir()
    trainer = (sys.executable, "-u", str(TRAINERS / "torch_trainer.py"), "--steps", "320", "--step-s", "0.05")
    template = stage.template("main", *trainer, limits=GPU, terminationGracePeriodSeconds=60)
    stage.start_operator()
    stage.put(elasticjob("net", template, at_least=1, at_most=1, checkpoints=checkpoints))
    before = stage.until_pods("net", "net-worker-0")["net-worker-0"]
    stage.until_log("net-worker-0", "step=20 ")
    home = str(before["spec"]["nodeName"])
    target = next(name for name in stage.cluster.names if name != home)
    stage.put(
        {
            "apiVersion": "sterna.dev/v1alpha1",
            "kind": "Migration",
            "metadata": {"name": "away"},
            "spec": {"job": "net", "to": target, "reason": "the test wants it there"},
        }
    )
    stage.until(lambda: _is_going_or_gone(stage, before), "the old pod is told to go")
    stage.restart_operator()
    after = stage.until(lambda: _successor(stage, before), f"net-worker-0 runs on {target}")
    assert after["spec"]["nodeName"] == target
    stage.until_true("ElasticJob", "net", "Succeeded")
    trace = next(checkpoints.rglob("trace.txt")).read_text()
    assert seen(trace, "step") == list(range(1, 321)), "a step was lost or made twice"
    assert seen(trace, "began")[0] == 0
    assert seen(trace, "began")[1] == seen(trace, "stopped")[0]
    moved = stage.job("Migration", "away")["status"]
    assert (moved["phase"], moved["from"], moved["to"]) == ("Succeeded", home, target)
    # Nobody reads the pod's last word if it is gone before the operator is back: then the record has no step.
    assert moved.get("committedStep", seen(trace, "stopped")[0]) == seen(trace, "stopped")[0]
    assert moved["downtimeSeconds"] >= 0


def _is_going_or_gone(stage: Stage, before: Body) -> bool:
    alive = {pod["metadata"]["uid"] for pod in stage.pods("net")}
    return before["metadata"]["uid"] not in alive


def _successor(stage: Stage, before: Body) -> Body | None:
    return next((pod for pod in stage.pods("net") if pod["metadata"]["uid"] != before["metadata"]["uid"]), None)


def test_the_host_list_of_an_mpijob_follows_its_workers(stage: Stage):
    hosts = "for i in $(seq 600); do sh /etc/mpi/discover_hosts.sh | tr '\\n' ' '; echo; sleep 0.5; done"
    numbers = {"NUM_PROC": "1", "MIN_NUM_PROC": "1", "MAX_NUM_PROC": "3"}
    launcher = stage.template("mpi", "sh", "-c", hosts)
    launcher["spec"]["containers"][0]["env"] += [{"name": k, "value": v} for k, v in numbers.items()]
    stage.start_operator("--nudge")
    stage.put(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "MPIJob",
            "metadata": {"name": "ring"},
            "spec": {
                "slotsPerWorker": 1,
                "mpiReplicaSpecs": {
                    "Launcher": {"replicas": 1, "template": launcher},
                    "Worker": {"replicas": 1, "template": stage.template("mpi", "sleep", "10000", limits=GPU)},
                },
            },
        }
    )
    stage.until_pods("ring", "ring-launcher-0", *members("ring", 3))
    stage.until(lambda: _hosts(stage) == members("ring", 3), "the launcher sees three hosts")
    stage.restart_operator("--nudge")
    stage.put(elasticjob("other", stage.template("main", "sleep", "10000", limits=GPU), at_least=5, at_most=5))
    stage.until_pods("other", *members("other", 5))
    stage.until_pods("ring", "ring-launcher-0", "ring-worker-0")
    stage.until(lambda: _hosts(stage) == members("ring", 1), "the launcher sees one host")
    stage.delete("ElasticJob", "other")
    stage.until_pods("ring", "ring-launcher-0", *members("ring", 3))
    stage.until(lambda: _hosts(stage) == members("ring", 3), "the launcher sees three hosts again")


def _hosts(stage: Stage) -> list[str]:
    """What the script says inside the launcher right now."""
    lines = stage.log_of("ring-launcher-0").strip().splitlines()
    return [word.split(".")[0].split(":")[0] for word in lines[-1].split()] if lines else []


def test_r5_a_job_whose_kubelet_is_stopped_goes_on_elsewhere(stage: Stage):
    checkpoints = stage.shared / "checkpoints"
    checkpoints.mkdir()
    trainer = (sys.executable, "-u", str(TRAINERS / "toy_trainer.py"), "--steps", "600", "--step-s", "0.05")
    template = stage.template("main", *trainer, limits=GPU, terminationGracePeriodSeconds=5)
    stage.start_operator()
    stage.put(elasticjob("net", template, at_least=1, at_most=1, checkpoints=checkpoints))
    before = stage.until_pods("net", "net-worker-0")["net-worker-0"]
    stage.until_log("net-worker-0", "step=60 ")
    home = str(before["spec"]["nodeName"])
    stage.cluster.stop_kubelet(home)  # the container trains on, and nobody sees it
    try:
        stage.cluster.until_not_ready(home)
        stage.restart_operator()
        after = stage.until(lambda: _successor(stage, before), "the job runs on another node")
        assert after["spec"]["nodeName"] != home
        stage.until_true("ElasticJob", "net", "Succeeded")
    finally:
        stage.cluster.start_kubelet(home)
        stage.cluster.until_ready(home)
    trace = next(checkpoints.rglob("trace.txt")).read_text()
    mine = [line for line in trace.splitlines() if f"incarnation={max(seen(trace, 'incarnation'))} " in line]
    resumed = seen("\n".join(mine), "began")[0]
    assert resumed > 0, "it began from nothing although it had saved"
    assert seen("\n".join(mine), "step") == list(range(resumed + 1, 601))
