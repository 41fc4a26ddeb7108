"""What engine and warden say to each other: launches, hooks, the state of a process, its end, the limits in force.

Values only, and named tuples rather than dataclasses: the warden imports this module and has to stay small. Each value
travels as a JSON object of its own fields. Checking untrusted input is `requests.py`; here both sides are ours,
though perhaps of different releases, so fields a reader does not know are left out.
"""

from enum import StrEnum
from typing import Any, NamedTuple


class ProcessPhase(StrEnum):
    """Where a process is on its way from launch to end."""

    STARTING = "starting"  # forked, its program not yet running
    RUNNING = "running"
    STOPPING = "stopping"  # asked to end, and will be killed at its deadline
    EXITED = "exited"  # it and everything it left behind is gone; `exited` says how
    FAILED = "failed"  # its program never ran; `message` says why
    LOST = "lost"  # its warden died, and it with it; how it would have ended is not known

    @property
    def alive(self) -> bool:
        return self in (ProcessPhase.STARTING, ProcessPhase.RUNNING, ProcessPhase.STOPPING)


class Launch(NamedTuple):
    """One process to be started. `id` names it for good: a second start of the same id starts nothing."""

    id: str  # letters, digits and ._- (it names files and control groups), at most 128, a letter or digit first
    argv: tuple[str, ...]
    env: dict[str, str]  # complete: nothing is inherited from the warden or the engine
    cwd: str
    log_path: str  # standard output and error; older parts beside it as log_path.1, .2, ...
    log_bytes_max: int = 16 * 2**20  # of one part
    log_parts_max: int = 3  # older parts kept
    memory_bytes: int | None = None  # None: no limit
    cpu_milli: int | None = None  # thousandths of a core; None: no quota
    cpus: tuple[int, ...] | None = None  # the cores it may run on; None: all that the warden may use
    nice: int = 0
    node: str = ""  # the virtual node whose CPUs it shares with all processes there; empty: none
    node_cpu_milli: int | None = None  # what all processes of that node may use together; None: no quota


class Hook(NamedTuple):
    """A command run beside a worker, once for each name (`postStart`, `preStop`), in its directory and to its log."""

    name: str
    argv: tuple[str, ...]
    timeout_s: float
    env: dict[str, str] | None = None  # None: the worker's own


class HookEnded(NamedTuple):
    """How a hook ended, or why it never ran."""

    name: str
    code: int | None  # None: ended by a signal, or never ran
    signal: int | None
    timed_out: bool
    message: str  # empty when it ended with code 0

    @property
    def succeeded(self) -> bool:
        return self.code == 0


class Exited(NamedTuple):
    """How a process ended. Told only once it is on disk, and everything the process left behind is gone."""

    code: int | None  # None: ended by a signal
    signal: int | None
    at_wall_s: float
    at_mono_s: float  # CLOCK_MONOTONIC of the boot it ended in
    oom: bool  # the memory limit ended it, or a child it could not do without
    stopped: bool  # it had been asked to end
    killed: bool  # it let its grace pass, so the warden killed it
    cpu_s: float  # of itself and the children it waited for
    rss_max_bytes: int  # of its largest process; the fork of the warden counts, so never below about 10 MiB
    message: str  # for people: `exit code 3`, `out of memory: limit 512 MiB`, ...


class ProcessState(NamedTuple):
    """All that a warden knows of one process."""

    id: str
    phase: ProcessPhase
    pid: int | None  # None: never forked
    started_wall_s: float
    started_mono_s: float
    exited: Exited | None = None
    hooks: tuple[HookEnded, ...] = ()  # those that ended, in that order
    notes: tuple[str, ...] = ()  # limits asked for and not in force, log bytes lost, children that would not die
    message: str = ""  # why it failed or was lost

    @property
    def alive(self) -> bool:
        return self.phase.alive


class Limit(NamedTuple):
    enforced: bool
    how: str  # by what when enforced, else why not and what would help


class Limits(NamedTuple):
    """What this machine lets the warden enforce; `sterna up` prints it."""

    memory: Limit
    cpu: Limit  # the quota
    affinity: Limit
    leftovers: Limit  # enforced: what a worker leaves behind is found however it hides


class Census(NamedTuple):
    """Everything a warden knows: what runs, and every end not yet forgotten."""

    warden: str  # another name than last time: that warden died, and its processes with it
    pid: int
    processes: tuple[ProcessState, ...]  # by id
    ports: dict[str, tuple[int, ...]]  # held, by the id they are held for


def to_wire(value: Any) -> Any:
    """The value as JSON can carry it; nested values become objects as well."""
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        parts = [to_wire(part) for part in value]
        return dict(zip(fields, parts, strict=True)) if fields else parts
    if isinstance(value, dict):
        return {key: to_wire(part) for key, part in value.items()}
    return value


def state_from_wire(wire: dict[str, Any]) -> ProcessState:
    fields = _known(ProcessState, wire)
    fields["phase"] = ProcessPhase(wire["phase"])
    fields["exited"] = Exited(**_known(Exited, wire["exited"])) if wire.get("exited") else None
    fields["hooks"] = tuple(hook_from_wire(hook) for hook in wire.get("hooks", ()))
    fields["notes"] = tuple(wire.get("notes", ()))
    return ProcessState(**fields)


def hook_from_wire(wire: dict[str, Any]) -> HookEnded:
    return HookEnded(**_known(HookEnded, wire))


def limits_from_wire(wire: dict[str, Any]) -> Limits:
    return Limits(**{name: Limit(**_known(Limit, limit)) for name, limit in _known(Limits, wire).items()})


def census_from_wire(wire: dict[str, Any]) -> Census:
    return Census(
        warden=wire["warden"],
        pid=wire["pid"],
        processes=tuple(state_from_wire(state) for state in wire["processes"]),
        ports={owner: tuple(held) for owner, held in wire["ports"].items()},
    )


def _known(kind: Any, wire: dict[str, Any]) -> dict[str, Any]:
    return {name: wire[name] for name in kind._fields if name in wire}
