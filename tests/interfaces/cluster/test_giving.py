"""`sterna submit` against a real API server: every shape as it is, all of a file or none, mistakes by name."""

import pytest
import yaml

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS
from tests.cluster.requests import ApiError
from tests.interfaces.cluster.console import Console, resource_of
from tests.interfaces.cluster.manifests import ELASTIC, SHAPES, elastic
from tests.interfaces.cluster.standings import DONE


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_taken_and_listed(console, name):
    shape = SHAPES[name]
    told = console.answer("submit", "-f", "-", stdin=shape.named("a"))
    assert f"job {console.namespace}/a created" in told
    stored = console.stored(resource_of(shape.kind), "a")
    assert stored["spec"].keys() == yaml.safe_load(shape.named("a"))["spec"].keys()
    [job] = console.data("get", "jobs")
    assert (job["id"], job["kind"], job["phase"]) == (f"{console.namespace}/a", shape.kind, "Waiting")
    assert job["message"] == "no operator has looked at it yet"


def test_a_dry_run_asks_the_api_server_and_creates_nothing(console):
    assert "would be created" in console.answer("submit", "--dry-run", "-f", "-", stdin=elastic("a"))
    with pytest.raises(ApiError):
        console.stored(ELASTIC_JOBS, "a")
    nowhere = elastic("a").replace("name: a", "name: a, namespace: nowhere")
    assert "there is no namespace 'nowhere'" in console.refused(3, "submit", "--dry-run", "-f", "-", stdin=nowhere)


def test_what_is_not_honoured_is_said_by_its_path(console):
    body = yaml.safe_load(elastic("a"))
    body["spec"]["runPolicy"] = {"schedulingPolicy": {"queue": "low"}}
    said = console.run("submit", "--dry-run", "-f", "-", stdin=yaml.safe_dump(body)).stderr
    path = "spec.runPolicy.schedulingPolicy.queue"
    assert said.startswith(f"warning: {console.namespace}/a: document 1: {path}: not honoured: ")


def test_a_mistake_is_told_by_its_field_before_anything_is_sent(console):
    wrong = elastic("a").replace("min: 1", "min: none")
    assert "spec.workers.min" in console.refused(2, "submit", "-f", "-", stdin=f"{elastic('b')}---\n{wrong}")
    assert console.data("get", "jobs") == []


def test_all_documents_are_taken_or_none(console):
    console.submit(elastic("taken"))
    text = f"{elastic('a')}---\n{elastic('taken')}"
    assert "taken exists already" in console.refused(1, "submit", "-f", "-", stdin=text)
    assert [job["name"] for job in console.data("get", "jobs")] == ["taken"]
    console.submit(f"{elastic('a')}---\n{SHAPES['MPIJob v2beta1'].named('b')}")
    assert console.answer("get", "jobs", "-o", "name").split() == [
        f"{console.namespace}/{name}" for name in ("a", "b", "taken")
    ]


def test_a_name_is_taken_by_any_kind_and_by_what_has_ended(console):
    console.submit(elastic("a"))
    other = SHAPES["TFJob, flat as DRAGON writes it"].named("a")
    assert "a exists already, as a ElasticJob" in console.refused(1, "submit", "-f", "-", stdin=other)
    console.stand(ELASTIC_JOBS, "a", DONE)
    assert "delete it first" in console.refused(1, "submit", "-f", "-", stdin=elastic("a"))


def test_a_generated_name_is_the_api_servers(console):
    text = ELASTIC.replace("{name: NAME}", "{generateName: run}")
    names = [console.data("submit", "-f", _written(console, text))[0]["name"] for _ in range(2)]
    assert len(set(names)) == 2
    assert all(name.startswith("run-") for name in names)


def test_somebody_elses_job_is_taken_with_a_warning_and_left_alone(console):
    text = elastic("a").replace("workers:", "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}\n  workers:")
    result = console.run("submit", "-f", "-", stdin=text)
    assert result.exit_code == 0
    assert "Sterna leaves it alone" in result.stderr
    assert "managedBy names kueue" in console.data("get", "jobs")[0]["message"]
    assert "kueue.x-k8s.io/multikueue looks after it" in console.answer("explain", "a")


def _written(console: Console, text: str) -> str:
    path = console.kubeconfig.parent / "job.yaml"
    path.write_text(text)
    return str(path)
