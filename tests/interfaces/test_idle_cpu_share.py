"""How much of a node with GPUs jobs without GPUs may take: one setting, by the same name everywhere."""

import json

import pytest
from typer.testing import CliRunner

from sterna.engines.kubernetes.loop.rules import rules_of
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.interfaces.cli.main import cli
from sterna.model.errors import InvalidRequest
from sterna.planner.decide import Settings

NODES = [
    {"id": "cpu0", "allocatable": {"cpu": 4, "memory": "64Gi"}},
    {
        "id": "gpu0",
        "allocatable": {"cpu": 8, "memory": "64Gi", "gpu": 8},
        "accelerator": "a100",
        "labels": {"zone": "b"},
    },
]


@pytest.mark.parametrize(
    ("share", "workers"),
    [
        pytest.param(None, 4, id="half of it where there are nodes without GPUs"),
        pytest.param("0.75", 6, id="as much as is said"),
        pytest.param("0", 0, id="none of it"),
    ],
)
def test_jobs_without_gpus_may_have_so_much_of_a_node_with_gpus(tmp_path, share, workers):
    spec = {"submittedSeconds": 0, "workers": {"min": 1, "max": 8, "request": {"cpu": 1}}, "selector": {"zone": "b"}}
    world = {
        "apiVersion": "sterna.dev/v1alpha1",
        "kind": "Snapshot",
        "nowSeconds": 0,
        "nodes": NODES,
        "jobs": [{"id": "a", "spec": spec, "state": {"waitingSinceSeconds": 0}}],
    }
    (tmp_path / "world.json").write_text(json.dumps(world))
    words = ["decide", "-s", str(tmp_path / "world.json"), "-p", "elastic-fifo", "-o", "json"]
    said = CliRunner().invoke(cli, [*words, *([] if share is None else ["--idle-cpu-share", share])])
    assert said.exit_code == 0, said.output
    layout = json.loads(said.output)["layout"]
    assert len(layout.get("a", [])) == workers
    assert {worker["node"] for worker in layout.get("a", [])} <= {"gpu0"}


def test_what_is_no_share_is_refused_by_name():
    with pytest.raises(InvalidRequest, match="idle CPU share"):
        Settings(idle_cpu_share=1.5)
    with pytest.raises(InvalidRequest, match="idleCpuShare"):
        rules_of(OperatorConfig(namespace="sterna"), {"idleCpuShare": "much"})


def test_the_config_map_goes_over_the_option():
    config = OperatorConfig(namespace="sterna", idle_cpu_share=0.25)
    assert rules_of(config, {}).settings.idle_cpu_share == 0.25
    assert rules_of(config, {"idleCpuShare": "0.75"}).settings.idle_cpu_share == 0.75
