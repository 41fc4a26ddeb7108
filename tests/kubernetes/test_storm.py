"""A storm over a cluster, another one each time. STERNA_STORM_S makes it large and says how long it lasts, in a soak.

STERNA_SEED draws the same jobs and disturbances again, as far as what they meet is the same. STERNA_DISTURBANCES names
those that are in force, to find out which of them a failure needs.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.fake_nodes import FakeNodes
from tests.cluster.fixtures import fresh_name, make_namespace
from tests.kubernetes.rights import USER
from tests.storm.audit_trail import AuditTrail
from tests.storm.cluster_storm import ClusterStorm, Size
from tests.storm.disturbances import IN_FORCE, Disturbance
from tests.storm.errands import Programs
from tests.storm.lookout import Lookout
from tests.storm.observer import Observer
from tests.storm.operator_process import OperatorProcess
from tests.storm.weather import Weather

STORM_S = float(os.environ.get("STERNA_STORM_S") or 0.0)  # of a large one, in a soak
LARGE = Size(jobs=200, nodes=50, for_s=STORM_S, disturbance_s=0.1, run_s=(5.0, 120.0), quiet_s=60.0, patience_s=3600.0)
SMALL = Size(jobs=30, nodes=9, for_s=30.0, disturbance_s=0.25, run_s=(0.5, 6.0), quiet_s=5.0)
CPU, MEMORY, GPUS, PODS = "8", "64Gi", 4, 20  # of every node
DEFAULT_CPU = "3"
POLICIES = ("elastic-fifo", "elastic-tiresias", "afs-l", "srjf")
BINDINGS = ("node-name", "binding")


@pytest.fixture
def namespaces(granted: ControlPlane, namespace: str) -> Iterator[list[str]]:
    """Three, so that what happens to one of them leaves the others alone. In one of them pods that do not say how much
    CPU they want get some, and a node must not hold more of these either."""
    others = [fresh_name("storm") for _ in range(2)]
    for name in others:
        make_namespace(granted, name)
    limit = {"type": "Container", "default": {"cpu": DEFAULT_CPU}, "defaultRequest": {"cpu": DEFAULT_CPU}}
    limits = {"metadata": {"name": "defaults"}, "spec": {"limits": [limit]}}
    granted.api().create(f"/api/v1/namespaces/{namespace}/limitranges", limits)
    yield [namespace, *others]
    for name in others:
        granted.api().delete(f"/api/v1/namespaces/{name}")


@pytest.mark.slow
def test_a_storm_overfills_no_node_leaves_no_pod_over_and_every_job_ends_as_its_pods_earned(
    granted: ControlPlane, fake_nodes: FakeNodes, namespaces: list[str], tmp_path: Path
):
    seed = int(os.environ.get("STERNA_SEED") or random.randrange(2**32))
    size = LARGE if STORM_S else SMALL
    chance = random.Random(seed)
    policy, binding = chance.choice(POLICIES), chance.choice(BINDINGS)
    print(f"seed {seed}, {policy}, {binding}")  # noqa: T201
    waits = ("--node-lost-after", "2s", "--node-steady-after", "5s", "--admission-patience", "2s")
    options = ("--policy", policy, "--binding", binding, "--rate-limit", "0.5s", *waits)
    operator = OperatorProcess(granted.kubeconfig(USER), namespaces, tmp_path / "operator.log", *options)
    weather = Weather(
        api=granted.api(),
        nodes=fake_nodes,
        operator=operator,
        programs=Programs(),
        namespaces=namespaces,
        chance=chance,
        eviction_version=_eviction_version(granted),
    )
    fake_nodes.add(size.nodes, cpu=CPU, memory=MEMORY, gpus=GPUS, pods=PODS)
    fake_nodes.habits.admission = weather.refusal
    fake_nodes.habits.program = weather.programs.run
    fake_nodes.habits.stop_s = 0.3
    room = {"nvidia.com/gpu": str(GPUS), "cpu": CPU, "memory": MEMORY, "pods": str(PODS)}
    trail = AuditTrail(granted.audit_file, USER)
    lookout = Lookout(granted.access(), Observer(namespaces, room))
    storm = ClusterStorm(weather, lookout, trail, size, _in_force())
    operator.start()
    try:
        storm.rage()
        storm.calm()
        first_s = storm.until_rest()
        storm.go_on()
        storm.until_ended()
        then_s = storm.until_rest()
        storm.nothing_is_left_over()
        most = storm.writes_are_bounded()
    finally:
        print(f"{storm.jobs} jobs; {dict(storm.met)}; {operator.lives} lives of the operator")  # noqa: T201
        operator.stop()
        lookout.close()
        trail.close()
    print(f"at rest {first_s:.1f} s after the storm and {then_s:.1f} s after the last job")  # noqa: T201
    print(f"the most writes for a job within a minute: {most}")  # noqa: T201


def _in_force() -> tuple[tuple[Disturbance, int], ...]:
    """All, or those that STERNA_DISTURBANCES names."""
    named = [name for name in os.environ.get("STERNA_DISTURBANCES", "").split(",") if name]
    found = tuple(each for each in IN_FORCE if not named or each[0].__name__ in named)
    known = [each.__name__ for each, _ in IN_FORCE]
    assert set(named) <= set(known), f"{named} are not all among {known}"
    return found


def _eviction_version(plane: ControlPlane) -> str:
    found = plane.api().get("/apis/policy")["versions"]
    return "policy/v1" if any(each["version"] == "v1" for each in found) else "policy/v1beta1"
