"""An action that the operator applied has one line in the log, with the decision that event and journal name."""

import asyncio
import json
import logging
from pathlib import Path

from benchmarks.scaling import NAMESPACE, elastic_job, node

from sterna.engines.kubernetes.apiserver.port import ELASTIC_JOBS, EVENTS, NODES, PODS
from sterna.engines.kubernetes.process.operator import Operator
from sterna.engines.kubernetes.process.settings import OperatorConfig
from sterna.engines.kubernetes.status.event_recorder import DECISION
from sterna.wire.manifests import read_migration, workload_of_object
from tests.engines.kubernetes.memory_api import MemoryCluster, memory_api
from tests.journal.blocked_disk import blocked_disk
from tests.journal.shapes import SHAPES
from tests.waiting import until_async


def decisions_told(cluster: MemoryCluster) -> set[str]:
    events = cluster.objects[EVENTS].values()
    return {event["metadata"].get("annotations", {}).get(DECISION, "") for event in events} - {""}


async def story(directory: Path) -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.put(NODES, node("n1", gpus=2))
    cluster.put(ELASTIC_JOBS, elastic_job("job"))
    config = OperatorConfig(namespace=NAMESPACE, watch=(NAMESPACE,), rate_limit_s=0.0, elect=False, journal=directory)
    operator = Operator(
        config, memory_api(cluster), parse=workload_of_object, read_migration=read_migration, shapes=SHAPES
    )
    running = asyncio.create_task(operator.run())
    try:
        await until_async(lambda: cluster.objects[PODS])
        for pod in list(cluster.objects[PODS].values()):
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            cluster.put(PODS, {**pod, "status": status})
        await until_async(lambda: decisions_told(cluster) and operator.at_rest)
    finally:
        operator.stop()
        await running
    return cluster


def test_the_log_the_event_and_the_journal_name_one_decision(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="sterna")
    cluster = asyncio.run(asyncio.wait_for(story(tmp_path), 120))
    (line,) = [vars(record) for record in caplog.records if record.getMessage() == "job started"]
    assert (line["job"], line["held"]) == (f"{NAMESPACE}/job", "done")
    assert line["took_ms"] >= 0
    assert decisions_told(cluster) == {line["decision"]}
    entries = [json.loads(text) for path in sorted(tmp_path.iterdir()) for text in path.read_text().splitlines()]
    assert [entry["entry"] for entry in entries if entry.get("id") == line["decision"]] == ["decided", "happened"]
    assert entries[0]["about"]["engine"] == "kubernetes"


def test_an_operator_whose_journal_is_on_a_disk_that_does_not_answer_decides_and_ends_as_ever(tmp_path):
    with blocked_disk() as disk:
        cluster = asyncio.run(asyncio.wait_for(story(tmp_path), 120))
        assert disk.asked.is_set()
    assert cluster.objects[PODS]
