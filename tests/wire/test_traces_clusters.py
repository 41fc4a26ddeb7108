"""Nodes to run a trace on."""

import pytest

from sterna.model.errors import InvalidRequest
from sterna.wire.traces.clusters import read_cluster, uniform_nodes
from tests.traces import trace_path

TIRESIAS = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"
ALIBABA = "sn,cpu_milli,memory_mib,gpu,model\n"
GIB = 1 << 30


def test_uniform_nodes_sort_by_number():
    nodes = uniform_nodes(1001, 4, accelerator="t4")
    assert [node.id for node in nodes] == sorted(node.id for node in nodes)
    assert (nodes[0].id, nodes[-1].id) == ("node-0000", "node-1000")
    assert uniform_nodes(16, 4)[7].id == "node-007"
    assert (nodes[0].allocatable.gpu_milli, len(nodes[0].devices), nodes[0].accelerator) == (4000, 4, "t4")


def test_nodes_without_gpus_are_of_no_gpu_type():
    assert uniform_nodes(1, 0)[0].accelerator == ""


@pytest.mark.parametrize(("count", "gpus"), [(0, 4), (-1, 4), (10**9, 4), (1, -1), (1, 10**9)])
def test_absurd_clusters_are_refused(count, gpus):
    with pytest.raises(InvalidRequest):
        uniform_nodes(count, gpus)


def test_a_tiresias_cluster_is_switches_times_nodes(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(TIRESIAS + "2,3,4,128,254")
    nodes = read_cluster(path)
    assert len(nodes) == 6
    assert nodes[0].allocatable == (128_000, 254 * GIB, 4000, 0)


def test_alibaba_nodes_keep_their_names_and_types(tmp_path):
    path = tmp_path / "n.csv"
    path.write_text(ALIBABA + "n-7,32000,1024,0,\nn-8,64000,2048,2,P100\n")
    bare, full = read_cluster(path)
    assert (bare.id, bare.accelerator, bare.allocatable) == ("n-7", "", (32_000, GIB, 0, 0))
    assert (full.id, full.accelerator, full.allocatable) == ("n-8", "P100", (64_000, 2 * GIB, 2000, 0))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param("a,b\n1,2\n", "num_switch", id="columns of neither"),
        pytest.param("", "first line", id="an empty file"),
        pytest.param(TIRESIAS, "one row", id="a header alone"),
        pytest.param(TIRESIAS + "1,2,four,1,1\n", "num_gpu_p_node", id="a word for a number"),
        pytest.param(ALIBABA, "nodes", id="no node"),
        pytest.param(ALIBABA + "n,1,1,-1,T4\n", "gpu", id="fewer than no GPUs"),
        pytest.param(ALIBABA + "n,1,1\n", "5 cells", id="a row that breaks off"),
    ],
)
def test_a_bad_cluster_file_is_refused_as_a_whole(tmp_path, text, word):
    path = tmp_path / "c.csv"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=word):
        read_cluster(path)


@pytest.mark.parametrize(
    ("name", "nodes", "gpus"),
    [
        ("tiresias/cluster_spec.csv", 16, 64),
        ("tiresias/n15g4.csv", 15, 60),
        ("tiresias/n8g8.csv", 8, 64),
        ("alibaba-gpu-2023/openb_node_list_gpu_node.csv", 1213, 6212),
        ("alibaba-gpu-2023/openb_node_list_all_node.csv", 1523, 6212),
    ],
)
def test_public_clusters(name, nodes, gpus):
    cluster = read_cluster(trace_path(name))
    assert (len(cluster), sum(node.allocatable.whole_gpus for node in cluster)) == (nodes, gpus)
