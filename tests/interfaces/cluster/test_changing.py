"""What commands write on a real API server: suspending, moving, the policy, deleting."""

import time

import pytest

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, MIGRATIONS
from sterna.engines.kubernetes.status.standing import Change, Standing
from tests.cluster.requests import ApiError, Body, until
from tests.interfaces.cluster.console import OPERATOR, Console, resource_of
from tests.interfaces.cluster.manifests import SHAPES, elastic
from tests.interfaces.cluster.standings import DONE, running


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_suspended_and_resumed(console, name):
    shape = SHAPES[name]
    console.submit(shape.named("a"))
    console.answer("suspend", "a")
    assert console.stored(resource_of(shape.kind), "a")["spec"]["runPolicy"]["suspend"] is True
    assert console.data("get", "jobs")[0]["phase"] == "Suspended"
    assert "is suspended" in console.answer("explain", "a")
    version = console.stored(resource_of(shape.kind), "a")["metadata"]["resourceVersion"]
    console.answer("suspend", "a")
    assert console.stored(resource_of(shape.kind), "a")["metadata"]["resourceVersion"] == version
    console.answer("resume", "a")
    assert console.stored(resource_of(shape.kind), "a")["spec"]["runPolicy"]["suspend"] is False
    assert console.data("get", "jobs")[0]["phase"] == "Waiting"


def test_what_has_ended_can_neither_be_suspended_nor_scaled_nor_moved(console):
    console.submit(elastic("a"))
    console.stand(ELASTIC_JOBS, "a", DONE)
    for command in (["suspend", "a"], ["resume", "a"], ["scale", "a", "--max", "4"], ["migrate", "a"]):
        assert "has succeeded already" in console.refused(1, *command)


def test_a_move_becomes_an_object_and_is_told_of_until_it_ends(console, trained):
    told = console.answer("migrate", "mnist", "--worker", "0", "--to", trained[1])
    assert told.endswith(": Pending\n")
    [stored] = console.api.items(console.path(MIGRATIONS))
    assert stored["spec"] == {"job": "mnist", "kind": "ElasticJob", "worker": 0, "to": trained[1]}
    name = stored["metadata"]["name"]
    assert name in console.answer("migrate", "mnist", "--worker", "0", "--to", trained[1]), "asked for twice, made once"
    assert len(console.api.items(console.path(MIGRATIONS))) == 1
    unasked, asked = moves_of(console)
    assert (asked["id"], asked["job"], asked["from"], asked["to"], asked["requested"]) == (
        *(name, f"{console.namespace}/mnist", trained[0], trained[1], True),
    )
    assert (unasked["phase"], unasked["downtimeSeconds"], unasked["requested"]) == ("Succeeded", 4.5, False)
    followed = running(*trained, change=Change("migration", "Rebalanced", "asked for", (), (), time.time(),
                                               migration=f"{console.namespace}/{name}"))  # fmt: skip
    console.stand(ELASTIC_JOBS, "mnist", followed)
    assert [move["id"] for move in moves_of(console)] == [name], "the job's own word of it is no other"
    done = {"phase": "Refused", "message": "no room there", "finishedAt": "2026-01-01T00:00:00Z"}
    console.api.patch(f"{console.path(MIGRATIONS, name)}/status", {"status": done})
    assert "no room there" in console.answer("describe", "migration", name)
    assert name not in console.answer("migrate", "mnist", "--worker", "0", "--to", trained[1]), "a new request by now"


def test_a_move_that_can_never_be_is_refused_at_once(console, trained):
    console.submit(elastic("waiting"))
    assert "holds no workers" in console.refused(1, "migrate", "waiting", "--to", trained[0])
    assert "there is no node 'nope'" in console.refused(3, "migrate", "mnist", "--to", "nope")
    assert "one of the job's workers: 0, 1" in console.refused(2, "migrate", "mnist", "--worker", "9")
    moving = ["migrate", "mnist", "--worker", "0", "--to", trained[0]]
    assert f"is on {trained[0]} already" in console.refused(1, *moving)
    assert console.api.items(console.path(MIGRATIONS)) == []


def test_the_policy_is_checked_written_and_shown(console, operator_namespace):
    assert "elastic-fifo" in console.answer("policy", "get")
    assert "expected one of" in console.refused(2, "policy", "set", "nope")
    assert "nope" in console.refused(2, "policy", "set", "fifo", "--set", "nope=1")
    with pytest.raises(ApiError):
        console.api.get(f"/api/v1/namespaces/{OPERATOR}/configmaps/sterna-config")
    assert "strict=true" in console.answer("policy", "set", "FIFO", "--set", "strict=true", "--rate-limit", "5s")
    data = console.api.get(f"/api/v1/namespaces/{OPERATOR}/configmaps/sterna-config")["data"]
    assert data == {"policy": "fifo", "settings": "strict=true", "rateLimitSeconds": "5"}
    console.submit(elastic("a"))
    assert console.data("get", "jobs")[0]["policy"] == "fifo"
    assert console.data("policy", "set", "afs-l") == {
        "policy": "afs-l", "settings": {}, "placement": "packed", "rateLimitSeconds": 5.0,
        "rebalance": [], "rebalanceSettings": {},
    }  # fmt: skip
    assert console.data("policy", "get")["policy"] == "afs-l"


@pytest.mark.parametrize(
    "standing",
    [
        pytest.param(None, id="that nobody has looked at"),
        pytest.param(Standing(reason="NoRoom"), id="that waits"),
        pytest.param(running("n1"), id="that runs"),
        pytest.param(DONE, id="that is done"),
    ],
)
def test_voda_4_a_job_is_deleted(console, standing):
    console.submit(elastic("a"))
    if standing is not None:
        console.stand(ELASTIC_JOBS, "a", standing)
    assert console.answer("delete", "a") == f"job {console.namespace}/a deleted\n"
    with pytest.raises(ApiError):
        console.stored(ELASTIC_JOBS, "a")
    console.submit(elastic("a"))


def test_voda_4_several_are_deleted_at_once_and_an_unknown_one_keeps_none_of_them(console):
    for name in ("a", "b", "c"):
        console.submit(elastic(name))
    result = console.run("delete", "a", "nope", "b")
    assert result.exit_code == 3
    assert result.stdout.splitlines() == [f"job {console.namespace}/{name} deleted" for name in ("a", "b")]
    assert f"there is no job '{console.namespace}/nope'" in result.stderr
    assert console.answer("get", "jobs", "-o", "name").split() == [f"{console.namespace}/c"]
    console.submit(SHAPES["TFJob, flat as DRAGON writes it"].named("d"))
    assert len(console.answer("delete", "--all").splitlines()) == 2
    assert console.data("get", "jobs") == []


def test_voda_4_pods_go_with_their_job(console, trained, fake_nodes):
    console.answer("delete", "mnist")
    until(lambda: not fake_nodes.pods(), "the cluster has taken the pods away")


def moves_of(console: Console) -> list[Body]:
    """Other tests' namespaces go slowly, and what is in them."""
    return [move for move in console.data("get", "migrations") if move["job"] == f"{console.namespace}/mnist"]
