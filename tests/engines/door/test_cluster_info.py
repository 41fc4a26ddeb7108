"""`GET /cluster-info` with container-migration's keys and units, and node scores."""

import asyncio
import json
from typing import Any

from sterna.engines.door import cluster_info
from sterna.engines.door.scores import best_node
from sterna.model.nodes import Effect, Guest, Taint
from sterna.model.resources import Resources
from tests.engines.door.rooms import Rooms, asked, limited
from tests.worlds import GIB, cluster, job, node

KEYS = {
    *("CpuTotal", "MemTotal", "GpuTotal", "GpuMemTotal", "CpuFree", "MemFree"),
    *("CpuMaxRequest", "MemMaxRequest", "GpuFreeCount", "GpuFree"),
}


def info_of(household: Rooms) -> dict[str, dict[str, Any]]:
    answer = asyncio.run(asked(household, b"", method="GET", path="/cluster-info"))
    assert (answer.status, answer.media_type) == (200, "application/json")
    found: dict[str, dict[str, Any]] = json.loads(answer.body)
    return found


def test_dragon_39_cluster_info_has_container_migration_s_keys_and_no_others():
    found = info_of(Rooms())
    assert sorted(found) == ["n1", "n2", "n3"]
    assert all(set(info) == KEYS for info in found.values())


def test_dragon_39_cpu_is_in_milli_cores_and_memory_in_milli_bytes():
    found = info_of(Rooms())["n1"]
    assert (found["CpuTotal"], found["CpuFree"]) == (4000, 4000 - 3 * 250)
    assert (found["MemTotal"], found["MemFree"]) == (16 * GIB * 1000, 16 * GIB * 1000)
    assert (found["CpuMaxRequest"], found["MemMaxRequest"]) == (3 * 4000, 3 * 8 * GIB * 1000)


def test_cards_are_counted_and_shared_ones_are_told_apart():
    half = job("half", gpus_each=0.4, on=["n1"])
    view = cluster(nodes=[node("n1", gpus=3, gpu_gib=16)], jobs=[half, job("whole", on=["n1"])])
    shared = half.but(workers=(half.workers[0]._replace(devices=(view.cluster.nodes[0].devices[0].id,)),))
    found = cluster_info(cluster(nodes=view.cluster.nodes, jobs=[shared, view.by_id[view.jobs[1].id]]))["n1"]
    assert (found["GpuTotal"], found["GpuMemTotal"], found["GpuFreeCount"]) == (3, 16 * GIB, 1)
    assert found["GpuFree"] == {"0": {"GPUFreeReq": 600, "GPUFreeMem": 16 * GIB}}


def test_a_card_of_unknown_memory_says_no_number_that_nobody_knows():
    held = job("half", gpus_each=0.5, on=["n1"])
    view = cluster(nodes=[node("n1", gpus=1)], jobs=[held])
    card = view.cluster.nodes[0].devices[0].id
    shared = held.but(workers=(held.workers[0]._replace(devices=(card,)),))
    found = cluster_info(cluster(nodes=view.cluster.nodes, jobs=[shared]))["n1"]
    assert (found["GpuMemTotal"], found["GpuFree"]["0"]["GPUFreeMem"]) == (0, 0)


def test_guests_take_room_and_nodes_that_let_nobody_in_are_left_out():
    busy = node("n1", cpus=4, guests=(Guest("web", Resources(1500, GIB)),))
    others = [
        node("master", taints=(Taint("control-plane"),)),
        node("lost", ready=False),
        node("drained", cordoned=True),
        node("wish", cpus=4, taints=(Taint("spot", effect=Effect.PREFER_NO_SCHEDULE),)),
    ]
    found = cluster_info(cluster(nodes=[busy, *others]))
    assert sorted(found) == ["n1", "wish"]
    assert found["n1"]["CpuFree"] == 2500


def test_limits_that_an_engine_measured_go_over_what_jobs_say():
    view = cluster(nodes=[node("n1", cpus=4)], jobs=[limited("job1", on=["n1"])])
    found = cluster_info(view, {view.cluster.nodes[0].id: Resources(500, GIB)})["n1"]
    assert (found["CpuMaxRequest"], found["MemMaxRequest"]) == (500, GIB * 1000)


def test_dragon_40_the_best_node_is_found_with_the_worker_off_its_own():
    """Alone on n1 and off it, n1 scores nothing; so do n2 and n3: its own node wins the tie."""
    household = Rooms(limited("job1", on=["n1"]))
    view = household.snapshot()
    assert best_node(view, view.jobs[0], view.jobs[0].workers[0]) == "n1"


def test_dragon_40_the_best_node_lets_the_worker_in_and_has_room():
    tainted = node("n2", cpus=4, taints=(Taint("dedicated"),))
    full = node("n3", cpus=4, guests=(Guest("web", Resources(4000, GIB)),))
    crowd = [limited(f"job{index}", on=["n1"]) for index in range(3)]
    view = cluster(nodes=[node("n1", cpus=4), tainted, full, node("n4", cpus=4)], jobs=crowd)
    assert best_node(view, crowd[0], crowd[0].workers[0]) == "n4"
    nowhere = cluster(nodes=[node("n1", cpus=4), tainted, full], jobs=crowd)
    assert best_node(nowhere, crowd[0], crowd[0].workers[0]) == "n1"
