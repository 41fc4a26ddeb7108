"""The jobs of the five systems' documents, applied as they are: each does what its document says."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.volumes import Volumes
from tests.kubernetes.lab import Lab
from tests.wire.manifests.reference import JOBS

FORTY_EIGHT, FORTY_NINE = "gpu-10-252-192-48", "gpu-10-252-192-49"
POOL = {"vodascheduler/accelerator": "nvidia-gtx-1080ti"}


def manifest(name: str) -> str:
    (example,) = (example for example in JOBS if example.name == name)
    return example.path.read_text(encoding="utf-8")


@pytest.fixture
def volumes(lab: Lab) -> Iterator[Volumes]:
    with Volumes(lab.api, lab.namespace) as made:
        yield made


def nodes_of(pods: dict[str, Any]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods.values()}


@pytest.mark.parametrize(("name", "gpus"), [("e-dragon-cpu", 0), ("e-dragon-gpu", 4)])
def test_dragons_job1_starts_gives_way_grows_again_and_leaves_nothing(lab: Lab, name: str, gpus: int):
    lab.nodes.add(2, gpus=gpus, cpu="22", memory="44Gi")  # room for ten of its pods, whichever they are
    lab.start(policy="elastic-fifo")
    lab.submit(manifest(name))
    whole = ("job1-ps-0", *(f"job1-worker-{index}" for index in range(4)))
    before = lab.until_pods("job1", *whole)
    config = next(e for e in before["job1-worker-0"]["spec"]["containers"][0]["env"] if e["name"] == "TF_CONFIG")
    assert len(yaml.safe_load(config["value"])["cluster"]["worker"]) == 4
    for other in ("job2", "job3"):
        lab.submit(manifest(name).replace("name: job1", f"name: {other}"))
    lab.until_true("TFJob", "job2", "Running")
    lab.until_true("TFJob", "job3", "Running")
    lab.until_rest()
    survivors = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.pods("job1")}
    assert 2 <= len(survivors) < 5
    assert all(before[pod]["metadata"]["uid"] == uid for pod, uid in survivors.items())
    for other in ("job2", "job3"):
        lab.delete("TFJob", other)
    lab.until_pods("job1", *whole)
    lab.nodes.exit("job1-worker-0", 0)
    lab.until_true("TFJob", "job1", "Succeeded")
    lab.until_pods("job1")


def test_container_migrations_job_begins_on_the_node_it_prefers_with_the_chief_beside_the_server(lab: Lab):
    lab.nodes.add(3, cpu="4", memory="16Gi")
    lab.start()
    lab.submit(manifest("container-migration-job"))
    pods = lab.until_pods("job2", "job2-ps-0", "job2-worker-0", "job2-worker-1")
    assert nodes_of(pods) == {"node-1"}
    env = {entry["name"]: entry for entry in pods["job2-worker-0"]["spec"]["containers"][0]["env"]}
    config = yaml.safe_load(env["TF_CONFIG"]["value"])
    assert config["task"] == {"type": "worker", "index": 1}  # the chief is worker 0
    assert len(config["cluster"]["worker"]) == 3
    assert env["NODE_IP"]["valueFrom"] == {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.hostIP"}}


def test_vodas_elastic_job_takes_its_pool_and_its_hosts_follow(lab: Lab, volumes: Volumes):
    volumes.bound("outputs")
    volumes.until_bound("outputs")
    taint = {"key": "vodascheduler/hostname", "value": "x", "effect": "NoExecute"}
    lab.nodes.add(2, gpus=2, labels=POOL, taints=[taint])
    lab.nodes.add(1, gpus=4)  # of another pool
    lab.start(policy="elastic-fifo")
    lab.submit(manifest("voda-mnist"))
    job = "tensorflow2-keras-mnist-elastic"
    pods = lab.until_pods(job, f"{job}-launcher-0", *(f"{job}-worker-{index}" for index in range(4)))
    assert nodes_of({name: pod for name, pod in pods.items() if "worker" in name}) == {"node-0", "node-1"}
    for pod in pods.values():  # whoever is put there may stay there
        keys = {found.get("key") for found in pod["spec"].get("tolerations", [])}
        assert "vodascheduler/hostname" in keys or pod["spec"]["nodeName"] == "node-2"
    path = f"/api/v1/namespaces/{lab.namespace}/configmaps/{job}-config"
    lab.until(lambda: len(lab.api.get(path)["data"]["hostfile"].splitlines()) == 4, "all four are in the list")
    lab.nodes.exit(f"{job}-launcher-0", 0)
    lab.until_true("MPIJob", job, "Succeeded")
    lab.until_rest()
    assert lab.names(job) == [f"{job}-launcher-0"]  # cleanPodPolicy: Running


def test_pytorchjob_migrations_job_moves_by_delete_and_apply_and_by_sternas_own_means(lab: Lab, volumes: Volumes):
    volumes.bound("ddp-pvc")
    volumes.until_bound("ddp-pvc")
    for name in (FORTY_EIGHT, FORTY_NINE):
        lab.nodes.add(1, gpus=4, labels={"kubernetes.io/hostname": name})
    lab.start()
    names = ("mnist-launch-master-0", *(f"mnist-launch-worker-{index}" for index in range(3)))
    lab.submit(manifest("pytorchjob-migration-mnist"))
    pods = lab.until_pods("mnist-launch", *names)
    assert nodes_of(pods) == {"node-0"}
    hooks = pods[names[0]]["spec"]["containers"][0]["lifecycle"]
    assert hooks["preStop"]["exec"]["command"][-1] == "python prestop.py > /mnt/preStop.log"
    lab.delete("PyTorchJob", "mnist-launch")
    lab.until_pods("mnist-launch")
    lab.submit(manifest("pytorchjob-migration-mnist").replace(FORTY_EIGHT, FORTY_NINE))
    assert nodes_of(lab.until_pods("mnist-launch", *names)) == {"node-1"}
