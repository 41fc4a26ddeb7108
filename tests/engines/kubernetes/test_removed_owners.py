"""Which objects without an owner reference are surely a job's."""

from typing import Any

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.objects import ConfigMapObject, Pod, ServiceObject
from sterna.engines.kubernetes.bodies.mpi_hosts import config_labels
from sterna.engines.kubernetes.cache.object_store import Store
from sterna.engines.kubernetes.status.standing import Seat, Standing
from sterna.engines.kubernetes.world.removed_owners import is_config_left, is_pod_left, pods_left, services_left
from sterna.model.ids import NodeId
from sterna.model.jobs import Role, Worker
from sterna.model.phases import Phase
from tests.engines.kubernetes.reconcile.world import workload

JOB = workload()
HELD = Standing(phase=Phase.RUNNING, seats=(Seat(Worker(Role.WORKER, 0, NodeId("n1")), "abcde"),), incarnation=3)
LABELS = {"tf-job-name": "job1", "tf-replica-type": "worker", "tf-replica-index": "0", "group-name": "kubeflow.org"}
SLOT = {"tf-job-workerid": "abcde", "tf-job-role": "master"}
OTHERS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "u", "controller": True}


def pod(**changed: Any) -> Pod:
    meta = {
        "name": "job1-worker-0",
        "namespace": JOB.namespace,
        "uid": "p",
        "labels": {**LABELS, **SLOT, "mine": "too"},
        "annotations": {"sterna.dev/incarnation": "3"},
        "resourceVersion": "1",
    }
    node = changed.pop("node", "n1")
    return msgspec.convert({"metadata": meta | changed, "spec": {"nodeName": node}}, Pod)


@pytest.mark.parametrize(
    ("changed", "ours"),
    [
        pytest.param({}, True, id="all is as its seat has it"),
        pytest.param({"node": ""}, True, id="it is not bound yet"),
        pytest.param({"ownerReferences": [OTHERS | {"controller": False}]}, True, id="its owner does not control it"),
        pytest.param({"ownerReferences": [OTHERS]}, False, id="another controller has it"),
        pytest.param({"node": "n2"}, False, id="it is on another node"),
        pytest.param({"annotations": {"sterna.dev/incarnation": "2"}}, False, id="it is of an earlier gang"),
        pytest.param({"labels": {**LABELS, **SLOT, "tf-job-workerid": "zzzzz"}}, False, id="it has another slot"),
        pytest.param({"labels": LABELS}, False, id="it has none"),
        pytest.param({"labels": None}, False, id="it has no labels"),
        pytest.param({"name": "job1-worker-1"}, False, id="there is no seat of its name"),
        pytest.param({"namespace": "elsewhere"}, False, id="it is in another namespace"),
    ],
)
def test_8_a_pod_is_known_by_its_seat(changed, ours):
    found = pod(**changed)
    store: Store[Pod] = Store()
    store.put(found)
    assert is_pod_left(found, JOB, HELD) is ours
    assert [*pods_left(store, JOB, HELD)] == ([found] if ours else [])


@pytest.mark.parametrize(
    ("changed", "selector", "ours"),
    [
        pytest.param({}, LABELS, True, id="all is as we write it"),
        pytest.param({}, {"app": "other"}, False, id="it leads elsewhere"),
        pytest.param({"labels": {"app": "other"}}, LABELS, False, id="it has other labels"),
        pytest.param({"ownerReferences": [OTHERS]}, LABELS, False, id="another controller has it"),
    ],
)
def test_8_a_service_is_known_by_its_selector(changed, selector, ours):
    meta = {"name": "job1-worker-0", "namespace": JOB.namespace, "uid": "s", "labels": LABELS, "resourceVersion": "1"}
    found = msgspec.convert({"metadata": meta | changed, "spec": {"selector": selector}}, ServiceObject)
    store: Store[ServiceObject] = Store()
    store.put(found)
    assert [*services_left(store, JOB, HELD)] == ([found] if ours else [])


@pytest.mark.parametrize("labels", [config_labels(JOB), {"app": "job1"}], ids=["ours", "another one's"])
def test_8_a_host_list_is_known_by_its_labels(labels):
    found = msgspec.convert({"metadata": {"labels": labels}}, ConfigMapObject)
    assert is_config_left(found, JOB) is (labels == config_labels(JOB))
