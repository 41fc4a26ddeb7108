"""Names of a job's objects where the usual ones are taken, and pods that a finalizer keeps."""

import msgspec
import pytest

from sterna.engines.kubernetes.apiserver.objects import Pod
from sterna.engines.kubernetes.bodies.own_names import config_names, free_name, place_of
from sterna.engines.kubernetes.process.settings import OWN_CONFIG_MAPS
from sterna.engines.kubernetes.reconcile.observed_pods import Seen
from sterna.model.jobs import Role
from sterna.model.workload import Contract
from tests.engines.kubernetes.reconcile.world import PS, World, workers, workload

TF = workload(Contract.PARAMETER_SERVER, (Role.PS, 1), workers=(1, 4))


@pytest.mark.parametrize("usual", ["job1-worker-0", "a-0", "x" * 57])
def test_another_name_is_of_the_same_place_always_the_same_and_of_one_job(usual):
    taken = {usual}
    other = free_name(usual, "uid-1", taken.__contains__)
    assert other.startswith(f"{usual}-")
    assert len(other) == len(usual) + 6 <= 63
    assert free_name(usual, "uid-1", taken.__contains__) == other
    assert free_name(usual, "uid-2", taken.__contains__) != other
    assert free_name(usual, "uid-1", {usual, other}.__contains__) not in (usual, other)


@pytest.mark.parametrize(
    "usual", [pytest.param("job1-worker-0", id="all are taken"), pytest.param("x" * 58, id="another would be too long")]
)
def test_where_no_other_name_is_free_the_usual_one_is_tried_and_refused(usual):
    assert free_name(usual, "uid-1", lambda _: True) == usual


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("job1-worker-3", (Role.WORKER, 3)),
        ("job1-worker-3-abcde", (Role.WORKER, 3)),
        ("job1-ps-0-zzzzz", (Role.PS, 0)),
        ("job1-worker-3-abcdef", None),
        ("job1-worker-3-abc1e", None),
        ("job1-worker-abcde", None),
        ("job1-worker-03-abcde", None),
        ("job2-worker-3-abcde", None),
    ],
)
def test_a_name_tells_its_place_with_and_without_letters_behind_it(name, place):
    assert place_of(TF, name) == place


@pytest.mark.parametrize("job", ["job1", "sterna"])
def test_no_config_map_of_a_job_has_a_name_of_the_operators_own(job):
    names = config_names(job, "uid-1")
    assert names
    assert not set(names) & OWN_CONFIG_MAPS
    assert (names[0] == f"{job}-config") is (job == "job1")


@pytest.mark.parametrize(
    ("meta", "node", "phase", "lingers"),
    [
        pytest.param({"finalizers": ["a/b"]}, "", "Pending", True, id="it has no node"),
        pytest.param({"finalizers": ["a/b"]}, "node-1", "Failed", True, id="it has ended"),
        pytest.param({"finalizers": ["a/b"]}, "node-1", "Running", False, id="it still runs"),
        pytest.param({}, "node-1", "Failed", False, id="nothing keeps it"),
    ],
)
def test_a_pod_that_is_told_to_go_lingers_if_a_finalizer_alone_keeps_it(meta, node, phase, lingers):
    body = {
        "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z", **meta},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }
    seen = Seen(msgspec.convert(body, Pod), (Role.WORKER, 0))
    assert seen.lingers is lingers
    assert not Seen(msgspec.convert({**body, "metadata": {"name": "p", **meta}}, Pod), None).lingers


def test_a_worker_whose_name_is_taken_is_created_once_and_found_again():
    world = World(TF)
    world.fields = {"taken": {("Pod", "job1-worker-0"), ("Service", "job1-ps-0")}}
    world.started(PS, *workers(2))
    pods, services = sorted(world.pods), sorted(world.services)
    assert [name[:13] for name in pods] == ["job1-ps-0", "job1-worker-0", "job1-worker-1"]
    assert "job1-worker-0" not in pods
    assert "job1-ps-0" not in services
    before = len(world.done)
    world.fields = {}  # the name is free again: what is there stays as it is
    world.rest()
    assert (sorted(world.pods), sorted(world.services), len(world.done)) == (pods, services, before)
