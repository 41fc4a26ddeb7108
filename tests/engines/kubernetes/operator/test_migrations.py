"""Moves that somebody asks for with an object, and what the object says afterwards."""

import pytest

from tests.cluster.requests import until
from tests.engines.kubernetes.operator.lab import Lab, elastic_job, migration, nodes_of, same, tf_job


def test_one_worker_is_moved_and_the_others_stay(lab: Lab):
    one, two = lab.nodes.add(2, gpus=4)
    with lab.operator():
        lab.create(tf_job("job", workers=2, low=2, high=2))
        before = lab.until_pods("job-ps-0", "job-worker-0", "job-worker-1")
        here = nodes_of(before)["job-worker-1"]
        there = two if here == one else one
        lab.create(migration("move", job="job", worker=1, to=there, reason="a quieter node"))
        status = lab.until_phase("move", "Succeeded", "Failed", "Refused")
        assert (status["phase"], status["from"], status["to"]) == ("Succeeded", here, there)
        assert status["startedAt"] <= status["finishedAt"]
        after = lab.until_pods("job-ps-0", "job-worker-0", "job-worker-1")
        assert nodes_of(after)["job-worker-1"] == there
        assert same(["job-ps-0", "job-worker-0"], before, after)
        scheduling = lab.job("TFJob", "job")["status"]["scheduling"]
        assert (scheduling["migrations"], scheduling["reason"]) == (1, "Requested")


def test_a_gang_is_moved_as_a_whole_and_a_killed_operator_does_not_forget_it(lab: Lab):
    one, two = lab.nodes.add(2, gpus=2)
    lab.nodes.habits.on_stop = lambda _: None
    first = lab.operator()
    lab.create(elastic_job("job", low=2, high=2))
    here = set(nodes_of(lab.until_pods("job-worker-0", "job-worker-1")).values())
    assert len(here) == 1
    there = two if here == {one} else one
    lab.create(migration("move", job="job"))
    until(lambda: all("deletionTimestamp" in pod["metadata"] for pod in lab.pods().values()), "all are told to go")
    lab.until_phase("move", "Moving")
    first.kill()
    with lab.operator():
        for name in ("job-worker-0", "job-worker-1"):
            lab.nodes.let_go(name)
        status = lab.until_phase("move", "Succeeded", "Failed", "Refused")
        assert (status["phase"], status["to"]) == ("Succeeded", there)
        assert set(nodes_of(lab.until_pods("job-worker-0", "job-worker-1")).values()) == {there}


def test_a_node_is_emptied(lab: Lab):
    lab.nodes.add(2, gpus=4)
    with lab.operator():
        for name in ("a", "b"):
            lab.create(tf_job(name, workers=1, low=1, high=1, ps=0))
        before = nodes_of(lab.until_pods("a-worker-0", "b-worker-0"))
        here = before["a-worker-0"]
        lab.create(migration("empty", node=here))
        status = lab.until_phase("empty", "Succeeded", "Failed", "Refused")
        assert status["phase"] == "Succeeded", status
        until(lambda: here not in nodes_of(lab.pods()).values(), "nothing is there any more", story=lab.story)
        lab.until_pods("a-worker-0", "b-worker-0")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"job": "nobody"}, "NoSuchJob", id="no such job"),
        pytest.param({"job": "job", "to": "nowhere"}, "NoSuchNode", id="no such node"),
        pytest.param({"job": "job", "worker": 7}, "NoSuchWorker", id="no such worker"),
        pytest.param({"job": "job", "to": "HERE"}, "SameNode", id="where it is already"),
        pytest.param({"job": "job", "to": "FULL"}, "NoRoom", id="no room there"),
        pytest.param({"job": "job"}, "NoRoom", id="no room anywhere"),
        pytest.param({"node": "FULL", "worker": 1}, "InvalidMigration", id="makes no sense"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason_and_touches_nothing(lab: Lab, spec: dict[str, object], reason: str):
    lab.nodes.add(2, gpus=1)
    with lab.operator() as operator:
        lab.create(elastic_job("job", low=1, high=1))
        lab.create(elastic_job("other", low=1, high=1))
        before = lab.until_pods("job-worker-0", "other-worker-0")
        names = {"HERE": nodes_of(before)["job-worker-0"], "FULL": nodes_of(before)["other-worker-0"]}
        said = {key: names.get(str(value), value) for key, value in spec.items()}
        lab.create(migration("move", **said))
        status = lab.until_phase("move", "Succeeded", "Failed", "Refused")
        assert (status["phase"], status["reason"]) == ("Refused", reason)
        assert status["message"]
        until(lambda: operator.operator.at_rest, "nothing is left to do")
        assert same(list(before), before, lab.pods())


def test_dragon_39_asking_twice_moves_once_and_what_has_ended_is_not_done_again(lab: Lab):
    one, two = lab.nodes.add(2, gpus=1)
    with lab.operator():
        lab.create(elastic_job("job", low=1, high=1))
        here = nodes_of(lab.until_pods("job-worker-0"))["job-worker-0"]
        there = two if here == one else one
        lab.create(migration("first", job="job", to=there))
        lab.create(migration("second", job="job", to=there))
        phases = [lab.until_phase(name, "Succeeded", "Refused", "Failed") for name in ("first", "second")]
        assert sorted(status["phase"] for status in phases) == ["Refused", "Succeeded"]
        lab.create(migration("back", job="job", to=here))
        assert lab.until_phase("back", "Succeeded", "Refused", "Failed")["phase"] == "Succeeded"
    before = lab.until_pods("job-worker-0")
    with lab.operator() as again:
        again.until_leads()
        until(lambda: again.operator.at_rest, "nothing is left to do")
        assert same(["job-worker-0"], before, lab.until_pods("job-worker-0"))


def test_a_request_made_again_under_the_same_name_is_another_one(lab: Lab):
    one, two = lab.nodes.add(2, gpus=1)
    with lab.operator():
        lab.create(elastic_job("job", low=1, high=1))
        here = nodes_of(lab.until_pods("job-worker-0"))["job-worker-0"]
        there = two if here == one else one
        lab.create(migration("move", job="job", to=there))
        assert lab.until_phase("move", "Succeeded", "Refused", "Failed")["phase"] == "Succeeded"
        lab.delete("Migration", "move")
        lab.create(migration("move", job="job", to=here))
        status = lab.until_phase("move", "Succeeded", "Refused", "Failed")
        assert (status["phase"], status["from"], status["to"]) == ("Succeeded", there, here)


def test_s1_a_namespace_has_a_limit_of_open_migrations_and_the_next_ones_are_refused_with_a_reason(lab: Lab):
    lab.nodes.add(2, gpus=2)
    lab.nodes.habits.on_stop = lambda _: None
    with lab.operator(migrations_max=2) as operator:
        lab.create(elastic_job("job", low=1, high=1))
        lab.until_pods("job-worker-0")
        lab.create(migration("first", job="job"))
        lab.until_phase("first", "Moving")  # and stays so: its worker does not go
        others = ["second", "third", "fourth"]
        for worker, name in enumerate(others):
            lab.create(migration(name, job="job", worker=worker, to="nowhere"))  # the job is busy, so they wait
        refused = [lab.until_phase(name, "Refused") for name in others[1:]]
        assert {status["reason"] for status in refused} == {"TooManyMigrations"}
        assert all("2 open Migrations" in status["message"] for status in refused)
        assert "phase" not in lab.job("Migration", "second").get("status", {})
        lab.nodes.let_go("job-worker-0")
        assert lab.until_phase("first", "Succeeded", "Failed")["phase"] == "Succeeded"
        assert lab.until_phase("second", "Refused")["reason"] == "NoSuchNode"
        until(lambda: operator.operator.at_rest, "nothing is left to do")
