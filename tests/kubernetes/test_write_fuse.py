"""Something undoes what the operator writes, again and again: the number of its writes is bounded, and it says so."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from sterna.engines.kubernetes.apiserver.write_fuse import BURST, REFILL_S
from tests.cluster.requests import ApiError
from tests.kubernetes.jobs import elasticjob
from tests.kubernetes.lab import Lab
from tests.kubernetes.rights import USER

GANG = ("gang-worker-0", "gang-worker-1")


def written(lab: Lab, resource: str, name: str, subresource: str | None = None) -> list[float]:
    """When the operator asked to write this object, as the API server's audit log has it."""
    wanted = (lab.namespace, resource, name, subresource)
    return sorted(
        datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()
        for event in lab.plane.audited()
        if event["user"].get("username") == USER and event["verb"] in ("create", "patch", "update")
        for ref in [event.get("objectRef", {})]
        if tuple(ref.get(key) for key in ("namespace", "resource", "name", "subresource")) == wanted
    )


@contextmanager
def fighting(undo: Callable[[], None]) -> Iterator[None]:
    """Another controller, that wants something else."""
    ended = threading.Event()

    def fight() -> None:
        while not ended.is_set():
            with suppress(ApiError):  # it was written meanwhile
                undo()

    thread = threading.Thread(target=fight, name="fighting")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_6_a_fight_about_a_status_is_bounded_and_told_and_its_end_is_right(lab: Lab):
    lab.nodes.add(2, gpus=1)
    running = lab.start(retry_s=0.1, retry_max_s=1.0)
    lab.submit(elasticjob("gang", workers=(2, 2)))
    lab.until_pods("gang", *GANG)
    lab.until_rest()
    path = f"{lab._path('ElasticJob')}/gang"

    def undo() -> None:
        if lab.api.get(path)["status"].get("replicaStatuses"):
            lab.api.patch(f"{path}/status", {"status": {"replicaStatuses": None}})

    def decided() -> bool:
        assert running._mortal is not None
        return "WrittenTooOften" in lab.reasons("gang") or running._mortal.writes > 2 * BURST

    with fighting(undo):
        lab.until(decided, "the fuse blows, or there is none")
        assert "WrittenTooOften" in lab.reasons("gang")
        lab.until(lambda: running.operator.fuse.held_back >= 4, "writes are held back, as the fight goes on")
    moments = written(lab, "elasticjobs", "gang", "status")
    assert len(moments) <= BURST + (moments[-1] - moments[0]) / REFILL_S + 1
    assert running.operator.fuse.blown == running.operator.health().fuses_blown == 1
    lab.until(lambda: lab.job("ElasticJob", "gang")["status"].get("replicaStatuses"), "what is so is written at last")
    lab.until_rest()
    assert lab.job("ElasticJob", "gang")["status"]["replicaStatuses"]["Worker"]["active"] == 2
    (event,) = [event for event in lab.events("gang") if event["reason"] == "WrittenTooOften"]
    assert "ElasticJob" in event["message"]
    assert event["count"] == 1
