"""Snapshot files: what is written reads back the same, what is left out means the obvious, what is wrong is named."""

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sterna.model.errors import InvalidRequest, InvariantBroken
from sterna.model.jobs import Role
from sterna.model.phases import Phase
from sterna.model.resources import Resources
from sterna.model.target import PolicyMemory
from sterna.wire.problems import InvalidDocument
from sterna.wire.snapshot_file import dump_snapshot, load_snapshot, snapshot_schema
from tests.wire.snapshots import snapshots
from tests.worlds import cluster, job, node

SMALL = """
apiVersion: sterna.dev/v1alpha1
kind: Snapshot
nowSeconds: 120
nodes:
- {id: n1, accelerator: v100, allocatable: {cpu: "64", memory: 512Gi, gpu: 4}}
jobs:
- id: team/waits
  spec:
    submittedSeconds: 30
    workers: {min: 1, max: 4, request: {cpu: 500m, gpu: 1}}
- id: team/runs
  spec:
    workers: {min: 2, request: {gpu: 0.5, gpuMemory: 8Gi}}
    fixed: [{role: ps, request: {cpu: 1}}]
  state:
    workers: [{role: ps, ordinal: 0, node: n1}, {ordinal: 0, node: n1}, {ordinal: 1, node: n1}]
    unitsLeft: 40
    curve: {speedups: [1, 1.6], unitSeconds: 8}
"""


def small(**changes: Any) -> dict[str, Any]:
    """The small file as a document, with other values at the top."""
    return {**yaml.safe_load(SMALL), **changes}


def job_with(*, spec: dict[str, Any] | None = None, state: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"id": "a", "spec": {"workers": {"request": {"gpu": 1}}, **(spec or {})}, "state": state or {}}


def refusal_of(document: object) -> InvalidDocument:
    with pytest.raises(InvalidDocument) as refusal:
        load_snapshot(json.dumps(document))
    return refusal.value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots(), st.integers(0, 5000))
def test_what_is_written_reads_back_as_the_same_value_and_the_same_text(view, reserved):
    view = replace(view, reserved=reserved)
    text = dump_snapshot(view)
    again = load_snapshot(text)
    assert again == view
    assert dump_snapshot(again) == text


class Quoting(yaml.SafeDumper):
    """Quotes all text: by itself it leaves `0E0` bare, which is text in YAML 1.1 and a number in 1.2."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(snapshots())
def test_yaml_and_json_say_the_same(view):
    document = json.loads(dump_snapshot(view))
    assert load_snapshot(yaml.dump(document, Dumper=Quoting, allow_unicode=True)) == view
    assert load_snapshot(json.dumps(document).encode()) == view


def test_a_file_written_by_hand_means_what_its_author_means():
    view = load_snapshot(SMALL)
    runs, waits = view.jobs
    assert (waits.phase, waits.waiting_since_s, waits.as_of_s) == (Phase.WAITING, 30, 120)
    assert (waits.spec.workers_initial, waits.spec.request) == (1, Resources(500, 0, 1000))
    assert waits.curve.speedup(4) == 4.0
    assert (runs.phase, runs.size, runs.started_s, runs.waiting_since_s) == (Phase.RUNNING, 2, 0.0, None)
    assert (runs.spec.workers_max, runs.spec.request) == (2, Resources(0, 0, 500, 8 << 30))
    assert runs.workers[0].role is Role.PS
    assert runs.remaining_s(2, now_s=120) == pytest.approx(40 * 8 / 1.6)
    assert view.nodes[0].allocatable == Resources(64000, 512 << 30, 4000)


def test_finished_jobs_take_no_part():
    assert load_snapshot(json.dumps(small(jobs=[job_with(state={"phase": "Succeeded"})]))).jobs == ()


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        pytest.param(
            {"jobs": [job_with(spec={"workers": {"min": 0, "request": {}}})]}, "jobs[0].spec.workers.min", "1"
        ),
        pytest.param(
            {"jobs": [job_with(spec={"workers": {"min": 4, "max": 2, "request": {}}})]},
            "jobs[0].spec.workers.max",
            "at least workers.min (4)",
        ),
        pytest.param(
            {"jobs": [job_with(spec={"workers": {"max": 2, "initial": 3, "request": {}}})]},
            "jobs[0].spec.workers.initial",
            "between workers.min (1) and workers.max (2)",
        ),
        pytest.param(
            {"jobs": [job_with(spec={"workers": {"request": {"gpu": 1.5}}})]},
            "jobs[0].spec.workers.request.gpu",
            "a share of one GPU",
        ),
        pytest.param(
            {"jobs": [job_with(spec={"workers": {"request": {"cpu": "-1"}}})]},
            "jobs[0].spec.workers.request.cpu",
            "a quantity of 0 or more",
        ),
        pytest.param({"jobs": [job_with(spec={"workers": {}})]}, "jobs[0].spec.workers.request", "required"),
        pytest.param({"jobs": [job_with(spec={"wrokers": 1})]}, "jobs[0].spec.wrokers", "workers"),
        pytest.param({"jobs": [job_with(state={"phase": "Asleep"})]}, "jobs[0].state.phase", "'Waiting'"),
        pytest.param({"jobs": [job_with(state={"unitsLeft": -1})]}, "jobs[0].state.unitsLeft", "0 or more"),
        pytest.param({"jobs": [job_with(state={"unitsLeft": "7"})]}, "jobs[0].state.unitsLeft", "a number"),
        pytest.param({"jobs": [job_with(state={"ranSeconds": True})]}, "jobs[0].state.ranSeconds", "a number"),
        pytest.param({"jobs": [job_with(state={"curve": {}})]}, "jobs[0].state.curve", "paceSeconds or speedups"),
        pytest.param(
            {"jobs": [job_with(state={"curve": {"speedups": [1, 0]}})]}, "jobs[0].state.curve.speedups[1]", "above 0"
        ),
        pytest.param({"jobs": [job_with(spec={"fixed": [{"role": "worker"}]})]}, "jobs[0].spec.fixed[0]", "other than"),
        pytest.param({"jobs": [job_with(spec={"priority": 1.5})]}, "jobs[0].spec.priority", "a whole number"),
        pytest.param({"jobs": [job_with(), job_with()]}, "jobs[1].id", "each id once"),
        pytest.param({"jobs": None}, "jobs", "list"),
        pytest.param({"nodes": [{"id": "n"}]}, "nodes[0].allocatable", "required"),
        pytest.param({"nodes": [{"id": "n", "allocatable": {"gpu": "many"}}]}, "nodes[0].allocatable.gpu", "quantity"),
        pytest.param({"nodes": [{"id": "", "allocatable": {}}]}, "nodes[0].id", "at least 1"),
        pytest.param({"nodes": [{"id": "n", "allocatable": {}}] * 2}, "nodes[1].id", "each id once"),
        pytest.param({"nodes": [{"id": "n", "allocatable": {}, "ready": "yes"}]}, "nodes[0].ready", "true or false"),
        pytest.param({"nodes": [{"id": "n", "allocatable": {"gpu": "1G"}}]}, "nodes", "at most 1000000"),
        pytest.param({"kind": "Pod"}, "kind", "'Snapshot'"),
        pytest.param({"apiVersion": "v1"}, "apiVersion", "sterna.dev/v1alpha1"),
        pytest.param({"nowSeconds": None}, "nowSeconds", "a number"),
        pytest.param({"memory": {"jobs": {"a": {"queue": "high"}}}}, "memory.jobs.a.queue", "a number"),
    ],
)
def test_every_mistake_is_named_by_path_value_and_what_would_do(changes, path, says):
    refusal = refusal_of(small(**changes))
    assert refusal.field == path
    assert says in refusal.expected
    assert path in str(refusal)


def test_all_mistakes_are_found_and_the_first_few_shown():
    jobs = [{**job_with(spec={"workers": {"min": 0, "request": {}}}), "id": f"j{number}"} for number in range(9)]
    refusal = refusal_of(small(jobs=jobs))
    assert len(refusal.problems) == 9
    assert str(refusal).splitlines()[-1] == "... and 4 more problems"
    assert len(str(refusal).splitlines()) == 6


def test_mistakes_that_only_several_fields_make_are_all_found_too():
    jobs = [{**job_with(spec={"workers": {"min": 4, "max": 2, "request": {}}}), "id": name} for name in ("a", "b", "a")]
    paths = [problem.path for problem in refusal_of(small(jobs=jobs)).problems]
    assert paths == ["jobs[2].id", *(f"jobs[{number}].spec.workers.max" for number in range(3))]


@pytest.mark.parametrize("document", [None, 7, "text", [], True], ids=repr)
def test_what_is_no_object_at_all_is_refused(document):
    with pytest.raises(InvalidRequest):
        load_snapshot(json.dumps(document))


def test_a_number_that_json_cannot_say_is_never_written():
    view = replace(cluster(gpus=1), memory=PolicyMemory(values={"x": float("inf")}))
    with pytest.raises(InvariantBroken):
        dump_snapshot(view)


def test_the_schema_describes_every_key_that_is_written():
    schema = snapshot_schema()
    assert schema["$defs"]["SpecBody"]["properties"].keys() >= {"workers", "submittedSeconds", "restartsOnResize"}
    keys = {key for shape in [schema, *schema["$defs"].values()] for key in shape.get("properties", ())}
    view = cluster(nodes=[node("n1", gpus=2)], jobs=[job("a", on=["n1"], ps=1, left=3.0)], now_s=5.0)
    assert keys_in(json.loads(dump_snapshot(view))) <= keys
    assert all(
        shape.get("additionalProperties") is False for shape in schema["$defs"].values() if "properties" in shape
    )
    json.dumps(schema, allow_nan=False)


def keys_in(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys_in, value.values()))
    return set().union(*map(keys_in, value)) if isinstance(value, list) else set()


def test_three_thousand_jobs_read_back_as_they_were():
    nodes = [node(f"n{number:04}", gpus=8) for number in range(200)]
    view = cluster(nodes=nodes, jobs=[job(f"j{n:05}", at_most=8, left=n + 0.5, submitted_s=n) for n in range(3_000)])
    text = dump_snapshot(view)
    assert load_snapshot(text) == view
