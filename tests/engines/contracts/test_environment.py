"""From a manifest to everybody's environment: what was read can be started, whatever kind it is of."""

import json
from pathlib import Path

import pytest

from sterna.engines.contracts import environment_of, launch_of, pod_fields
from sterna.model.jobs import Role
from sterna.wire.manifests import read_manifests
from tests.engines.contracts.jobs import in_cluster, on_one_machine, worker

CORPUS = sorted((Path(__file__).parents[2] / "wire" / "manifests" / "corpus").glob("*.yaml"))


@pytest.mark.parametrize("members_of", [in_cluster, on_one_machine])
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_everybody_can_be_launched(path, members_of):
    (document,) = read_manifests(path.read_text(encoding="utf-8"))
    workload = document.workload
    members = members_of(workload, range(workload.workers_max))
    for member in members:
        who = worker(member.ordinal, member.role)
        made = environment_of(workload, who, members)
        fields = pod_fields(workload, who, uid="u", host_ip="10.0.0.1", pod_ip="10.1.0.1")
        program = workload.template(member.role).program
        launch = launch_of(program, given=made.env, fields=fields)
        assert launch.env.items() >= made.env.items()
        assert {name for name, _ in (*program.env, *program.env_fields)} <= launch.env.keys()
        assert len(launch.argv) == len(program.argv)


def test_dragon_5_the_manifest_of_the_document_gives_the_text_of_the_document():
    (document,) = read_manifests((CORPUS[0].parent / "tfjob-flat.yaml").read_text(encoding="utf-8"))
    workload = document.workload
    config = json.loads(environment_of(workload, worker(0), in_cluster(workload)).env["TF_CONFIG"])
    assert config["cluster"]["worker"] == [f"job1-worker-{n}.default.svc:2222" for n in range(4)]
    assert config["cluster"]["ps"] == ["job1-ps-0.default.svc:2222"]
    assert config["environment"] == "cloud"


def test_a_moved_worker_finds_where_it_is():
    """container-migration's program asks for its node's address and its own name."""
    (document,) = read_manifests((CORPUS[0].parent / "tfjob-preemptible.yaml").read_text(encoding="utf-8"))
    workload = document.workload
    program = workload.template(Role.WORKER).program
    fields = pod_fields(workload, worker(1), uid="u", host_ip="10.0.0.7", pod_ip="10.1.0.1")
    env = launch_of(program, given={}, fields=fields).env
    assert (env["NODE_IP"], env["POD_NAME"]) == ("10.0.0.7", "accuracy-a-worker-1")
