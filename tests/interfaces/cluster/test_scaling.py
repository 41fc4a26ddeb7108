"""`sterna scale` against a real API server: bounds land where each kind and shape has them, and are read back alike."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sterna.engines.kubernetes.console.size_requests import operations, resized
from sterna.model.errors import InvalidRequest
from sterna.wire.manifests import workload_of_object
from tests.cluster.requests import ApiError
from tests.interfaces.cluster.console import Console, resource_of
from tests.interfaces.cluster.manifests import SHAPES, TF_NESTED, TORCH_ALONE

ANNOTATIONS = ("sterna.dev/min-workers", "sterna.dev/max-workers")


@pytest.fixture(params=list(SHAPES))
def shape(request):
    return SHAPES[request.param]


def bounds(console: Console, name: str) -> tuple[int, int]:
    workers = console.data("get", "job", name)["workers"]
    return workers["min"], workers["max"]


def test_bounds_of_every_shape_change_and_are_read_back(console, shape):
    console.submit(shape.named("a"))
    assert bounds(console, "a") == shape.bounds
    before = console.stored(resource_of(shape.kind), "a")["metadata"]["generation"]
    assert "may have 2 to 6 workers" in console.answer("scale", "a", "--min", "2", "--max", "6")
    assert bounds(console, "a") == (2, 6)
    console.answer("scale", "a", "--workers", "3")
    assert bounds(console, "a") == (3, 3)
    after = console.stored(resource_of(shape.kind), "a")
    assert after["metadata"]["generation"] > before
    console.answer("scale", "a", "--workers", "3")
    assert (
        console.stored(resource_of(shape.kind), "a")["metadata"]["resourceVersion"]
        == after["metadata"]["resourceVersion"]
    ), "what is so already is not written again"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        pytest.param("TFJob, flat as DRAGON writes it",
                     {"/spec/min-instances": 2, "/spec/max-instances": 6}, id="flat"),
        pytest.param("PyTorchJob with elasticPolicy",
                     {"/spec/elasticPolicy/minReplicas": 2, "/spec/elasticPolicy/maxReplicas": 6}, id="elasticPolicy"),
        pytest.param("ElasticJob", {"/spec/workers/min": 2, "/spec/workers/max": 6}, id="workers"),
        pytest.param("MPIJob v1 with Voda's environment",
                     {f"/spec/mpiReplicaSpecs/Launcher/template/spec/containers/0/env/{index}/value": value
                      for index, value in ((0, "3"), (1, "4"), (2, "4"), (3, "12"))}, id="environment, by processes"),
        pytest.param("PyTorchJob with our annotations",
                     {f"/metadata/annotations/{key.replace('/', '~1')}": value
                      for key, value in zip(ANNOTATIONS, ("2", "6"), strict=True)}, id="annotations"),
    ],
)  # fmt: skip
def test_bounds_land_where_the_author_has_them(console, name, fields):
    shape = SHAPES[name]
    console.submit(shape.named("a"))
    console.answer("scale", "a", "--min", "2", "--max", "6")
    stored = console.stored(resource_of(shape.kind), "a")
    assert {pointer: _at(stored, pointer) for pointer in fields} == fields
    if name != "PyTorchJob with our annotations":
        assert not set(ANNOTATIONS) & set(stored["metadata"].get("annotations", {}))


def test_a_rigid_job_gets_another_size_by_its_replicas_alone(console):
    console.submit(TF_NESTED.replace("NAME", "a"))
    console.answer("scale", "a", "--workers", "5")
    stored = console.stored(resource_of("TFJob"), "a")
    assert stored["spec"]["tfReplicaSpecs"]["worker"]["replicas"] == 5
    assert "annotations" not in stored["metadata"]
    console.answer("scale", "a", "--max", "8")
    stored = console.stored(resource_of("TFJob"), "a")
    assert stored["metadata"]["annotations"] == {ANNOTATIONS[1]: "8"}
    assert bounds(console, "a") == (5, 8)


def test_what_makes_no_sense_is_refused_and_changes_nothing(console):
    console.submit(SHAPES["PyTorchJob with elasticPolicy"].named("a"))
    console.submit(TORCH_ALONE.replace("NAME", "alone"))
    assert "workers.max" in console.refused(2, "scale", "a", "--min", "4")
    assert "workers.max" in console.refused(2, "scale", "a", "--min", "3", "--max", "2")
    assert "no role of which there may be more" in console.refused(2, "scale", "alone", "--workers", "2")
    console.answer("scale", "alone", "--workers", "1")
    assert bounds(console, "a") == (1, 3)
    assert "there is no job" in console.refused(3, "scale", "nope", "--workers", "2")


def test_a_write_that_another_came_before_is_a_conflict(console):
    console.submit(SHAPES["ElasticJob"].named("a"))
    before = console.stored(resource_of("ElasticJob"), "a")
    console.answer("suspend", "a")
    edits, _ = resized(before, parsed(before), parsed, low=1, high=4)
    steps = operations(before, edits, resource_version=before["metadata"]["resourceVersion"])
    path = console.path(resource_of("ElasticJob"), "a")
    with pytest.raises(ApiError) as caught:
        console.api.patch(path, steps, "application/json-patch+json")
    assert caught.value.status == 409


@settings(deadline=None)
@given(low=st.integers(1, 40), more=st.integers(0, 40), name=st.sampled_from(sorted(SHAPES)), again=st.integers(1, 9))
def test_any_bounds_fit_any_shape_and_reading_them_again_changes_nothing(low, more, name, again):
    document = yaml.safe_load(SHAPES[name].named("a"))
    for least, most in ((low, low + more), (again, again), (low, low + more)):
        workload = parsed(document)
        edits, read = resized(document, workload, parsed, low=least, high=most)
        assert (read.workers_min, read.workers_max) == (least, most)
        patched = applied(document, operations(document, edits, resource_version="1"))
        assert parsed(patched) == read
        assert resized(patched, read, parsed, low=least, high=most)[0] == []
        document = patched


def test_a_minimum_above_the_maximum_is_told_by_name():
    document = yaml.safe_load(SHAPES["ElasticJob"].named("a"))
    with pytest.raises(InvalidRequest, match=r"workers\.max"):
        resized(document, parsed(document), parsed, low=3, high=2)


def parsed(document):
    return workload_of_object(document).workload


def applied(document, steps):
    """What an API server makes of a JSON patch of additions."""
    made = json.loads(json.dumps(document))
    for step in steps:
        if step["op"] == "replace":
            continue
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        here = made
        for part in parents:
            here = here[int(part) if isinstance(here, list) else part]
        here[int(last) if isinstance(here, list) else last] = step["value"]
    return made


def _at(document, pointer):
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        document = document[int(key) if isinstance(document, list) else key]
    return document
