"""One pod of an elastic torchrun job is terminated alone: all save, it leaves, the others go on without a step lost."""

import sys
from collections.abc import Mapping

import pytest

from sterna.protocol import WorkerPhase
from tests.needs import needs
from tests.training.kubernetes.pods import TRAINERS, Pod, Pods, free_port, waited_for

AGENT = [sys.executable, "-m", "torch.distributed.run", "--local-addr=127.0.0.1", "--monitor-interval=0.2"]


def agents(pods: Pods, count: int) -> list[Pod]:
    """As the operator starts them, but on one machine, where one of them has to be told that it holds the store."""
    port = free_port()
    command = [*AGENT, str(TRAINERS / "torch_trainer.py"), "--steps", "100000", "--step-s", "0.02"]
    started = []
    for rank in range(count):
        conf = f"last_call_timeout=1,is_host={str(rank == 0).lower()},keep_alive_interval=2,keep_alive_max_attempt=3"
        environment: Mapping[str, str] = {
            "PET_NNODES": "2:3",
            "PET_NPROC_PER_NODE": "1",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"127.0.0.1:{port}",
            "PET_RDZV_ID": "test",
            "PET_RDZV_CONF": conf,
            "PET_MAX_RESTARTS": "20",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        started += pods.start(command, ranks=count, only=[rank], also=environment)
    return started


def steps_of_world(pods: Pods, size: int) -> list[int]:
    return [int(line["step"]) for line in pods.trace() if "step" in line and line["world"] == str(size)]


@pytest.mark.slow
def test_voda_44_a_member_that_is_told_to_leave_alone_costs_the_others_no_step(pods):
    needs("torch")
    members = agents(pods, 3)
    waited_for(lambda: 10 in steps_of_world(pods, 3) or None, members[0].said)
    members[2].terminate()
    members[2].ended()
    word = members[2].last_word()
    assert word.phase is WorkerPhase.COMMITTED, members[2].said()
    assert word.checkpoint is not None
    left_at = word.checkpoint.step
    assert left_at == word.step == max(steps_of_world(pods, 3))
    waited_for(lambda: left_at + 10 in steps_of_world(pods, 2) or None, members[0].said)
    assert min(steps_of_world(pods, 2)) == left_at + 1
    assert all(member.process.poll() is None for member in members[:2]), "those who stay were not to end"

    for member in members[:2]:  # and then all of them are told, one after the other
        member.terminate()
    for member in members[:2]:
        member.ended()
    kept = {word.checkpoint.step for word in (member.last_word() for member in members[:2]) if word.checkpoint}
    assert kept == {max(steps_of_world(pods, 2))}
