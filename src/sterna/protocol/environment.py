"""A worker's identity, as its environment says: the names of the variables, how an engine sets and a worker reads them.

Inside torchrun's children its own `RANK`, `WORLD_SIZE` and `LOCAL_RANK` win over ours, since only it knows the
members after a rendezvous. Its restart count does not tell launches apart (it stays the same when members change and
differs between agents), so nothing here is an identity of a launch: ranks find each other by other means.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

JOB = "STERNA_JOB"  # the job's id, namespace/name
WORKER = "STERNA_WORKER"  # uid of this worker, unique for each process start
RANK = "STERNA_RANK"
WORLD_SIZE = "STERNA_WORLD_SIZE"
INCARNATION = "STERNA_INCARNATION"  # raised each time the whole gang is started anew
CHECKPOINT_DIR = "STERNA_CHECKPOINT_DIR"
MAILBOX = "STERNA_MAILBOX"  # its presence is what "inside Sterna" means
WAKE = "STERNA_WAKE"  # path of the engine's datagram socket; absent where no engine shares a machine with the worker
STANDBY = "STERNA_STANDBY"  # "1": a warm replacement, on hold until ordered to run
GANG = "STERNA_GANG"  # "0": the ranks train independently of each other (parameter server) and agree on nothing
SIGNALS = "STERNA_SIGNALS"  # "1": SIGTERM counts as an order to stop, as if the program had asked to listen for it
TERMINATION_LOG = "STERNA_TERMINATION_LOG"  # file that holds the worker's last word once its container is gone
GRACE_S = "STERNA_GRACE_S"  # seconds between SIGTERM and SIGKILL, the pod's terminationGracePeriodSeconds
MONITOR_URL = "STERNA_MONITOR_URL"  # of the node's monitor, http://10.0.0.1:8081; absent: no reports are wanted
MONITOR_TOKEN = "STERNA_MONITOR_TOKEN"
MONITOR_TOKEN_FILE = "STERNA_MONITOR_TOKEN_FILE"  # wins over the token itself, since it can be replaced
POD = "STERNA_POD"  # the name that reports are sent under
METRIC = "STERNA_METRIC"  # which of the reported numbers is the evaluation's result

STERNA_VARIABLES = (
    JOB, WORKER, RANK, WORLD_SIZE, INCARNATION, CHECKPOINT_DIR, MAILBOX, WAKE, STANDBY, GANG, SIGNALS, TERMINATION_LOG,
    GRACE_S, MONITOR_URL, MONITOR_TOKEN, MONITOR_TOKEN_FILE, POD, METRIC,
)  # fmt: skip


class BadEnvironment(ValueError):
    """A variable is set to something that cannot be meant; the message names it, its value and what would do."""


def worker_environment(
    *,
    job: str,
    worker: str,
    rank: int,
    world_size: int,
    incarnation: int,
    checkpoint_dir: str | os.PathLike[str] | None,
    mailbox: str | os.PathLike[str],
    wake: str | os.PathLike[str] | None = None,
    standby: bool = False,
    gang: bool = True,
    signals: bool = False,
    termination_log: str | os.PathLike[str] | None = None,
    grace_s: float | None = None,
) -> dict[str, str]:
    """The variables an engine gives to one worker. Those that are off are absent, not empty."""
    environment = {
        JOB: job,
        WORKER: worker,
        RANK: str(rank),
        WORLD_SIZE: str(world_size),
        INCARNATION: str(incarnation),
        MAILBOX: os.fspath(mailbox),
    }
    for name, path in ((CHECKPOINT_DIR, checkpoint_dir), (WAKE, wake), (TERMINATION_LOG, termination_log)):
        if path is not None:
            environment[name] = os.fspath(path)
    if grace_s is not None:
        environment[GRACE_S] = f"{grace_s:g}"
    if standby:
        environment[STANDBY] = "1"
    if not gang:
        environment[GANG] = "0"
    if signals:
        environment[SIGNALS] = "1"
    return environment


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """What a process knows of itself at its start. Outside Sterna `mailbox` is None; ranks may still be torchrun's."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0  # among the processes of this worker; the first one reports for the worker
    job: str = ""
    worker: str = ""
    incarnation: int = 0
    checkpoint_dir: Path | None = None  # None: there is nowhere to keep checkpoints
    mailbox: Path | None = None
    wake: Path | None = None  # None: there is no engine on this machine, so only SIGTERM gives orders
    standby: bool = False
    gang: bool = True
    signals: bool = False
    termination_log: Path | None = None
    grace_s: float | None = None  # None: how long a stop may take is not known
    run_id: str = ""  # torchrun's, the same for all its members
    elastic: bool = False  # under a torchrun whose members come and go: to stop is for those that are told, not for all

    @property
    def inside(self) -> bool:
        return self.mailbox is not None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Raises BadEnvironment when a number is not one, or the rank does not fit the world."""
        given = os.environ if environment is None else environment
        inside = bool(given.get(MAILBOX))
        rank = _number(given, "RANK", RANK, default=0, lowest=0)
        world_size = _number(given, "WORLD_SIZE", WORLD_SIZE, default=1, lowest=1)
        if rank >= world_size:
            raise BadEnvironment(f"RANK is {rank} in a world of {world_size}; expected 0 to {world_size - 1}")
        return cls(
            rank=rank,
            world_size=world_size,
            local_rank=_number(given, "LOCAL_RANK", default=0, lowest=0),
            job=given.get(JOB, ""),
            worker=given.get(WORKER, ""),
            incarnation=_number(given, INCARNATION, default=0, lowest=0) if inside else 0,
            checkpoint_dir=_path(given, CHECKPOINT_DIR) if inside else None,
            mailbox=_path(given, MAILBOX),
            wake=_path(given, WAKE) if inside else None,
            standby=given.get(STANDBY) == "1",
            gang=given.get(GANG) != "0",
            signals=given.get(SIGNALS) == "1",
            termination_log=_path(given, TERMINATION_LOG) if inside else None,
            grace_s=_grace_s(given) if inside else None,
            run_id=given.get("TORCHELASTIC_RUN_ID", ""),
            elastic=bool(given.get("TORCHELASTIC_RUN_ID")) and ":" in given.get("PET_NNODES", ""),
        )


def _number(given: Mapping[str, str], *names: str, default: int, lowest: int) -> int:
    """The first of `names` that is set and not empty."""
    for name in names:
        text = given.get(name)
        if not text:
            continue
        if text.isascii() and text.isdigit() and int(text) >= lowest:
            return int(text)
        raise BadEnvironment(f"{name} is {text!r}; expected a whole number of at least {lowest}")
    return default


def _grace_s(given: Mapping[str, str]) -> float | None:
    """torchrun's agent kills its children by its own clock, which by default allows them 30 s."""
    grace_s = _seconds(given, GRACE_S)
    if grace_s is None or not given.get("TORCHELASTIC_RUN_ID"):
        return grace_s
    agents_s = _seconds(given, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")
    return min(grace_s, 30.0 if agents_s is None else agents_s)


def _seconds(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name)
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise BadEnvironment(f"{name} is {text!r}; expected a number of seconds of at least 0")
    return seconds


def _path(given: Mapping[str, str], name: str) -> Path | None:
    text = given.get(name)
    return Path(text) if text else None
