"""What the process runner asks: is there a command, and can every variable be known without a cluster?"""

import json

import pytest

from sterna.model.errors import InvalidRequest
from sterna.model.jobs import Role
from sterna.wire.manifests import read_runnable, require_runnable
from sterna.wire.problems import InvalidDocument
from tests.wire.manifests.builders import (
    elasticjob,
    mpijob,
    pytorchjob,
    replica,
    tfjob,
    with_container,
    with_pod,
    workload,
)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(tfjob(), id="a TFJob"),
        pytest.param(pytorchjob(), id="a PyTorchJob"),
        pytest.param(elasticjob(), id="an ElasticJob"),
        pytest.param(mpijob(workers=None, version="v2beta1"), id="an MPIJob that is a launcher alone"),
        pytest.param(
            with_container(env=[{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            id="a field that an engine knows",
        ),
    ],
)
def test_a_job_with_commands_is_runnable_as_it_is(job):
    read = workload(job)
    assert require_runnable(read) == read


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_workers_of_an_mpijob_may_leave_their_command_to_the_image_and_hold_their_place(version):
    read = workload(mpijob(version=version))
    assert read.template(Role.WORKER).program.argv == ()
    runnable = require_runnable(read)
    assert runnable.template(Role.WORKER).program.argv == ("sleep", "infinity")
    assert runnable.template(Role.LAUNCHER) == read.template(Role.LAUNCHER)


SECRET = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "hub"}}}]


@pytest.mark.parametrize(
    ("job", "words"),
    [
        pytest.param(
            with_container(command=None),
            ["job default/job1", "worker", "command", "(train)"],
            id="an image's entry point",
        ),
        pytest.param(with_container(env=SECRET), ["env TOKEN", "the secret tokens"], id="a secret"),
        pytest.param(
            pytorchjob({"Master": replica("pytorch", env=SECRET), "Worker": replica("pytorch", command=None)}),
            ["master: env TOKEN", "worker: command"],
            id="both at once are told at once",
        ),
    ],
)
def test_what_only_a_container_could_run_is_refused(job, words):
    read = workload(job)
    with pytest.raises(InvalidRequest) as caught:
        require_runnable(read)
    assert [word for word in words if word not in str(caught.value)] == []


def test_what_only_a_cluster_could_do_is_told_with_what_nothing_honours():
    job = with_pod(initContainers=[{"name": "copy"}], preemptionPolicy="Never")
    (document,) = read_runnable(json.dumps(job))
    assert [text.split(": ")[1].rpartition(".")[2] for text in document.warnings] == [
        "preemptionPolicy",
        "initContainers",
    ]


def test_gates_that_nothing_would_ever_remove_are_refused():
    with pytest.raises(InvalidDocument, match=r"schedulingGates.*budget"):
        read_runnable(json.dumps(with_pod(schedulingGates=[{"name": "budget"}])))
