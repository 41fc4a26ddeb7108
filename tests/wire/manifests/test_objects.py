"""Jobs as the API server stores them: read like their texts, whatever the server added, with the limits of texts."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.model.errors import InvalidRequest
from sterna.wire.document_limits import MIB
from sterna.wire.manifests import workload_of_object
from sterna.wire.problems import InvalidDocument
from tests.wire.manifests.builders import Manifest, elasticjob, mpijob, pytorchjob, tfjob, workload

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def stored(job: Manifest, **metadata: Any) -> Manifest:
    """With everything that a server and kubectl add."""
    job = copy.deepcopy(job)
    job["metadata"] |= {
        "namespace": "team",
        "uid": "6d4bd4a3-3a3f-4a5c-8a3e-0d6a3c1f8f9b",
        "resourceVersion": "1234",
        "generation": 3,
        "selfLink": "/apis/x",
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "finalizers": ["example.com/kept"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1"}],
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}] * 100,
        "annotations": {LAST_APPLIED: json.dumps(job, sort_keys=True, separators=(",", ":"))},
        **metadata,
    }
    job["status"] = {"conditions": [{"type": "Running", "status": "True"}] * 30_000}
    return job


@pytest.mark.parametrize(
    "job", [tfjob(), pytorchjob(), mpijob(), elasticjob(image="train")], ids=lambda job: job["kind"]
)
def test_what_a_server_adds_changes_nothing(job):
    document = workload_of_object(stored(job))
    named = copy.deepcopy(job)
    named["metadata"]["namespace"] = "team"
    assert document.workload == workload(named)
    assert json.loads(document.text)["spec"] == job["spec"]
    assert "managedFields" not in document.text


def test_reading_leaves_the_object_as_it_is():
    job = stored(mpijob())
    before = copy.deepcopy(job)
    workload_of_object(job)
    assert job == before


def test_all_problems_are_told_and_their_paths_begin_at_the_object():
    job = stored(tfjob({"Worker": {"replicas": 0, "template": {"spec": {"containers": []}}}}, **{"max-instance": 3}))
    with pytest.raises(InvalidDocument) as caught:
        workload_of_object(job)
    told = {problem.path: problem.expected for problem in caught.value.problems}
    assert list(told) == [
        "spec.max-instance",
        "spec.tfReplicaSpecs.Worker.replicas",
        "spec.tfReplicaSpecs.Worker.template.spec.containers",
    ]
    assert 'did you mean "max-instances"?' in told["spec.max-instance"]


@pytest.mark.parametrize(
    ("job", "path", "expected"),
    [
        pytest.param(elasticjob(), "spec.image", "an image", id="no image"),
        pytest.param(
            elasticjob(image="x", roles={"chief": {"command": ["x"]}}),
            "spec.roles.chief.image",
            "an image",
            id="a role",
        ),
        pytest.param(
            elasticjob(template={"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}}, command=None),
            "spec.template.spec.containers[1].image",
            "an image",
            id="a container beside",
        ),
        pytest.param(
            elasticjob(image="x", resources={"requests": {"gpu": 1}}),
            "spec.resources.requests.gpu",
            "nvidia.com/gpu in a cluster",
            id="our own word for a GPU",
        ),
        pytest.param(
            elasticjob(image="x", resources={"limits": {"nvidia.com/gpu": "0.5"}}),
            'spec.resources.limits["nvidia.com/gpu"]',
            "kubeshare/gpu_request",
            id="a part of a card",
        ),
    ],
)
def test_what_only_the_process_runner_understands_is_refused_in_a_cluster(job, path, expected):
    assert workload(job), "as processes it runs"
    with pytest.raises(InvalidDocument) as caught:
        workload_of_object(job)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert expected in problem.expected


def written_in(version: str, job: Manifest) -> Manifest:
    """Stored as v1, applied as `version`."""
    job = stored({**job, "apiVersion": f"kubeflow.org/{version}"})
    job["apiVersion"] = "kubeflow.org/v1"
    return job


@pytest.mark.parametrize(
    ("job", "version"),
    [
        pytest.param(written_in("v2beta1", mpijob(mpiImplementation="Intel")), "v2beta1", id="words of v2beta1"),
        pytest.param(written_in("v2beta1", mpijob(runLauncherAsWorker=True)), "v2beta1", id="another word of it"),
        pytest.param(written_in("v2beta1", mpijob()), "v2beta1", id="words of neither: as it was applied"),
        pytest.param(written_in("v1", mpijob()), "v1", id="words of neither, applied as v1"),
        pytest.param(written_in("v2beta1", mpijob(backoffLimit=3)), "v1", id="words of v1 go before that"),
        pytest.param({**mpijob(), "apiVersion": "kubeflow.org/v2beta1"}, "v2beta1", id="as it is stored"),
        pytest.param({**mpijob(cleanPodPolicy="All"), "apiVersion": "kubeflow.org/v2beta1"}, "v1", id="v1 read as v2"),
    ],
)
def test_an_mpijob_is_of_the_version_whose_words_it_uses(job, version):
    assert workload_of_object(job).workload.api_version == f"kubeflow.org/{version}"


def test_an_mpijob_that_mixes_both_versions_is_refused():
    with pytest.raises(InvalidDocument, match=r"spec\.mpiImplementation"):
        workload_of_object(mpijob(cleanPodPolicy="All", mpiImplementation="Intel"))


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        pytest.param({}, "metadata", id="nothing at all"),
        pytest.param({"metadata": []}, "metadata", id="a list for metadata"),
        pytest.param({"metadata": {"name": "a"}}, "kind", id="no kind"),
        pytest.param({**tfjob(), "spec": "x"}, "spec", id="text for a spec"),
        pytest.param(tfjob(anything=deep(100)), "64 levels", id="too deep"),
        pytest.param(tfjob(anything=["x"] * 30_000), "at most 20000", id="too many values"),
        pytest.param(elasticjob(args=["x" * (MIB + 1)]), "at most 1048576 bytes", id="too long"),
        pytest.param(elasticjob(args=["\ud800"]), "UTF-8", id="half a sign"),
        pytest.param(elasticjob(epochs=float("nan")), "finite", id="not a number"),
        pytest.param(elasticjob(priority=1 << 70), "finite number up to", id="a number too large"),
    ],
)
def test_r10_a_hostile_object_is_refused_with_a_reason(job, expected):
    with pytest.raises(InvalidRequest) as caught:
        workload_of_object(job)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 5_000


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


@given(
    job=st.sampled_from([tfjob(), pytorchjob(), mpijob(), elasticjob()]),
    part=st.sampled_from(["metadata", "spec", "kind", "apiVersion"]),
    value=values,
)
def test_r10_whatever_stands_there_is_read_or_refused(job, part, value):
    with contextlib.suppress(InvalidRequest):
        assert workload_of_object({**job, part: value}).workload.name
