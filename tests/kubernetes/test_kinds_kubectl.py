"""Our kinds as people meet them: kubectl's columns, short names, scale, explain, and what it says to a typing error."""

import json
from typing import Any

import pytest

from sterna.wire.crds import definitions
from tests.cluster.control_plane import ControlPlane
from tests.cluster.requests import ApiError, Body
from tests.kubernetes.test_kinds import created, migration, path_of
from tests.wire.manifests.builders import Manifest, elasticjob, mpijob, pytorchjob, replica, tfjob
from tests.wire.manifests.reference import EXAMPLES, Example

SCHEDULING = {
    "state": "Running",
    "workers": "2/1-4",
    "gpus": "2",
    "nodes": "node-1,node-2",
    "reason": "Growing",
    "restarts": 1,
    "migrations": 3,
}


def tell(kinds: ControlPlane, namespace: str, body: Manifest, **status: Any) -> Body:
    path = f"{path_of(body, namespace)}/{body['metadata']['name']}/status"
    return kinds.api().patch(path, {"status": status})


def table(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("job", "short"),
    [
        pytest.param(tfjob(), "tfj", id="TFJob"),
        pytest.param(pytorchjob(), "ptj", id="PyTorchJob"),
        pytest.param(mpijob(), "mj", id="MPIJob"),
        pytest.param(elasticjob(), "ej", id="ElasticJob"),
    ],
)
def test_get_shows_how_a_job_stands(kinds: ControlPlane, namespace: str, job: Manifest, short: str):
    created(kinds, namespace, job)
    tell(kinds, namespace, job, scheduling=SCHEDULING)
    titles, row = table(kinds.kubectl("-n", namespace, "get", short))
    assert titles == ["NAME", "STATE", "WORKERS", "GPUS", "REASON", "AGE"]
    assert row[:-1] == ["job1", "Running", "2/1-4", "2", "Growing"]
    titles, row = table(kinds.kubectl("-n", namespace, "get", short, "-o", "wide"))
    assert titles[6:] == ["NODES", "RESTARTS", "MIGRATIONS"]
    assert row[6:] == ["node-1,node-2", "1", "3"]


def test_get_shows_what_came_of_a_migration(kinds: ControlPlane, namespace: str):
    move = migration(job="mnist", to="node-2", worker=1)
    created(kinds, namespace, move)
    status = {"phase": "Succeeded", "reason": "Asked", "from": "node-1", "to": "node-2", "downtimeSeconds": 2.5}
    tell(kinds, namespace, move, **status)
    titles, row = table(kinds.kubectl("-n", namespace, "get", "mig"))
    assert titles == ["NAME", "JOB", "FROM", "TO", "PHASE", "REASON", "DOWNTIME", "AGE"]
    assert row[:-1] == ["move", "mnist", "node-1", "node-2", "Succeeded", "Asked", "2.5"]


def test_one_word_shows_everything_of_ours(kinds: ControlPlane, namespace: str):
    for body in (tfjob(), elasticjob(), migration(job="a")):
        created(kinds, namespace, body)
    names = kinds.kubectl("-n", namespace, "get", "sterna", "-o", "name").split()
    assert sorted(names) == ["elasticjob.sterna.dev/job1", "migration.sterna.dev/move", "tfjob.kubeflow.org/job1"]


@pytest.mark.parametrize(
    ("job", "replicas"),
    [
        pytest.param(tfjob(), ("tfReplicaSpecs", "Worker", "replicas"), id="TFJob"),
        pytest.param(pytorchjob(), ("pytorchReplicaSpecs", "Worker", "replicas"), id="PyTorchJob"),
        pytest.param(mpijob(), ("mpiReplicaSpecs", "Worker", "replicas"), id="MPIJob"),
        pytest.param(elasticjob(workers={"initial": 2}), ("workers", "initial"), id="ElasticJob"),
    ],
)
def test_scale_changes_how_many_workers_are_asked_for(
    kinds: ControlPlane, namespace: str, job: Manifest, replicas: tuple[str, ...]
):
    created(kinds, namespace, job)
    path = f"{path_of(job, namespace)}/job1"
    tell(kinds, namespace, job, replicaStatuses={"Worker": {"active": 1}}, selector="job-name=job1")
    scale = kinds.api().get(f"{path}/scale")
    assert scale["spec"]["replicas"] == 2
    assert scale["status"] == {"replicas": 1, "selector": "job-name=job1"}
    kinds.kubectl("-n", namespace, "scale", job["kind"], "job1", "--replicas=3")
    asked = kinds.api().get(path)["spec"]
    for key in replicas:
        asked = asked[key]
    assert asked == 3
    with pytest.raises(ApiError) as refused:
        kinds.api().patch(f"{path}/scale", {"spec": {"replicas": 0}})
    assert (refused.value.status, ".".join(replicas) in refused.value.message) == (422, True)


@pytest.mark.parametrize(
    ("job", "field", "where"),
    [
        pytest.param(tfjob(**{"min-instance": 1}), "min-instance", "TFJob.spec", id="of the job"),
        pytest.param(tfjob(runPolicy={"backofLimit": 1}), "backofLimit", "TFJob.spec.runPolicy", id="of its policy"),
        pytest.param(
            tfjob({"Worker": {**replica("tensorflow"), "replica": 2}}),
            "replica",
            "TFJob.spec.tfReplicaSpecs.Worker",
            id="of a role",
        ),
        pytest.param(mpijob(slotsPerWorkers=2), "slotsPerWorkers", "MPIJob.spec", id="of an MPIJob"),
        pytest.param(elasticjob(worker={"min": 1}), "worker", "ElasticJob.spec", id="of an ElasticJob"),
        pytest.param(migration(job="a", target="b"), "target", "Migration.spec", id="of a Migration"),
    ],
)
def test_a_misspelt_key_is_refused_by_apply_before_anything_is_stored(
    kinds: ControlPlane, namespace: str, job: Manifest, field: str, where: str
):
    """A server of 1.20 leaves it to kubectl, which asks it what keys there are; newer ones say so themselves."""
    said = kinds.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(job), check=False)
    assert f'unknown field "{field}"' in said or f'unknown field "{where.partition(".")[2]}.{field}"' in said
    assert where in said or "strict decoding error" in said
    assert kinds.api().items(path_of(job, namespace)) == []


def test_a_misspelt_key_that_nobody_looked_at_is_not_stored(kinds: ControlPlane, namespace: str):
    said = kinds.kubectl(
        *("-n", namespace, "apply", "--validate=false", "-f", "-"), stdin=json.dumps(tfjob(**{"min-instance": 1}))
    )
    assert "created" in said
    assert "min-instance" not in kinds.api().get(f"{path_of(tfjob(), namespace)}/job1")["spec"]


def test_explain_knows_the_fields(kinds: ControlPlane):
    assert "least number of workers" in kinds.kubectl("explain", "tfjob.spec.min-instances")
    assert "The job to move" in kinds.kubectl("explain", "migration.spec.job")
    for definition in definitions():
        kind = definition["spec"]["names"]["kind"]
        assert definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"][:20] in kinds.kubectl(
            "explain", kind.lower()
        )


def test_a_job_can_be_applied_again_and_again(kinds: ControlPlane, namespace: str):
    first = kinds.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(tfjob(**{"max-instances": 4})))
    again = kinds.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(tfjob(**{"max-instances": 4})))
    other = kinds.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(tfjob(**{"max-instances": 5})))
    ours = kinds.kubectl(
        *("-n", namespace, "apply", "--server-side", "--field-manager=team", "--force-conflicts", "-f", "-"),
        stdin=json.dumps(tfjob(**{"max-instances": 6})),
    )
    words = [text.split()[1] for text in (first, again, other, ours)]
    assert words == ["created", "unchanged", "configured", "serverside-applied"]
    assert kinds.api().get(f"{path_of(tfjob(), namespace)}/job1")["spec"]["max-instances"] == 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_manifest_of_the_five_systems_is_taken(kinds: ControlPlane, namespace: str, example: Example):
    options = ("-n", namespace, "-f", str(example.path))
    assert "(server dry run)" in kinds.kubectl("apply", "--dry-run=server", *options)
    try:
        assert "created" in kinds.kubectl("apply", *options)
        assert kinds.kubectl("get", "-o", "name", *options).strip()
    finally:
        kinds.kubectl("delete", "--wait=false", *options)  # some of them are in no namespace


def test_what_dragon_shows_as_a_pod_of_apps_v1_is_none(kinds: ControlPlane, namespace: str):
    (example,) = (one for one in EXAMPLES if one.name == "e-dragon-serving-pod")
    text = example.path.read_text(encoding="utf-8").replace("apiVersion: v1", "apiVersion: apps/v1")
    said = kinds.kubectl("-n", namespace, "apply", "-f", "-", stdin=text, check=False)
    assert 'no matches for kind "Pod" in version "apps/v1"' in said
