"""The preStop hook, `python -m sterna.training.prestop`: have this container's trainer stop, and wait until it has.

For containers whose first process does not pass SIGTERM on (a shell that runs the program as its child), or does not
yet listen for it (the first process of a container is deaf to it while it still imports). The order goes the way that
every order goes, through the mailbox; there it also meets a process that has yet to attach.

Ends with 0 when there is nothing more to wait for, and with 1 when the deadline came first, which Kubernetes shows as
an event of the pod; SIGTERM follows in either case. Where an engine gives orders of its own this does nothing.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sterna.protocol import (
    BadEnvironment,
    Order,
    Orders,
    Status,
    WorkerIdentity,
    WorkerPhase,
    read_orders,
    read_status,
    wake_worker,
    write_orders,
)
from sterna.training.processes import pid_started

GRACE_S = 30.0  # what Kubernetes grants unless told otherwise
_WAIT_SHARE = 0.85  # of it: the trainer gives up waiting for others a little sooner, and SIGTERM comes a little later
_LOOK_S = 0.05
_GONE_S = 3.0  # a process that is gone may be followed by another: torchrun starts its children anew


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="prestop", description="Have the trainer stop, and wait until it has.")
    parser.add_argument(
        "--deadline-s", type=float, help="give up after so many seconds (85 %% of the pod's grace period)"
    )
    try:
        return order_and_wait(os.environ, deadline_s=parser.parse_args(arguments).deadline_s)
    except (BadEnvironment, OSError) as error:
        return _end(1, f"the trainer could not be told to stop: {error}")


def order_and_wait(environment: Mapping[str, str], *, deadline_s: float | None = None) -> int:
    """The hook itself. What it answers is the exit code. Raises BadEnvironment, and OSError without a mailbox."""
    identity = WorkerIdentity.from_environment(environment)
    if identity.mailbox is None:
        return _end(0, "nothing to do: this is not a worker of Sterna's (STERNA_MAILBOX is not set)")
    if identity.wake is not None:
        return _end(0, "nothing to do: the engine gives its orders itself")
    now_s, grace_s = time.monotonic(), identity.grace_s or GRACE_S
    seq = _told(identity.mailbox, killed_s=now_s + grace_s)
    until_s = now_s + (_WAIT_SHARE * grace_s if deadline_s is None else deadline_s)
    seen_s = now_s
    while time.monotonic() < until_s:
        status = read_status(identity.mailbox)
        if status is not None and _has_stopped(status, seq):
            return _end(0, f"the trainer has stopped at step {status.step}, {_saved(status)}")
        if status is None or pid_started(status.pid):
            seen_s = time.monotonic()  # no trainer has attached yet: it will find the order when it does
        elif time.monotonic() - seen_s > _GONE_S:
            return _end(0, f"the trainer is gone, {_saved(status)}")
        time.sleep(_LOOK_S)
    return _end(1, "the trainer did not stop in time: it may still save before it is killed")


def _told(mailbox: Path, *, killed_s: float) -> int:
    """Write the order. Its number is higher than any that was given or answered before."""
    before, status = read_orders(mailbox), read_status(mailbox)
    seq = 1 + max(before.seq if before is not None else 0, status.ack if status is not None else 0)
    reason = "the container is to end"
    write_orders(mailbox, Orders(seq=seq, order=Order.STOP, reason=reason, deadline_mono_s=killed_s))
    wake_worker(mailbox)
    return seq


def _has_stopped(status: Status, seq: int) -> bool:
    return status.phase is WorkerPhase.FINISHED or (status.phase is WorkerPhase.COMMITTED and status.ack >= seq)


def _saved(status: Status) -> str:
    return "nothing saved" if status.checkpoint is None else f"saved at step {status.checkpoint.step}"


def _end(code: int, message: str) -> int:
    sys.stdout.write(f"{message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
