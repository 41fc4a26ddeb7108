"""What a client may rely on: promises that the engine in memory keeps, over HTTP and in process, and the real one."""

import itertools
import sys

import pytest

from sterna.interfaces.client import Client
from sterna.interfaces.scheduler_port import PHASES
from sterna.model.errors import Conflict, InvalidRequest, NotFound, SternaError
from tests.interfaces.service.engines import engine
from tests.interfaces.service.serving import eventually, in_process, manifest, service

SLOWLY_S = 60.0  # real processes on a busy machine
JOB_KEYS = {
    *("name", "namespace", "id", "uid", "kind", "phase", "reason", "message", "workers", "gpus", "nodes", "policy"),
    *("priority", "submittedAt", "startedAt", "finishedAt", "waitingSeconds", "runningSeconds", "totalSeconds"),
    *("progress", "step", "epoch", "metrics", "restarts", "resizes", "migrations", "stepsLost", "incarnation"),
    *("checkpoint", "remainingSeconds", "conditions"),
}
NODE_KEYS = {
    *("name", "ready", "schedulable", "virtual", "cpuMilli", "memoryBytes", "gpus", "used", "workers", "limits")
}
WORKER_KEYS = {
    *("name", "role", "ordinal", "rank", "node", "devices", "pid", "phase", "standby", "startedAt", "exitCode", "log")
}
EVENT_KEYS = {"id", "at", "job", "node", "type", "reason", "message", "data"}
_NUMBERS = itertools.count()


@pytest.fixture(scope="module", params=["in memory", "in process", pytest.param("local", marks=pytest.mark.slow)])
def client(request, tmp_path_factory):
    if request.param == "in process":
        with in_process() as (client, _):
            yield client
        return
    home = tmp_path_factory.mktemp("home")
    with service(home) if request.param == "in memory" else engine(home):
        yield Client(str(home))


@pytest.fixture
def name(client):
    """A name that no job has; whoever took it is deleted afterwards, and its room free again."""
    chosen = f"job-{next(_NUMBERS)}"
    yield chosen
    for job in client.jobs():
        if job["name"].startswith(chosen):
            client.delete(job["id"])
    assert eventually(lambda: all(not node["workers"] for node in client.nodes()), within_s=SLOWLY_S)


def phase(client: Client, job_id: str, *wanted: str) -> bool:
    return bool(eventually(lambda: client.job(job_id)["phase"] in wanted, within_s=SLOWLY_S))


def test_a_job_is_known_as_soon_as_it_is_submitted(client, name):
    [job] = client.submit(manifest(name, least=1, most=2))
    assert job.keys() >= JOB_KEYS
    assert (job["id"], job["namespace"], job["kind"]) == (f"default/{name}", "default", "ElasticJob")
    assert job["phase"] in PHASES
    assert (job["workers"]["min"], job["workers"]["max"]) == (1, 2)
    assert job["submittedAt"].endswith("Z")
    assert name in [one["name"] for one in client.jobs()]


def test_a_job_that_runs_says_where(client, name):
    client.submit(manifest(name, least=2, most=2))
    assert phase(client, name, "Running")
    assert eventually(lambda: len(client.job(name)["workerDetails"]) == 2, within_s=SLOWLY_S)
    job = client.job(name)
    assert job.keys() >= {*JOB_KEYS, "manifest", "workerDetails", "history"}
    assert job["workers"]["current"] == 2
    assert all(worker.keys() >= WORKER_KEYS for worker in job["workerDetails"])
    assert set(job["nodes"]) == {worker["node"] for worker in job["workerDetails"]}
    there = [worker for node in client.nodes() for worker in node["workers"]]
    assert sum(name in worker for worker in there) == 2
    assert sum(node["used"]["gpus"] for node in client.nodes()) == 2


def test_nodes_are_complete(client):
    assert all(node.keys() >= NODE_KEYS for node in client.nodes())
    assert [node["gpus"] for node in client.nodes()] == [2, 2]


def test_a_dry_run_checks_and_creates_nothing(client, name):
    [job] = client.submit(manifest(name), dry_run=True)
    assert job["name"] == name
    with pytest.raises(NotFound):
        client.job(name)
    with pytest.raises(InvalidRequest):
        client.submit(manifest(name).replace("min: 1", "min: x"), dry_run=True)


def test_all_documents_are_taken_or_none(client, name):
    wrong = manifest(f"{name}-b").replace("min: 1", "min: 0")
    with pytest.raises(InvalidRequest, match="min"):
        client.submit(f"{manifest(name)}---\n{wrong}")
    with pytest.raises(NotFound):
        client.job(name)
    made = client.submit(f"{manifest(name)}---\n{manifest(f'{name}-b')}")
    assert [job["name"] for job in made] == [name, f"{name}-b"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("kind: [", "", id="no YAML"),
        pytest.param("hello", "", id="a word"),
        pytest.param("kind: Pod\napiVersion: v1\nmetadata: {name: x}\n", "kind", id="another kind"),
        pytest.param(manifest("x").replace("name: x", "labels: {}"), "metadata.name", id="no name"),
        pytest.param(manifest("x").replace("min: 1", "min: two"), "spec.workers.min", id="a number that is none"),
    ],
)
def test_a_wrong_manifest_is_refused_and_the_field_named(client, wrong, says):
    with pytest.raises(InvalidRequest) as caught:
        client.submit(wrong)
    assert says in caught.value.field
    assert client.health()["ok"]


def test_a_name_is_taken_until_its_job_is_deleted(client, name):
    client.submit(manifest(name))
    with pytest.raises(Conflict, match=name):
        client.submit(manifest(name))


def test_a_generated_name_is_always_a_fresh_one(client, name):
    text = manifest(name).replace(f"name: {name}", f"generateName: {name}-", 1)
    names = {client.submit(text)[0]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(one.startswith(f"{name}-") for one in names)


def test_jobs_are_listed_by_namespace(client, name):
    client.submit(manifest(name, namespace="elsewhere"))
    assert name in [job["name"] for job in client.jobs(namespace="elsewhere")]
    assert name not in [job["name"] for job in client.jobs(namespace="default")]
    assert client.job(f"elsewhere/{name}")["namespace"] == "elsewhere"


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda client: client.job("nope"), id="asked for"),
        pytest.param(lambda client: client.explain("nope"), id="to be explained"),
        pytest.param(lambda client: client.suspend("nope"), id="to be suspended"),
        pytest.param(lambda client: client.resume("nope"), id="to be resumed"),
        pytest.param(lambda client: client.delete("nope"), id="to be deleted"),
        pytest.param(lambda client: client.scale("nope", workers=1), id="to be scaled"),
        pytest.param(lambda client: client.migrate("nope", to="node-1"), id="to be moved"),
        pytest.param(lambda client: list(client.logs("nope")), id="to be heard"),
    ],
)
def test_what_is_not_there_is_not_found(client, ask):
    with pytest.raises(NotFound) as caught:
        ask(client)
    assert (caught.value.kind, caught.value.name) == ("job", "default/nope")


def test_bounds_change_and_the_job_follows(client, name):
    client.submit(manifest(name, least=1, most=1))
    assert phase(client, name, "Running")
    assert client.scale(name, maximum=2)["workers"]["max"] == 2
    assert eventually(lambda: client.job(name)["workers"]["current"] == 2, within_s=SLOWLY_S)
    fixed = client.scale(name, workers=1)["workers"]
    assert (fixed["min"], fixed["max"]) == (1, 1)
    assert eventually(lambda: client.job(name)["workers"]["current"] == 1, within_s=SLOWLY_S)


def test_bounds_that_cross_are_refused(client, name):
    client.submit(manifest(name, least=2, most=2))
    with pytest.raises(InvalidRequest):
        client.scale(name, maximum=1)
    assert client.job(name)["workers"]["max"] == 2


def test_a_suspended_job_holds_nothing_and_goes_on_when_resumed(client, name):
    client.submit(manifest(name))
    assert phase(client, name, "Running")
    client.suspend(name)
    assert phase(client, name, "Suspended")
    assert eventually(lambda: client.job(name)["workers"]["current"] == 0, within_s=SLOWLY_S)
    client.suspend(name)  # a second time changes nothing
    client.resume(name)
    assert phase(client, name, "Running")


def test_a_job_that_finds_no_room_waits_and_says_why(client, name):
    client.submit(manifest(name, least=64, most=64))
    job = client.job(name)
    assert eventually(lambda: client.job(name)["reason"], within_s=SLOWLY_S)
    assert job["phase"] == "Waiting"
    answer = client.explain(name)
    assert answer.keys() >= {"job", "phase", "summary", "because", "wouldChange", "history"}
    assert answer["job"] == f"default/{name}"
    assert answer["summary"]
    assert answer["because"]["why"]


def test_a_move_is_recorded(client, name):
    client.submit(manifest(name))
    assert phase(client, name, "Running")
    here = client.job(name)["nodes"][0]
    there = next(node["name"] for node in client.nodes() if node["name"] != here)
    move = client.migrate(name, to=there)
    assert (move["job"], move["to"]) == (f"default/{name}", there)
    assert eventually(lambda: client.job(name)["nodes"] == [there], within_s=SLOWLY_S)
    assert eventually(lambda: [one["phase"] for one in client.migrations(name)] == ["Succeeded"], within_s=SLOWLY_S), (
        client.migrations(name)
    )
    assert client.job(name)["migrations"] == 1


def test_a_move_to_nowhere_or_to_where_it_is_is_refused(client, name):
    client.submit(manifest(name))
    assert phase(client, name, "Running")
    with pytest.raises(SternaError):
        client.migrate(name, to="nope")
    with pytest.raises(SternaError):
        client.migrate(name, to=client.job(name)["nodes"][0])
    assert phase(client, name, "Running")


def test_a_drained_node_takes_no_work_until_it_is_uncordoned(client, name):
    client.submit(manifest(name))
    assert phase(client, name, "Running")
    here = client.job(name)["nodes"][0]
    client.drain(here)
    try:
        assert not next(node for node in client.nodes() if node["name"] == here)["schedulable"]
        assert eventually(lambda: client.job(name)["nodes"] not in ([here], []), within_s=SLOWLY_S)
    finally:
        client.uncordon(here)
    assert next(node for node in client.nodes() if node["name"] == here)["schedulable"]
    with pytest.raises(NotFound, match="nope"):
        client.drain("nope")


def test_events_rise_and_wake_those_who_wait(client, name):
    before = client.changed(after=0, timeout_s=0)
    client.submit(manifest(name))
    after = client.changed(after=before, timeout_s=20)
    assert after > before
    events = client.events(name)
    assert events
    assert all(event.keys() >= EVENT_KEYS and event["job"] == f"default/{name}" for event in events)
    ids = [event["id"] for event in client.events()]
    assert ids == sorted(set(ids))
    assert client.events(after=ids[-1]) == [] or client.events(after=ids[-1])[0]["id"] > ids[-1]
    assert [event["id"] for event in client.events(limit=1)] == ids[:1]


def test_the_policy_is_checked_before_it_changes(client):
    before = client.policy()
    assert before.keys() >= {"policy", "settings", "placement", "rateLimitSeconds"}
    with pytest.raises(InvalidRequest, match="fifo"):
        client.set_policy("nope")
    with pytest.raises(InvalidRequest):
        client.set_policy("fifo", {"nope": "1"})
    assert client.policy() == before
    assert client.set_policy("fifo", {"strict": "true"})["settings"] == {"strict": "true"}
    assert client.policy()["policy"] == "fifo"
    paced = client.set_policy("fifo", {"rateLimitSeconds": "0.2"})
    assert (paced["rateLimitSeconds"], paced["settings"]) == (0.2, {})
    client.set_policy(before["policy"], {**before["settings"], "rateLimitSeconds": str(before["rateLimitSeconds"])})
    assert client.policy() == before


def test_a_deleted_job_is_gone_and_its_name_free(client, name):
    client.submit(manifest(name))
    client.delete(name)
    assert client.wait(name, until="deleted", timeout_s=SLOWLY_S) is None
    with pytest.raises(NotFound):
        client.job(name)
    client.submit(manifest(name))


def test_health_counts_and_says_what_is_enforced(client):
    health = client.health()
    assert health.keys() >= {"ok", "version", "uptimeSeconds", "jobs", "limits"}
    assert health["limits"]


@pytest.mark.slow
@pytest.mark.parametrize("client", ["local"], indirect=True)  # nothing runs in memory
def test_a_real_job_prints_ends_and_is_told_of(client, name):
    client.submit(manifest(name, script="print('hello from here')"))
    job = client.wait(name, until="succeeded", timeout_s=SLOWLY_S)
    assert job is not None
    assert b"".join(client.logs(name)) == b"hello from here\n"
    client.submit(manifest(f"{name}-b", script="import sys; sys.exit('no good')"))
    with pytest.raises(Conflict, match="failed"):
        client.wait(f"{name}-b", until="succeeded", timeout_s=SLOWLY_S)
    assert b"no good" in b"".join(client.logs(f"{name}-b"))
    assert sys.executable in client.job(name)["manifest"]
