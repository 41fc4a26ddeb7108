"""A pod on a node that was given up comes back: it can do no harm, and ends when it learns what has happened."""

import signal

from tests.needs import needs
from tests.training.kubernetes.pods import Pods, trainer, waited_for


def generations(pods: Pods, incarnation: int) -> set[str]:
    return {
        path.name
        for path in pods.volume.glob(f"gen-*-i{incarnation}")
        if (path / "manifest.json").exists()  # those that are complete
    }


def test_r5_a_zombie_that_comes_back_before_its_successor_has_saved_is_fenced_and_ends(pods):
    needs("numpy")
    command = trainer("toy", "--steps", 100_000, "--step-s", 0.02, "--save-max-s", 3)
    (zombie,) = pods.start(command, incarnation=1)
    waited_for(lambda: generations(pods, 1) or None, zombie.said)
    zombie.process.send_signal(signal.SIGSTOP)  # the node does not answer any more
    before = generations(pods, 1)
    (successor,) = pods.start(command, incarnation=2)
    waited_for(lambda: pods.steps(rank=0, incarnation=2) or None, successor.said)
    successor.process.kill()  # before it has saved anything, or just after: nobody can tell, and it does not matter
    successor.process.wait(60)
    (began,) = {int(line["began"]) for line in pods.trace() if line["incarnation"] == "2" and "began" in line}

    zombie.process.send_signal(signal.SIGCONT)
    assert zombie.ended() == 1
    assert "Superseded" in zombie.said()
    assert "may no longer" in (zombie.last_word().problem or "")
    assert generations(pods, 1) <= before

    (third,) = pods.start(command, incarnation=3)
    waited_for(lambda: pods.steps(rank=0, incarnation=3) or None, third.said)
    taken_up = pods.steps(rank=0, incarnation=3)[0] - 1
    assert taken_up >= began
    assert taken_up == began or taken_up in pods.steps(rank=0, incarnation=2), "it took up what the zombie trained"


def test_r5_a_zombie_that_is_told_to_stop_at_last_saves_nothing(pods):
    needs("numpy")
    command = trainer("toy", "--steps", 100_000, "--step-s", 0.02)
    (zombie,) = pods.start(command, incarnation=1)
    pods.until_step(5)
    zombie.process.send_signal(signal.SIGSTOP)
    (successor,) = pods.start(command, incarnation=2)
    pods.until_step(5, incarnation=2)
    zombie.terminate()
    zombie.process.send_signal(signal.SIGCONT)
    zombie.ended()
    assert "may no longer" in (zombie.last_word().problem or "")
    successor.terminate()
    assert successor.ended() == 0
    kept = successor.last_word().checkpoint
    assert kept is not None
    assert kept.step == len(pods.steps(rank=0, incarnation=2)) + (successor.last_word().restored_step or 0)
