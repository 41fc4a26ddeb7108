"""What owners read of their jobs is so: why a job got fewer workers, and how many workers it has."""

import yaml

from tests.kubernetes.jobs import tfjob
from tests.kubernetes.lab import Lab

SERVED = "served-ps-0"


def workers(count: int) -> list[str]:
    return [f"served-worker-{ordinal}" for ordinal in range(count)]


def told(lab: Lab, name: str) -> str:
    """Everything that is said of a job: its status, its conditions and its events."""
    status = lab.job("TFJob", name)["status"]
    events = [f"{event['reason']}: {event['message']}" for event in lab.events(name)]
    return yaml.safe_dump([status["conditions"], status["scheduling"], events], width=100_000)


def test_11_the_owner_who_lowers_the_maximum_is_named_and_a_parameter_server_is_no_worker(lab: Lab):
    lab.nodes.add(3, gpus=2)
    lab.start()
    lab.submit(tfjob("served", workers=(1, 1, 4)))
    lab.until_pods("served", SERVED, *workers(4))
    lab.until_rest()
    lab.edit("TFJob", "served", {"spec": {"max-instances": 2}})
    lab.until_pods("served", SERVED, *workers(2))
    lab.until(lambda: "ScaledDown" in lab.reasons("served"), "the change is told")
    lab.until_rest()
    scheduling = lab.job("TFJob", "served")["status"]["scheduling"]
    assert scheduling["reason"] == "ScaledByOwner"
    assert scheduling["numbers"] == {"workers_before": 4, "workers_now": 2}
    assert scheduling["workers"] == "2/1-2"
    words = told(lab, "served")
    assert "from 4 to 2 workers: its owner lowered its largest size" in words
    assert "others came or grew" not in words
    assert not [count for count in (3, 5) if f"{count} worker" in words]


def test_11_a_loss_counts_workers_and_not_the_parameter_server(lab: Lab):
    lab.nodes.add(3, gpus=1)
    lab.start()
    lab.submit(tfjob("served", workers=(1, 1, 3)))
    found = lab.until_pods("served", SERVED, *workers(3))
    lost = next(pod["spec"]["nodeName"] for name, pod in found.items() if name == "served-worker-2")
    assert found[SERVED]["spec"]["nodeName"] != lost
    lab.nodes.stop_kubelet(lost)
    lab.until(lambda: "WorkersLost" in lab.reasons("served"), "the loss is told")
    (event,) = [event for event in lab.events("served") if event["reason"] == "WorkersLost"]
    assert event["message"].endswith("2 of 3 workers are left")
