"""TF_CONFIG: who is listed, who one is, and that it never changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.contracts import Member, environment_of
from sterna.model.errors import InvariantBroken
from sterna.model.ids import JobId, NodeId
from sterna.model.jobs import JobSpec, Role, Worker
from sterna.model.resources import Resources
from sterna.model.workload import Contract, Workload
from sterna.placement.packing import free_ordinals
from tests.engines.contracts.jobs import in_cluster, job, on_one_machine, worker
from tests.needs import needs

SERVED = Contract.PARAMETER_SERVER


def tf_config(workload: Workload, role: Role, ordinal: int, members: list[Member]) -> Any:
    return json.loads(environment_of(workload, worker(ordinal, role), members).env["TF_CONFIG"])


def test_dragon_5_the_text_is_the_one_that_its_document_shows():
    workload = job("TFJob", SERVED, (Role.PS, 1), workers_min=1, workers_max=4)
    assert environment_of(workload, worker(0), in_cluster(workload)).env == {
        "TF_CONFIG": '{"cluster":{"ps":["job1-ps-0.default.svc:2222"],"worker":["job1-worker-0.default.svc:2222",'
        '"job1-worker-1.default.svc:2222","job1-worker-2.default.svc:2222","job1-worker-3.default.svc:2222"]},'
        '"task":{"type":"worker","index":0},"environment":"cloud"}'
    }


@given(data=st.data())
def test_dragon_5_dragon_6_it_is_constant_over_a_life_of_growing_and_shrinking(data):
    """Sizes change as the scheduler likes; whoever has an ordinal has the same text as all before it who had it."""
    most = data.draw(st.integers(1, 6), label="max")
    servers = data.draw(st.integers(1, 3), label="servers")
    workload = job("TFJob", SERVED, (Role.PS, servers), workers_max=most)
    spec = JobSpec(id=JobId("default/job1"), submitted_s=0.0, request=Resources(), workers_max=most)
    texts: dict[tuple[Role, int], str] = {}
    running: list[int] = []
    for size in data.draw(st.lists(st.integers(1, most), min_size=1, max_size=12), label="sizes"):
        while len(running) > size:
            running.remove(data.draw(st.sampled_from(running), label="leaves"))
        kept = [Worker(Role.WORKER, ordinal, NodeId("n1")) for ordinal in sorted(running)]
        newcomers = free_ordinals(spec, kept, size - len(running))
        assert all(ordinal < most for ordinal in newcomers)
        running += newcomers
        members = on_one_machine(workload, sorted(running))
        for role, ordinal in [(Role.WORKER, o) for o in running] + [(Role.PS, o) for o in range(servers)]:
            text = environment_of(workload, worker(ordinal, role), members, incarnation=len(texts)).env["TF_CONFIG"]
            assert texts.setdefault((role, ordinal), text) == text
            assert len(json.loads(text)["cluster"]["worker"]) == most


def test_dragon_6_a_newcomer_gets_the_lowest_free_index():
    spec = JobSpec(id=JobId("default/job1"), submitted_s=0.0, request=Resources(), workers_max=4)
    kept = [Worker(Role.WORKER, ordinal, NodeId("n1")) for ordinal in (0, 3)]
    assert free_ordinals(spec, kept, 1) == [1]


@pytest.mark.parametrize(
    ("fixed", "cluster"),
    [
        pytest.param([(Role.CHIEF, 1)], {"chief": 1, "worker": 2}, id="a chief is listed by its own name"),
        pytest.param([(Role.MASTER, 1)], {"master": 1, "worker": 2}, id="a master, too"),
        pytest.param([(Role.PS, 2), (Role.EVALUATOR, 1)], {"ps": 2, "worker": 2}, id="the evaluator is not listed"),
        pytest.param([], {"worker": 2}, id="workers alone"),
    ],
)
def test_dragon_8_who_is_in_the_cluster(fixed, cluster):
    workload = job("TFJob", SERVED, *fixed, workers_max=2)
    config = tf_config(workload, Role.WORKER, 1, in_cluster(workload))
    assert {kind: len(hosts) for kind, hosts in config["cluster"].items()} == cluster
    assert config["task"] == {"type": "worker", "index": 1}


def test_dragon_8_the_evaluator_knows_itself_and_the_others():
    workload = job("TFJob", SERVED, (Role.PS, 1), (Role.EVALUATOR, 1))
    config = tf_config(workload, Role.EVALUATOR, 0, in_cluster(workload))
    assert config["task"] == {"type": "evaluator", "index": 0}
    assert "evaluator" not in config["cluster"]


def test_a_collective_lists_those_that_are_there_without_gaps():
    workload = job("TFJob", Contract.RESTART, workers_max=4)
    config = tf_config(workload, Role.WORKER, 3, on_one_machine(workload, [0, 3]))
    assert len(config["cluster"]["worker"]) == 2
    assert config["task"] == {"type": "worker", "index": 1}


@pytest.mark.parametrize("servers", [1, 2, 3])
def test_dragon_42_chiefs_beside_their_servers_shift_the_workers_by_as_many(servers):
    workload = job("TFJob", SERVED, (Role.PS, servers), workers_max=2, details=(("chiefInPs", "true"),))
    members = in_cluster(workload)
    listed = tf_config(workload, Role.WORKER, 1, members)
    chiefs = [f"job1-ps-{n}.default.svc:2223" for n in range(servers)]
    workers = [f"job1-worker-{n}.default.svc:2222" for n in range(2)]
    assert listed["cluster"]["worker"] == chiefs + workers
    assert listed["cluster"]["worker"][listed["task"]["index"]] == "job1-worker-1.default.svc:2222"
    beside = environment_of(workload, worker(servers - 1, Role.PS), members).env
    chief = json.loads(beside["TF_CONFIG_CHIEF"])
    assert chief["cluster"]["worker"][chief["task"]["index"]] == chiefs[-1]
    assert json.loads(beside["TF_CONFIG"])["task"] == {"type": "ps", "index": servers - 1}


def test_dragon_42_a_chief_may_have_a_port_of_its_own():
    workload = job("TFJob", SERVED, (Role.PS, 1), details=(("chiefInPs", "true"),))
    members = [m._replace(chief_port=50_000) if m.role is Role.PS else m for m in on_one_machine(workload)]
    assert tf_config(workload, Role.WORKER, 0, members)["cluster"]["worker"][0] == "127.0.0.1:50000"


def test_a_dynamic_worker_knows_itself_and_the_servers():
    workload = job("TFJob", SERVED, (Role.PS, 2), workers_max=3, details=(("enableDynamicWorker", "true"),))
    members = in_cluster(workload)
    assert tf_config(workload, Role.WORKER, 2, members)["cluster"] == {
        "ps": ["job1-ps-0.default.svc:2222", "job1-ps-1.default.svc:2222"],
        "worker": {"2": "job1-worker-2.default.svc:2222"},
    }
    assert tf_config(workload, Role.PS, 1, members)["cluster"]["worker"] == {}


def test_an_address_that_is_missing_would_change_the_list_later():
    workload = job("TFJob", SERVED, (Role.PS, 1), workers_max=3)
    with pytest.raises(InvariantBroken, match="worker 2"):
        environment_of(workload, worker(0), in_cluster(workload)[:-1])


@pytest.mark.parametrize(
    ("details", "workers", "index"),
    [
        pytest.param((), 3, 2, id="everybody"),
        pytest.param((("enableDynamicWorker", "true"),), 1, 2, id="dynamic workers"),
        pytest.param((("chiefInPs", "true"),), 5, 4, id="chiefs beside their servers"),
    ],
)
@pytest.mark.slow
def test_tensorflow_reads_it_as_it_is_meant(monkeypatch, details, workers, index):
    tensorflow = needs("tensorflow")
    workload = job("TFJob", SERVED, (Role.PS, 2), workers_max=3, details=details)
    members = on_one_machine(workload)
    monkeypatch.setenv("TF_CONFIG", environment_of(workload, worker(2), members).env["TF_CONFIG"])
    read = tensorflow.distribute.cluster_resolver.TFConfigClusterResolver()
    assert (read.task_type, read.task_id) == ("worker", index)
    assert read.cluster_spec().num_tasks("worker") == workers
    assert read.cluster_spec().task_address("worker", index) == f"{members[-1].host}:{members[-1].port}"
