"""ElasticJob, our own kind: short and in full."""

import pytest

from sterna.model.jobs import Role
from sterna.model.resources import Resources
from sterna.model.workload import Contract, RestartPolicy, Success
from tests.wire.manifests.builders import annotated, elasticjob, pod, problems, workload

CONTAINER = {
    "command": ["python", "train.py"],
    "args": ["--lr", "0.1"],
    "env": [{"name": "A", "value": "1"}],
    "workingDir": "src",
    "image": "train",
    "resources": {"limits": {"cpu": "2", "gpu": "0.5"}},
    "lifecycle": {"preStop": {"exec": {"command": ["save"]}}},
}


def test_the_short_form_says_what_the_long_one_does():
    short = workload(elasticjob(**CONTAINER, terminationGracePeriodSeconds=7, restartPolicy="Never"))
    template = {"spec": {"containers": [{"name": "main", **CONTAINER}], "terminationGracePeriodSeconds": 7}}
    template["spec"]["restartPolicy"] = "Never"
    assert workload(elasticjob(command=None, template=template)) == short
    worker = short.template(Role.WORKER)
    assert worker.program.argv == ("python", "train.py", "--lr", "0.1")
    assert (worker.program.cwd, worker.program.grace_s, worker.program.pre_stop) == ("src", 7.0, ("save",))
    assert (worker.request, worker.restart_policy) == (Resources(2000, 0, 500), RestartPolicy.NEVER)


@pytest.mark.parametrize(
    ("workers", "sizes"),
    [
        pytest.param({}, (1, 1, 1, 1), id="nothing said: one worker"),
        pytest.param({"min": 2}, (2, 2, 2, 1), id="only a minimum"),
        pytest.param({"max": 4}, (1, 1, 4, 1), id="only a maximum"),
        pytest.param({"initial": 3}, (3, 3, 3, 1), id="only a size"),
        pytest.param({"min": 1, "max": 8, "initial": 4, "step": 2}, (1, 4, 8, 2), id="everything"),
    ],
)
def test_how_many_workers(workers, sizes):
    job = workload(elasticjob(workers=workers))
    assert (job.workers_min, job.workers_initial, job.workers_max, job.workers_step) == sizes


def test_what_the_owner_may_say_beside():
    job = workload(
        elasticjob(epochs=12.5, priority=-3, accelerator="a100", category="vision", port=7777, processesPerWorker=2)
    )
    assert (job.units_total, job.priority, job.accelerator, job.category) == (12.5, -3, "a100", "vision")
    assert (job.port, job.processes_per_worker) == (7777, 2)


def test_annotations_say_the_same_for_every_kind():
    pairs = {"epochs": "12.5", "priority": "-3", "accelerator": "a100", "category": "vision"}
    job = workload(annotated(elasticjob(), **pairs))
    assert (job.units_total, job.priority, job.accelerator, job.category) == (12.5, -3, "a100", "vision")


PS = {"ps": {"command": ["python", "ps.py"], "replicas": 2}}


@pytest.mark.parametrize(
    ("spec", "contract", "success"),
    [
        pytest.param({}, Contract.RESTART, Success.ALL_WORKERS, id="checkpoint and restart is the default"),
        pytest.param({"contract": "torchrun"}, Contract.TORCHRUN, Success.LEADER, id="torchrun ends with its members"),
        pytest.param(
            {"contract": "parameter-server", "roles": PS}, Contract.PARAMETER_SERVER, Success.ALL_WORKERS, id="servers"
        ),
        pytest.param(
            {"contract": "discovery", "roles": {"launcher": {"command": ["horovodrun"]}}},
            Contract.DISCOVERY,
            Success.LEADER,
            id="a launcher decides about the job",
        ),
        pytest.param({"successPolicy": "Leader"}, Contract.RESTART, Success.LEADER, id="worker 0 alone decides"),
    ],
)
def test_contracts(spec, contract, success):
    job = workload(elasticjob(**spec))
    assert (job.contract, job.success) == (contract, success)


def test_fixed_roles_stand_before_the_workers():
    job = workload(elasticjob(roles={**PS, "evaluator": {"template": pod()}}))
    assert [(role.role, role.replicas) for role in job.roles[:-1]] == [(Role.PS, 2), (Role.EVALUATOR, 1)]


@pytest.mark.parametrize(
    ("job", "path", "expected"),
    [
        pytest.param(
            elasticjob(workers={"min": 3, "max": 2}), "spec.workers.min", "at most 2 (spec.workers.max)", id="min, max"
        ),
        pytest.param(
            elasticjob(workers={"min": 1, "max": 2, "initial": 3}), "spec.workers.initial", "from 1 to 2", id="initial"
        ),
        pytest.param(elasticjob(workers={"mim": 1}), "spec.workers.mim", '"min"', id="a misspelt bound"),
        pytest.param(elasticjob(contract="hope"), "spec.contract", "'restart'", id="a contract nobody knows"),
        pytest.param(elasticjob(contract="discovery"), "spec.roles", "launcher", id="discovery without a launcher"),
        pytest.param(elasticjob(contract="parameter-server"), "spec.roles", "ps", id="servers without a server"),
        pytest.param(elasticjob(template=pod()), "spec.command", "either template", id="both forms at once"),
        pytest.param(
            elasticjob(roles={"chief": {"command": ["x"], "replicas": 2}}),
            "spec.roles.chief.replicas",
            "1",
            id="chiefs",
        ),
        pytest.param(elasticjob(roles={"boss": {}}), "spec.roles.boss", "one of the keys", id="a role nobody knows"),
        pytest.param(elasticjob(epochs=0), "spec.epochs", "above 0", id="no epochs"),
        pytest.param(
            elasticjob(resources={"limits": {"gpu": 1.5}}), "spec.resources", "whole GPUs", id="one and a half"
        ),
        pytest.param(
            annotated(elasticjob(), epochs="soon"), 'metadata.annotations["sterna.dev/epochs"]', "above 0", id="w"
        ),
        pytest.param(
            annotated(elasticjob(), min_worker="1"),
            'metadata.annotations["sterna.dev/min-worker"]',
            '"sterna.dev/min-workers"',
            id="a misspelt annotation",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(job, path, expected):
    found = problems(job)
    assert list(found) == [path]
    assert expected in found[path][1]


def test_notes_of_an_engine_may_stand_among_the_annotations():
    assert not problems(annotated(elasticjob(), enqueued="12", policy="afs-l"))
