"""How a job stands, as JSON in `status.scheduling`, and back.

Short, because every write of a status carries it: what has its default is left out, a worker is one text
(`worker/0/node-1`, of a seat with the slot, and with its cards where it has any). Read by operators older and newer
than the one that wrote it: unknown keys are passed over, missing ones have their defaults. Users may edit it: what
makes no sense is never an exception here, and never half a standing.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sterna.engines.kubernetes.apiserver.objects import Body
from sterna.engines.kubernetes.apiserver.timestamps import moment_s, moment_text
from sterna.engines.kubernetes.status.standing import Announcement, Change, Past, Progress, Reported, Seat, Standing
from sterna.lifecycle.admission_denials import Denial, cleaned
from sterna.lifecycle.counted_requests import CountedRequest
from sterna.lifecycle.node_refusals import Refusal
from sterna.model.errors import InvalidRequest
from sterna.model.growth import Category, Growth
from sterna.model.ids import DeviceId, NodeId
from sterna.model.jobs import Disruption, Role, Worker
from sterna.model.phases import Phase
from sterna.model.quantities import effective_request, milli_shown
from sterna.model.resources import NOTHING, Resources

TOLD = ("reason", "message", "numbers")  # keys: why the job is as it is
DECIDED = "decided"  # key: the same as a decision said it, while `TOLD` tells something more pressing
_LIST_MAX = 100_000  # far above the length of any valid list


def standing_text(standing: Standing) -> Body:
    return _body(_FIELDS, standing)


def standing_read(body: object) -> tuple[Standing, str]:
    """The standing, and what was wrong with its text. Empty text, or none: a job that no operator has seen yet."""
    if body is None:
        return Standing(), ""
    try:
        return _sound(Standing(**_values(_FIELDS, _as_decided(_mapping(body))))), ""
    except (ValueError, OverflowError) as error:
        return Standing(), f"status.scheduling cannot be read ({str(error)[:200]}) and is made anew"


def _as_decided(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """With what a decision said in its place, where something more pressing is shown there."""
    if DECIDED not in body:
        return body
    return {**{key: part for key, part in body.items() if key not in TOLD}, **_mapping(body[DECIDED])}


def _sound(standing: Standing) -> Standing:
    """A running job holds something, one that waits or has ended nothing; one that is being resized may do either."""
    if standing.phase is not Phase.RESIZING and bool(standing.seats) != (standing.phase is Phase.RUNNING):
        raise ValueError(f"a job that is {standing.phase} with {len(standing.seats)} seats")
    return standing


def worker_text(worker: Worker) -> str:
    """`worker/0/node-1`, or `worker/0/node-1/0,1` with its cards."""
    return "/".join([worker.role.value, str(worker.ordinal), worker.node, *_cards(worker)])


# -- parts ------------------------------------------------------------------------------------------------------------


class _Field(NamedTuple):
    name: str
    key: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    default: Any = None


def _body(fields: tuple[_Field, ...], value: object) -> Body:
    found = ((field, getattr(value, field.name)) for field in fields)
    return {field.key: field.write(part) for field, part in found if part != field.default}


def _values(fields: tuple[_Field, ...], body: Mapping[str, Any]) -> dict[str, Any]:
    """By name; those that are missing have their defaults."""
    values: dict[str, Any] = {}
    for field in fields:
        part = body.get(field.key)
        try:
            values[field.name] = field.default if part is None else field.read(part)
        except ValueError as error:
            raise ValueError(f"{field.key}: {error}") from None
    return values


def _cards(worker: Worker) -> tuple[str, ...]:
    return (",".join(worker.devices),) if worker.devices else ()


def _worker(text: object) -> Worker:
    role, ordinal, node, *cards = _text(text).split("/", 3)  # a MIG card has "/" in its name
    return Worker(Role(role), _ordinal(ordinal), _node(node), _devices(cards[0]) if cards else ())


def _seat_text(seat: Seat) -> str:
    worker = seat.worker
    return "/".join([worker.role.value, str(worker.ordinal), worker.node, seat.slot, *_cards(worker)])


def _seat(text: object) -> Seat:
    parts = _text(text).split("/", 4)
    if len(parts) < 4:
        raise ValueError(f"{text!r} is no seat")
    role, ordinal, node, slot = parts[:4]
    if slot and not (slot.isascii() and slot.isalnum() and len(slot) <= 63):
        raise ValueError(f"{slot!r} is no slot")
    devices = _devices(parts[4]) if len(parts) == 5 else ()
    return Seat(Worker(Role(role), _ordinal(ordinal), _node(node), devices), slot)


def _seats(value: object) -> tuple[Seat, ...]:
    seats: tuple[Seat, ...] = _each(_seat)(value)
    if len({seat.worker[:2] for seat in seats}) != len(seats):
        raise ValueError("two seats of one role and ordinal")
    return seats


def _place_text(place: tuple[Role, int]) -> str:
    return f"{place[0].value}/{place[1]}"


def _place(text: object) -> tuple[Role, int]:
    role, _, ordinal = _text(text).partition("/")
    return Role(role), _ordinal(ordinal)


def _ordinal(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        raise ValueError(f"{text!r} is no ordinal")
    return int(text)


def _node(text: str) -> NodeId:
    if not text or len(text) > 253:
        raise ValueError(f"{text!r} is no node")
    return NodeId(text)


def _devices(text: str) -> tuple[DeviceId, ...]:
    """No card has a comma in its name: nodes list theirs with commas between them."""
    return tuple(DeviceId(name) for name in text.split(",") if name)


def _disruption_body(found: Disruption) -> Body:
    return {"at": moment_text(found.at_s), "kind": found.kind, "pauseSeconds": found.pause_s}


def _disruption(value: object) -> Disruption:
    body = _mapping(value)
    return Disruption(_moment(body.get("at")), _text(body.get("kind")), _number(body.get("pauseSeconds", 0.0)))


def _amounts_text(found: Resources) -> Body:
    shown = {
        "cpu": milli_shown(found.cpu_milli),
        "memory": found.memory_bytes,
        "gpu": milli_shown(found.gpu_milli),
        "gpuMemory": found.gpu_bytes,
    }
    return {name: amount for name, amount in shown.items() if amount}


def _amounts(value: object) -> Resources:
    try:
        return effective_request(_mapping(value), {})
    except InvalidRequest as error:
        raise ValueError(str(error)) from None


def _numbers(value: object) -> tuple[tuple[str, float | str], ...]:
    return tuple((_text(name), part if isinstance(part, str) else _number(part)) for name, part in _pairs(value))


# -- plain values -----------------------------------------------------------------------------------------------------


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{_shown(value)} has no keys")
    return value


def _pairs(value: object) -> list[tuple[Any, Any]]:
    return list(_mapping(value).items())


def _each(read: Callable[[object], Any]) -> Callable[[object], Any]:
    def read_all(value: object) -> Any:
        if not isinstance(value, list | tuple) or len(value) > _LIST_MAX:
            raise ValueError(f"{_shown(value)} is no list")
        return tuple(map(read, value))

    return read_all


def _all_of(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda values: [write(value) for value in values]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is no text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 0:
        raise ValueError(f"{_shown(value)} is no count")
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{_shown(value)} is no number")
    return value


def _moment(value: object) -> float:
    found = moment_s(value)
    if found is None:
        raise ValueError(f"{_shown(value)} is no moment")
    return found


def _shown(value: object) -> str:
    return repr(value)[:60]


def _same(value: Any) -> Any:
    return value


_WORKERS = (_all_of(worker_text), _each(_worker), ())
_PROGRESS = (
    _Field("step", "step", _same, _whole, 0),
    _Field("epoch", "epoch", _same, _whole, 0),
    _Field("units_done", "unitsDone", _same, _number, 0.0),
    _Field("units_total", "unitsTotal", _same, _number),
    _Field("save_s", "saveSeconds", _same, _number),
    _Field("restart_s", "restartSeconds", _same, _number),
    _Field("step_s", "stepSeconds", _same, _number),
    _Field("workers", "workers", _same, _whole, 0),
)
_REPORTED = (
    _Field("at_s", "at", moment_text, _moment, 0.0),
    _Field("units_done", "unitsDone", _same, _number, 0.0),
    _Field("units_total", "unitsTotal", _same, _number),
    _Field("workers", "workers", _same, _whole, 0),
    _Field("unit_s", "unitSeconds", _same, _number),
)
_REFUSAL = (
    _Field("node", "node", _same, lambda found: _node(_text(found)), NodeId("")),
    _Field("times", "times", _same, _whole, 0),
    _Field("until_s", "until", moment_text, _moment),
)
_DENIAL = (
    _Field("words", "words", _same, lambda found: cleaned(_text(found)), cleaned("")),
    _Field("times", "times", _same, _whole, 0),
    _Field("since_s", "since", moment_text, _moment),
    _Field("until_s", "until", moment_text, _moment),
    _Field("size", "size", _same, _whole, 0),
    _Field("generation", "generation", _same, _whole, 0),
)
_COUNTED = (
    _Field("role", "role", str, lambda found: Role(_text(found)), Role.WORKER),
    _Field("written", "written", _amounts_text, _amounts, NOTHING),
    _Field("request", "counted", _amounts_text, _amounts, NOTHING),
)
_GROWTH = (
    _Field("category", "category", str, Category, Category.PROGRESSING),
    _Field("score", "score", _same, _number),
    _Field("efficiency", "efficiency", _same, _number),
    _Field("since_s", "since", moment_text, _moment, 0.0),
)
_CHANGE = (
    _Field("kind", "kind", _same, _text, ""),
    _Field("why", "reason", _same, _text, ""),
    _Field("message", "message", _same, _text, ""),
    _Field("before", "before", *_WORKERS),
    _Field("after", "after", *_WORKERS),
    _Field("began_s", "beganAt", moment_text, _moment, 0.0),
    _Field("stopped_s", "stoppedAt", moment_text, _moment),
    _Field("committed_step", "committedStep", _same, _whole),
    _Field("migration", "migration", _same, _text, ""),
)
_PAST = (
    *_CHANGE[:6],
    _Field("ended_s", "endedAt", moment_text, _moment, 0.0),
    _Field("downtime_s", "downtimeSeconds", _same, _number),
    _Field("committed_step", "committedStep", _same, _whole),
    _Field("result", "result", _same, _text, ""),
    _Field("migration", "migration", _same, _text, ""),
)
_ANNOUNCEMENT = (
    _Field("number", "number", _same, _whole, 0),
    _Field("at_s", "at", moment_text, _moment, 0.0),
    _Field("reason", "reason", _same, _text, ""),
    _Field("message", "message", _same, _text, ""),
    _Field("warning", "warning", _same, bool, False),
    _Field("decision", "decision", _same, _text, ""),
)
_FIELDS = (
    _Field("phase", "phase", str, Phase, Phase.WAITING),
    _Field("reason", "reason", _same, _text, ""),
    _Field("message", "message", _same, _text, ""),
    _Field("numbers", "numbers", dict, _numbers, ()),
    _Field("decision", "decision", _same, _text, ""),
    _Field("seats", "seats", _all_of(_seat_text), _seats, ()),
    _Field("incarnation", "incarnation", _same, _whole, 0),
    _Field("done", "done", _all_of(_place_text), _each(_place), ()),
    _Field("answered", "answered", list, _each(_text), ()),
    _Field("enqueued_s", "enqueuedAt", moment_text, _moment),
    _Field("waiting_since_s", "waitingSince", moment_text, _moment),
    _Field("first_started_s", "firstStartedAt", moment_text, _moment),
    _Field("started_s", "startedAt", moment_text, _moment),
    _Field("active_s", "activeSince", moment_text, _moment),
    _Field("seat_s", "seatSince", moment_text, _moment),
    _Field("as_of_s", "asOf", moment_text, _moment, 0.0),
    _Field("gpu_s", "gpuSeconds", _same, _number, 0.0),
    _Field("ran_s", "ranSeconds", _same, _number, 0.0),
    _Field("gpu_s_since_start", "gpuSecondsSinceStart", _same, _number, 0.0),
    _Field("last_ran_s", "lastRanSeconds", _same, _number, 0.0),
    _Field("resumes_s", "resumesAt", moment_text, _moment, 0.0),
    _Field("failures", "failures", _same, _whole, 0),
    _Field("failed_s", "failedAt", moment_text, _moment),
    _Field("losses", "losses", _same, _whole, 0),
    _Field("lost_s", "lostAt", moment_text, _moment),
    _Field("rejections", "rejections", _same, _whole, 0),
    _Field(
        "refusals",
        "refusals",
        _all_of(lambda found: _body(_REFUSAL, found)),
        _each(lambda b: Refusal(**_of(_REFUSAL, b))),
        (),
    ),
    _Field("denial", "denial", lambda found: _body(_DENIAL, found), lambda b: Denial(**_of(_DENIAL, b))),
    _Field(
        "counted",
        "requests",
        _all_of(lambda found: _body(_COUNTED, found)),
        _each(lambda b: CountedRequest(**_of(_COUNTED, b))),
        (),
    ),
    _Field("retry_s", "retryAt", moment_text, _moment),
    _Field("restarts", "restarts", _same, _whole, 0),
    _Field("resizes", "resizes", _same, _whole, 0),
    _Field("migrations", "migrations", _same, _whole, 0),
    _Field("steps_lost", "stepsLost", _same, _whole, 0),
    _Field("progress", "progress", lambda found: _body(_PROGRESS, found), lambda b: Progress(**_of(_PROGRESS, b))),
    _Field("reported", "reported", lambda found: _body(_REPORTED, found), lambda b: Reported(**_of(_REPORTED, b))),
    _Field("growth", "growth", lambda found: _body(_GROWTH, found), lambda b: Growth(**_of(_GROWTH, b))),
    _Field("metric", "metric", _same, _text, ""),
    _Field("judged", "judged", dict, _mapping, {}),
    _Field("disruptions", "disruptions", _all_of(_disruption_body), _each(_disruption), ()),
    _Field("change", "change", lambda found: _body(_CHANGE, found), lambda b: Change(**_of(_CHANGE, b))),
    _Field(
        "history",
        "history",
        _all_of(lambda found: _body(_PAST, found)),
        _each(lambda b: Past(**_of(_PAST, b))),
        (),
    ),
    _Field("finished_s", "finishedAt", moment_text, _moment),
    _Field("announced", "announced", _same, _whole, 0),
    _Field(
        "announcements",
        "announcements",
        _all_of(lambda found: _body(_ANNOUNCEMENT, found)),
        _each(lambda b: Announcement(**_of(_ANNOUNCEMENT, b))),
        (),
    ),
    _Field("kept", "lastValidSpec", _same, _text, ""),
    _Field("epoch", "epoch", _same, _whole, 0),
)
KEYS = frozenset(field.key for field in _FIELDS)


def _of(fields: tuple[_Field, ...], value: object) -> dict[str, Any]:
    return _values(fields, _mapping(value))
