"""The preStop hook, `python -m sterna.training.migrator.prestop`: ask for a checkpoint, and wait until it is there.

Ends with 0 as soon as there is nothing more to wait for, with 1 when something could not be saved: the trainer is gone,
or did not answer before the deadline. The checkpoint that was there before is left alone in either case. Needs no
torch, so that the grace period goes to the trainer.
"""

import argparse
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from sterna.protocol import WorkerIdentity
from sterna.training.errors import TrainingError
from sterna.training.migrator import signal_protocol
from sterna.training.migrator.console import date, log_to, plain, say
from sterna.training.migrator.migrator_files import MigratorFiles
from sterna.training.migrator.signal_files import Desk
from sterna.training.migrator.signal_protocol import Answer, Request, TrainerState
from sterna.training.processes import pid_started

DEADLINE_S = 25.0  # of the 30 s that Kubernetes grants unless told otherwise
_LOOK_S = 0.1
_SAY_EVERY_S = 1.0
_SILENCE_S = 10.0  # the heartbeat comes every second or so; a save of a large model may hold it up for a while

_SAID = {
    Answer.SAVED: "finish ckpts!",
    Answer.NOTHING_TO_SAVE: "nothing to save: the trainer had only just begun",
    Answer.TAKEN_OVER: "another trainer has taken over: nothing to save here",
    Answer.ENDED: "training has ended: nothing to save",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="prestop", description="Have the trainer save a checkpoint, and wait for it.")
    parser.add_argument(
        "--deadline-s", type=float, default=DEADLINE_S, help="give up after so many seconds (%(default)s)"
    )
    parser.add_argument("--log", type=Path, help="write here what would go to the console")
    given = parser.parse_args(arguments)
    with log_to(given.log) as log:
        return ask_and_wait(os.environ, deadline_s=given.deadline_s, to=log)


def ask_and_wait(environment: Mapping[str, str], *, deadline_s: float, to: TextIO) -> int:
    """The hook itself. What it answers is the exit code."""
    plain(f"stop: {date()}", to=to)
    until_s = time.monotonic() + deadline_s
    try:
        desk = Desk(MigratorFiles.from_environment(environment))
        state = desk.state()
        if state is None and desk.word() is None:
            say(f"nothing to save: no trainer has used {desk.places.signal}", to=to)
            return 0
        if state is not None and _of_another_launch(state, WorkerIdentity.from_environment(environment)):
            say(_SAID[Answer.TAKEN_OVER], to=to)
            return 0
        if state is not None and state.ended:
            say(_SAID[Answer.ENDED], to=to)
            return 0
        return _ask(desk, state, until_s=until_s, to=to)
    except (TrainingError, ValueError, OSError) as error:
        say(f"could not ask for a checkpoint: {error}", to=to)
        return 1


def _ask(desk: Desk, state: TrainerState | None, *, until_s: float, to: TextIO) -> int:
    liveness = Liveness(desk.places.state)
    request = Request(id=secrets.token_hex(8), incarnation=None if state is None else state.incarnation)
    asked = False
    said_s = float("-inf")
    while True:
        if state is not None and state.incarnation == request.incarnation and liveness.gone(state):
            say(f"the trainer (process {state.pid} on {state.host}) is gone: the last checkpoint stays as it is", to=to)
            return 1
        if not asked:
            for effect in signal_protocol.ask(request):
                desk.carry_out(effect)
            asked = True
        now_s = time.monotonic()
        if now_s - said_s >= _SAY_EVERY_S:
            say("saving ckpts...", to=to)
            said_s = now_s
        state = desk.state()
        answer = signal_protocol.answer_to(request, word=desk.word(), state=state)
        if answer is not Answer.WAITING:
            say(_SAID[answer], to=to)
            return 0
        if now_s > until_s:
            say("the trainer did not answer in time: it may still save before it is killed", to=to)
            return 1
        time.sleep(_LOOK_S)


def _of_another_launch(state: TrainerState, who: WorkerIdentity) -> bool:
    """Inside Sterna a replacement may train already while the old worker is stopped: it is not to be disturbed."""
    return who.inside and not state.incarnation.startswith(f"{who.incarnation}-")


class Liveness:
    """Whether the trainer that wrote a state is still there: by its pid where that can be seen, else by its heartbeat.

    One observer's view, over time. A clock of another machine is never compared with ours.
    """

    def __init__(self, heartbeat: Path) -> None:
        self._heartbeat = heartbeat
        self._seen: tuple[int, float] | None = None  # its last change, and when we noticed

    def gone(self, state: TrainerState) -> bool:
        """Whether the trainer that wrote `state` has ended, as far as this observer can tell."""
        if state.host == socket.gethostname() and Path("/proc/self/stat").exists():
            return pid_started(state.pid) != state.pid_started
        return self._silent()

    def _silent(self) -> bool:
        try:
            beat = os.stat(self._heartbeat).st_mtime_ns
        except OSError:
            return True
        now_s = time.monotonic()
        if self._seen is None or self._seen[0] != beat:
            self._seen = (beat, now_s)
        return now_s - self._seen[1] > _SILENCE_S


if __name__ == "__main__":
    sys.exit(main())
