"""MPIJobs: a host list that follows the workers that are ready; who puts pods on nodes."""

import pytest

from sterna.engines.kubernetes.process.settings import Binding
from sterna.engines.kubernetes.reconcile.effects import BindPod, CreatePod, NudgePod, WriteConfigMap
from sterna.engines.kubernetes.reconcile.job_view import Options
from sterna.model.jobs import Role
from sterna.model.workload import Contract
from tests.engines.kubernetes.reconcile.world import World, at, workers, workload

LAUNCHER = at(0, "n1", Role.LAUNCHER)
HOROVOD = workload(Contract.DISCOVERY, (Role.LAUNCHER, 1), kind="MPIJob", workers=(1, 4))
PLAIN = workload(Contract.RESTART, (Role.LAUNCHER, 1), kind="MPIJob", workers=(1, 4))


def hosts(world):
    return [line.split()[0].split(".")[0] for line in world.config_map["data"]["hostfile"].splitlines()]


def test_voda_30_the_host_list_holds_the_workers_that_are_ready():
    world = World(HOROVOD)
    world.rest()
    world.grow(LAUNCHER, *workers(2))
    assert world.config_map["metadata"]["name"] == "job1-config"
    assert hosts(world) == []
    world.run("job1-worker-1")
    world.turn()
    assert hosts(world) == ["job1-worker-1"]
    world.rest()
    assert hosts(world) == ["job1-worker-0", "job1-worker-1"]
    assert "job1-worker-0.default.svc:1" in world.config_map["data"]["discover_hosts.sh"]
    world.grow(LAUNCHER, *workers(4))
    world.rest()
    assert len(hosts(world)) == 4
    world.shrink(LAUNCHER, *workers(1))
    assert hosts(world) == ["job1-worker-0"]  # before those that go are gone
    world.rest()
    written = sum(isinstance(effect, WriteConfigMap) for effect in world.done)
    world.rest()
    assert sum(isinstance(effect, WriteConfigMap) for effect in world.done) == written


@pytest.mark.parametrize("nudge", [True, False])
def test_voda_30_the_launcher_is_nudged_when_the_option_is_on(nudge):
    world = World(HOROVOD, options=Options(nudge=nudge)).started(LAUNCHER, *workers(2))
    before = len(world.done)
    world.grow(LAUNCHER, *workers(3))
    world.rest()
    nudged = [effect for effect in world.done[before:] if isinstance(effect, NudgePod)]
    assert [effect.name for effect in nudged] == (["job1-launcher-0"] if nudge else [])
    before = len(world.done)
    world.rest()
    assert len(world.done) == before


def test_the_list_is_mounted_where_commands_look_for_it():
    world = World(HOROVOD).started(LAUNCHER, *workers(1))
    for pod in world.pods.values():
        (mount,) = [m for m in pod["spec"]["containers"][0]["volumeMounts"] if m["mountPath"] == "/etc/mpi"]
        (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == mount["name"]]
        modes = {item["path"]: item["mode"] for item in volume["configMap"]["items"]}
        assert volume["configMap"]["name"] == "job1-config"
        assert modes["discover_hosts.sh"] & 0o111


@pytest.mark.parametrize(
    ("of", "waits"),
    [
        pytest.param(HOROVOD, False, id="it asks again and again"),
        pytest.param(PLAIN, True, id="plain mpirun is told once"),
        pytest.param(
            workload(
                Contract.DISCOVERY,
                (Role.LAUNCHER, 1),
                kind="MPIJob",
                details=(("launcherCreationPolicy", "WaitForWorkersReady"),),
            ),
            True,
            id="its owner wants it so",
        ),
    ],
)
def test_when_a_launcher_begins(of, waits):
    world = World(of)
    world.rest()
    world.grow(LAUNCHER, *workers(2))
    assert ("job1-launcher-0" in world.pods) == (not waits)
    world.run("job1-worker-0")
    world.turn()
    assert ("job1-launcher-0" in world.pods) == (not waits)
    world.rest()
    assert "job1-launcher-0" in world.pods
    assert world.conditions[-1] == "Running=True"


def test_pods_are_bound_to_the_nodes_of_their_seats():
    world = World(HOROVOD, options=Options(binding=Binding.BINDING)).started(LAUNCHER, at(0, "n2"))
    bound = {effect.name: effect.node for effect in world.done if isinstance(effect, BindPod)}
    assert bound == {"job1-launcher-0": "n1", "job1-worker-0": "n2"}
    assert world.conditions[-1] == "Running=True"


def test_voda_32_where_the_cluster_places_sizes_are_still_ours_and_seats_follow():
    world = World(HOROVOD, options=Options(binding=Binding.NONE))
    world.rest()
    world.grow(LAUNCHER, *workers(2))
    assert all("nodeName" not in pod["spec"] for pod in world.pods.values())
    for pod in world.pods.values():
        pod["spec"]["nodeName"] = "n3"  # by the cluster's own scheduler
    world.rest()
    assert {worker.node for worker in world.standing.assigned} == {"n3"}
    made = sum(isinstance(effect, CreatePod) for effect in world.done)
    world.rest()
    assert sum(isinstance(effect, CreatePod) for effect in world.done) == made == 3
    held = world.standing.assigned
    world.shrink(*held[:2])
    world.rest()
    assert sorted(world.pods) == ["job1-launcher-0", "job1-worker-0"]
