"""What engine and worker tell each other: orders one way, status the other. Values and their JSON form, no files.

`from_json` answers None for anything that is not exactly such a message: a half-written, foreign or hostile file is
"nothing new" to its reader, never an exception in a training loop or in the engine.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

NOT_SAVED = "not saved: "  # how a `problem` begins that is about a save which failed

COUNT_MAX = 2**62  # of steps, bytes, processes: they are kept in 64 bits, and added to
NUMBER_MAX = 1e30  # what a program measures; beyond it, it has diverged. Sums and products are still numbers
AMOUNT_MAX = 1e15  # of steps, seconds and the like
TEXT_MAX = 4096  # characters; of more the beginning
METRICS_MAX = 256
MOMENT_MAX_S = 1e10  # moments are shown as dates, which have a last year


class Order(StrEnum):
    """What the engine wants of a worker."""

    HOLD = (
        "hold"  # before training: stay in restore(). While training: commit, acknowledge, stand still at the boundary
    )
    RUN = "run"  # restore the newest checkpoint if not yet done, and train
    COMMIT = "commit"  # save at the next boundary, acknowledge, train on
    STOP = "stop"  # save at the next boundary, acknowledge; should_stop() becomes True


class WorkerPhase(StrEnum):
    """Where a worker is."""

    ATTACHED = "attached"  # the program has called attach()
    READY = "ready"  # stands in restore() on hold: imports and model construction are behind it
    RESTORING = "restoring"
    TRAINING = "training"
    COMMITTED = "committed"  # a stop (or a hold while training) is durable; nothing was trained since
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The engine's latest message to one worker. A higher `seq` replaces a lower one; nothing is queued."""

    seq: int
    order: Order
    reason: str = ""
    deadline_mono_s: float | None = None  # CLOCK_MONOTONIC; None: whenever it suits

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self | None:
        body = _object(text)
        try:
            return cls(
                seq=_whole(body["seq"]),
                order=Order(body["order"]),
                reason=_text(body.get("reason", "")),
                deadline_mono_s=_number_or_none(body.get("deadline_mono_s")),
            )
        except (KeyError, ValueError, OverflowError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedCheckpoint:
    """The newest checkpoint this worker knows to be durable."""

    generation: int
    step: int
    bytes: int
    digest: str
    stall_s: float  # how long training stood still for it
    at_mono_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A worker's latest message about itself.

    All `_mono_s` are CLOCK_MONOTONIC: comparable on one machine and boot, meaningless elsewhere. The `_wall_s` are the
    worker's own clock in seconds since 1970, told only in a last word: for people to read, never to order things by.
    What a stop has made durable is `checkpoint.step`; `step` may be further on, if the save failed.
    """

    pid: int
    phase: WorkerPhase
    ack: int = 0  # seq of the last order fulfilled; 0: none yet
    world_size: int = 1  # as the process sees it, which under torchrun may differ from what the engine set
    step: int = 0
    epoch: int = 0
    units_done: float = 0.0  # steps since the job's very beginning, over all incarnations
    units_total: float | None = None  # None: the program did not say how much there is to do
    step_s: float | None = None  # recent mean
    metrics: Mapping[str, float] = field(default_factory=dict)
    restored_step: int | None = None  # None: started from nothing
    first_step_mono_s: float | None = None  # when this process began its first step
    last_step_mono_s: float | None = None  # when it ended its latest one; until the next gang's first is downtime
    save_s: float | None = None  # how long the latest save took, until durable
    load_s: float | None = None
    checkpoint: CommittedCheckpoint | None = None
    samples: int | None = None  # of the declared order, since the job's beginning; None: no order was declared
    first_step_wall_s: float | None = None
    stopped_wall_s: float | None = None  # when it ended its latest step
    problem: str | None = None  # what a user should know; None: all is well

    def to_json(self) -> str:
        return json.dumps(self._body())

    def to_compact_json(self, *, bytes_max: int) -> str:
        """The same, read by the same `from_json`, in few bytes. What does not fit is left out: metrics first, those
        reported last before the others, then the end of the problem."""
        body = {name: value for name, value in self._body().items() if value is not None and value != {}}
        metrics = body.pop("metrics", {})
        text = _compact(body)
        if len(text) > bytes_max and self.problem is not None:
            room = bytes_max - (len(text) - len(_compact(self.problem)))
            text = _compact({**body, "problem": _shortened(self.problem, bytes_max=room)})
        kept = text
        for count in range(1, len(metrics) + 1):
            longer = f"{text[:-1]},{_compact({'metrics': dict(list(metrics.items())[:count])})[1:]}"
            if len(longer) > bytes_max:
                break
            kept = longer
        return kept

    def _body(self) -> dict[str, Any]:
        body = asdict(self)
        # JSON has no NaN or infinity: a diverged loss is reported as text and read back as the number it was
        body["metrics"] = {name: value if math.isfinite(value) else str(value) for name, value in self.metrics.items()}
        return body

    @classmethod
    def from_json(cls, text: str | bytes) -> Self | None:
        body = _object(text)
        try:
            return cls(
                pid=_whole(body["pid"]),
                phase=WorkerPhase(body["phase"]),
                ack=_whole(body.get("ack", 0)),
                world_size=_whole(body.get("world_size", 1)),
                step=_whole(body.get("step", 0)),
                epoch=_whole(body.get("epoch", 0)),
                units_done=_number(body.get("units_done", 0.0)),
                units_total=_number_or_none(body.get("units_total")),
                step_s=_number_or_none(body.get("step_s")),
                metrics=_metrics(body.get("metrics", {})),
                restored_step=_whole_or_none(body.get("restored_step")),
                first_step_mono_s=_moment_or_none(body.get("first_step_mono_s")),
                last_step_mono_s=_moment_or_none(body.get("last_step_mono_s")),
                save_s=_number_or_none(body.get("save_s")),
                load_s=_number_or_none(body.get("load_s")),
                checkpoint=_checkpoint_or_none(body.get("checkpoint")),
                samples=_whole_or_none(body.get("samples")),
                first_step_wall_s=_moment_or_none(body.get("first_step_wall_s")),
                stopped_wall_s=_moment_or_none(body.get("stopped_wall_s")),
                problem=_text_or_none(body.get("problem")),
            )
        except (KeyError, ValueError, OverflowError):
            return None


def _compact(body: object) -> str:
    return json.dumps(body, separators=(",", ":"))  # ASCII only: as many bytes as characters


def _shortened(text: str, *, bytes_max: int) -> str:
    """As much from its beginning as makes no more than so many bytes of JSON."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(_compact(text[:middle])) <= bytes_max else (low, middle - 1)
    return text[:low]


def _object(text: str | bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        return {}
    return body if isinstance(body, dict) else {}


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(value)
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise ValueError(value)
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -AMOUNT_MAX <= value <= AMOUNT_MAX:
        raise ValueError(value)
    return float(value)


def _number_or_none(value: object) -> float | None:
    return None if value is None else _number(value)


def _moment(value: object) -> float:
    moment_s = _number(value)
    if not 0 <= moment_s <= MOMENT_MAX_S:
        raise ValueError("no moment")
    return moment_s


def _moment_or_none(value: object) -> float | None:
    return None if value is None else _moment(value)


def _metrics(value: object) -> dict[str, float]:
    metrics = _mapping(value)
    if len(metrics) > METRICS_MAX:
        raise ValueError(len(metrics))
    return {_text(name): _metric(number) for name, number in metrics.items()}


def _metric(value: object) -> float:
    """Beyond what is taken it has diverged, which is a thing that programs report."""
    if value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(value)
    return float(value) if abs(value) <= NUMBER_MAX else math.copysign(math.inf, value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value[:TEXT_MAX]


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _checkpoint_or_none(value: object) -> CommittedCheckpoint | None:
    if value is None:
        return None
    body = _mapping(value)
    return CommittedCheckpoint(
        generation=_whole(body["generation"]),
        step=_whole(body["step"]),
        bytes=_whole(body["bytes"]),
        digest=_text(body["digest"]),
        stall_s=_number(body["stall_s"]),
        at_mono_s=_moment(body["at_mono_s"]),
    )
