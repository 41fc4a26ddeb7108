"""Every problem of a file in one go: with its document, its path and what would do, and none that only follows."""

import json

import pytest

from sterna.model.errors import InvalidRequest
from sterna.wire.manifests import read_manifests
from sterna.wire.problems import InvalidDocument
from tests.wire.manifests.builders import elasticjob, problems, pytorchjob, replica, tfjob

WRONG_IN_MANY_PLACES = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: Train_1
spec:
  elasticPolicy: {minReplicas: 4, maxReplicas: 2}
  runPolicy: {cleanPodPolicy: Sometimes, backOffLimit: 3}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: pytorch
              image: train
              comand: [python, train.py]
              env: [{name: STEPS, value: 100}]
              resources:
                limits: {nvidia.com/gpu: lots, cpu: 1}
"""


def test_all_problems_of_a_manifest_are_told():
    with pytest.raises(InvalidDocument) as caught:
        read_manifests(WRONG_IN_MANY_PLACES)
    container = "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]"
    assert sorted(problem.path for problem in caught.value.problems) == sorted(
        f"document 1: {path}"
        for path in (
            "metadata.name",
            "spec.elasticPolicy.minReplicas",
            "spec.runPolicy.cleanPodPolicy",
            "spec.runPolicy.backOffLimit",
            f"{container}.comand",
            f"{container}.env[0].value",
            f'{container}.resources.limits["nvidia.com/gpu"]',
        )
    )


def test_the_message_names_document_path_value_and_what_would_do():
    good = json.dumps(pytorchjob())
    with pytest.raises(InvalidDocument) as caught:
        read_manifests(f"{good}\n---\n{json.dumps(elasticjob(contract='hope'))}".replace("job1", "job2", 1))
    assert str(caught.value) == (
        "document 2: spec.contract: 'hope' is not valid; "
        "expected 'parameter-server', 'torchrun', 'discovery' or 'restart'"
    )


def test_problems_of_all_documents_are_told():
    bad = {**elasticjob(workers={"min": 0}), "metadata": {"name": "a"}}
    worse = {**elasticjob(priority="high"), "metadata": {"name": "b"}}
    text = f"{json.dumps(bad)}\n---\n- not a mapping\n---\na: [\n---\n{json.dumps(worse)}\n"
    with pytest.raises(InvalidDocument) as caught:
        read_manifests(text)
    assert [problem.path.split(":")[0] for problem in caught.value.problems] == [f"document {n}" for n in (1, 2, 3, 4)]


def test_lines_are_those_of_the_whole_text():
    with pytest.raises(InvalidDocument, match="document 2: line 5, column"):
        read_manifests("# a comment\n---\nkind: 1\n---\na: b: c\n")


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(
            tfjob({"Worker": replica("tensorflow", "two")}, **{"min-instances": 3}), id="an unreadable number"
        ),
        pytest.param(tfjob({"Worker": {"template": {"spec": {"containers": ["x"]}}}}), id="an unreadable container"),
        pytest.param(tfjob({"Worker": "two of them"}), id="an unreadable role"),
        pytest.param(pytorchjob(elasticPolicy="yes"), id="an unreadable policy"),
        pytest.param({**elasticjob(), "metadata": "x"}, id="unreadable metadata"),
        pytest.param({**elasticjob(), "spec": ["x"]}, id="an unreadable spec"),
    ],
)
def test_what_only_follows_from_another_problem_is_not_told(job):
    assert len(problems(job)) == 1


@pytest.mark.parametrize(
    ("job", "path", "expected"),
    [
        pytest.param({**elasticjob(), "kind": "ElasticJobs"}, "kind", "did you mean ElasticJob?", id="a misspelt kind"),
        pytest.param({**elasticjob(), "kind": "ConfigMap"}, "kind", "one of ElasticJob", id="a kind of others"),
        pytest.param({**elasticjob(), "kind": None}, "kind", "one of ElasticJob", id="no kind"),
        pytest.param(
            {**elasticjob(), "apiVersion": "sterna.dev/v1"}, "apiVersion", "sterna.dev/v1alpha1", id="another version"
        ),
        pytest.param(
            {**pytorchjob(), "apiVersion": None}, "apiVersion", "kubeflow.org/v1 for a PyTorchJob", id="no version"
        ),
        pytest.param({**elasticjob(), "sepc": {}}, "sepc", 'did you mean "spec"?', id="a misspelt spec"),
        pytest.param({**elasticjob(), "metadata": {}}, "metadata.name", "lower-case", id="no name"),
        pytest.param({**elasticjob(), "metadata": {"name": "a.b"}}, "metadata.name", "lower-case", id="a dot"),
        pytest.param({**elasticjob(), "metadata": {"name": "1a"}}, "metadata.name", "letter", id="a digit first"),
        pytest.param({**elasticjob(), "metadata": {"name": "x" * 60}}, "metadata.name", "54", id="a name too long"),
        pytest.param(
            {**elasticjob(), "metadata": {"name": "a", "namespace": "A"}}, "metadata.namespace", "lower", id="namespace"
        ),
        pytest.param(
            {**elasticjob(), "metadata": {"name": "a", "lables": {}}},
            "metadata.lables",
            '"labels"',
            id="misspelt labels",
        ),
        pytest.param(
            {**elasticjob(), "metadata": {"name": "a", "annotations": {"sterna.dev/epochs": 3}}},
            'metadata.annotations["sterna.dev/epochs"]',
            'write "3" with the quotes',
            id="an annotation that is a number",
        ),
        pytest.param(elasticjob(**{"<<": {}}), 'spec["<<"]', "YAML 1.2", id="a merge"),
        pytest.param(pytorchjob(maxReplicas=3), "spec.maxReplicas", "one of the keys", id="a key from elsewhere"),
        pytest.param(pytorchjob(runpolicy={}), "spec.runpolicy", '"runPolicy"', id="a key in another case"),
    ],
)
def test_what_is_wrong_around_the_job(job, path, expected):
    found = problems(job)
    assert list(found) == [path]
    assert expected in found[path][1]


def test_two_jobs_of_one_name():
    assert problems(elasticjob(), tfjob()) == {
        "document 2: metadata.name": ("job1", "another name: document 1 has this one")
    }
    other = {**tfjob(), "metadata": {"name": "job1", "namespace": "4th-lab"}}  # a digit may come first there
    assert not problems(elasticjob(), other)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("---\n{0}\n", 1, id="a marker before the first"),
        pytest.param("# only a comment\n---\n{0}\n---\n# another\n", 1, id="comments say nothing"),
        pytest.param("{0}\n...\n", 1, id="an end marker"),
        pytest.param("%YAML 1.2\n---\n{0}\n", 1, id="a directive"),
        pytest.param("\ufeff{0}", 1, id="a byte order mark"),
        pytest.param("--- # first\n{0}\n--- # second\n{1}\n", 2, id="comments on the markers"),
        pytest.param("{0}\r\n---\r\n{1}\r\n", 2, id="lines that end in two characters"),
    ],
)
def test_documents_are_told_apart(text, count):
    jobs = [json.dumps({**elasticjob(), "metadata": {"name": name}}) for name in "ab"]
    documents = read_manifests(text.format(*jobs))
    assert [document.workload.name for document in documents] == ["a", "b"][:count]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "---\n---\n", "...\n"])
def test_a_text_without_a_document_is_refused(text):
    with pytest.raises(InvalidRequest, match="at least one job"):
        read_manifests(text)


def test_a_text_block_may_hold_what_looks_like_a_marker():
    head = "apiVersion: sterna.dev/v1alpha1\nkind: ElasticJob\nmetadata: {name: a}\n"
    job = f"{head}spec:\n  command:\n    - |\n      a\n      ---\n      b\n"
    (document,) = read_manifests(job)
    assert document.workload.roles[0].program.argv == ("a\n---\nb\n",)
    assert document.text == job
