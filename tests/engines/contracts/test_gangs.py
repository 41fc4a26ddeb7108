"""Ranks and rendezvous: what torch finds, checked with torchrun's own reading of it."""

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sterna.engines.contracts import RankInWorld, environment_of, place_in_world
from sterna.model.jobs import Role
from sterna.model.workload import Contract, Workload
from tests.engines.contracts.jobs import in_cluster, job, on_one_machine, worker
from tests.needs import needs

RESTART, TORCHRUN = Contract.RESTART, Contract.TORCHRUN


@pytest.mark.parametrize(
    ("fixed", "workers", "who", "place"),
    [
        pytest.param([], [0, 1], (Role.WORKER, 1), RankInWorld(1, 2), id="workers among themselves"),
        pytest.param([(Role.MASTER, 1)], [0, 1], (Role.MASTER, 0), RankInWorld(0, 3), id="the master is rank 0"),
        pytest.param([(Role.MASTER, 1)], [0, 1], (Role.WORKER, 0), RankInWorld(1, 3), id="workers follow the master"),
        pytest.param([(Role.CHIEF, 1)], [0], (Role.CHIEF, 0), RankInWorld(0, 2), id="a chief is a master"),
        pytest.param([], [0, 2, 5], (Role.WORKER, 5), RankInWorld(2, 3), id="ranks have no gaps where ordinals do"),
        pytest.param([(Role.PS, 2)], [0], (Role.PS, 1), None, id="a server has no rank"),
        pytest.param([(Role.EVALUATOR, 1)], [0], (Role.EVALUATOR, 0), None, id="nor has an evaluator"),
        pytest.param([(Role.LAUNCHER, 1)], [0], (Role.LAUNCHER, 0), None, id="nor a launcher"),
    ],
)
def test_places(fixed, workers, who, place):
    workload = job("ElasticJob", RESTART, *fixed, workers_max=8)
    role, ordinal = who
    assert place_in_world(role, ordinal, on_one_machine(workload, workers)) == place


@given(ordinals=st.sets(st.integers(0, 20), min_size=1), master=st.booleans())
def test_everybody_has_a_rank_of_its_own_and_all_agree_on_where_to_meet(ordinals, master):
    workload = job("PyTorchJob", RESTART, *([(Role.MASTER, 1)] if master else []), workers_max=21)
    members = on_one_machine(workload, sorted(ordinals))
    envs = [environment_of(workload, worker(m.ordinal, m.role), members).env for m in members]
    assert sorted(int(env["RANK"]) for env in envs) == list(range(len(members)))
    assert {env["WORLD_SIZE"] for env in envs} == {str(len(members))}
    (leading,) = (m for m, env in zip(members, envs, strict=True) if env["RANK"] == "0")
    assert {(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in envs} == {(leading.host, str(leading.port))}


def test_processes_of_a_worker_count_in_the_world():
    workload = job("PyTorchJob", RESTART, (Role.MASTER, 1), processes_per_worker=2, workers_max=2)
    env = environment_of(workload, worker(1), on_one_machine(workload, [0, 1])).env
    assert (env["WORLD_SIZE"], env["PET_NPROC_PER_NODE"], env["PET_NNODES"], env["PET_NODE_RANK"]) == (
        "6",
        "2",
        "3",
        "2",
    )


def test_a_role_beside_the_training_finds_nothing():
    workload = job("ElasticJob", RESTART, (Role.EVALUATOR, 1))
    assert environment_of(workload, worker(0, Role.EVALUATOR), on_one_machine(workload)).env == {}


def elastic(**fields: Any) -> Workload:
    return job("PyTorchJob", TORCHRUN, **{"workers_min": 1, "workers_max": 4, **fields})


def test_the_agents_environment():
    workload = elastic(processes_per_worker=2)
    assert environment_of(workload, worker(1), in_cluster(workload, [0, 1]), incarnation=3).env == {
        "PET_NNODES": "1:4",
        "PET_NPROC_PER_NODE": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "job1-worker-0.default.svc:2222",
        "PET_RDZV_ID": "default-job1-3",
        "PET_RDZV_CONF": "last_call_timeout=3",
        "PET_MAX_RESTARTS": "100",
    }


@pytest.mark.parametrize(
    ("said", "name", "value"),
    [
        pytest.param({"rdzvId": "mine"}, "PET_RDZV_ID", "mine", id="an id of the owner's"),
        pytest.param({"maxRestarts": "0"}, "PET_MAX_RESTARTS", "0", id="no restarts at all"),
        pytest.param({"rdzvConf": "a=1"}, "PET_RDZV_CONF", "a=1,last_call_timeout=3", id="settings are added to"),
        pytest.param({"rdzvConf": "last_call_timeout=9"}, "PET_RDZV_CONF", "last_call_timeout=9", id="and not over"),
        pytest.param({"rdzvBackend": "etcd-v2", "rdzvHost": "e"}, "PET_RDZV_CONF", "", id="other backends have none"),
        pytest.param(
            {"rdzvHost": "e", "rdzvPort": "2379"}, "PET_RDZV_ENDPOINT", "e:2379", id="a server of the owner's"
        ),
        pytest.param({"rdzvHost": "job1-worker-0"}, "PET_RDZV_ENDPOINT", "127.0.0.1:40000", id="one of us, wherever"),
        pytest.param({"rdzvHost": "job1-worker-0.lab.svc"}, "PET_RDZV_ENDPOINT", "127.0.0.1:40000", id="in full"),
        pytest.param({"standalone": "true"}, "PET_STANDALONE", "1", id="alone"),
    ],
)
def test_what_the_manifest_says_about_meeting(said, name, value):
    workload = elastic(rendezvous=tuple(said.items()))
    assert environment_of(workload, worker(0), on_one_machine(workload)).env[name] == value


def test_the_master_is_one_of_the_members():
    workload = job("PyTorchJob", TORCHRUN, (Role.MASTER, 1), workers_min=1, workers_max=3)
    env = environment_of(workload, worker(0), in_cluster(workload)).env
    assert (env["PET_NNODES"], env["PET_RDZV_ENDPOINT"]) == ("2:4", "job1-master-0.default.svc:2222")


@given(sizes=st.lists(st.sets(st.integers(1, 3)), min_size=1, max_size=6))
def test_whoever_joins_is_given_what_the_first_were_given(sizes):
    """Worker 0 stays, the others come and go: within an incarnation the environment is one."""
    workload = elastic()
    envs = [
        environment_of(workload, worker(ordinal), on_one_machine(workload, sorted({0, *others}))).env
        for others in sizes
        for ordinal in {0, *others}
    ]
    assert all(env == envs[0] for env in envs)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param(
            elastic(),
            {"nnodes": "1:4", "rdzv_backend": "c10d", "rdzv_endpoint": "127.0.0.1:40000", "max_restarts": 100},
            id="elastic",
        ),
        pytest.param(
            job("ElasticJob", RESTART, processes_per_worker=2, workers_max=2),
            {"nnodes": "2", "node_rank": 1, "nproc_per_node": "2", "master_addr": "127.0.0.1", "master_port": 40_000},
            id="all anew",
        ),
    ],
)
def test_torchrun_reads_it_as_it_is_meant(monkeypatch, workload, expected):
    needs("torch")
    from torch.distributed.run import get_args_parser

    for name in [name for name in os.environ if name.startswith("PET_")]:
        monkeypatch.delenv(name)
    for name, value in environment_of(workload, worker(1), on_one_machine(workload, [0, 1])).env.items():
        monkeypatch.setenv(name, value)
    read = vars(get_args_parser().parse_args(["train.py"]))
    assert {name: read[name] for name in expected} == expected
