"""Waiting for a job to be in some state. An engine that is restarted meanwhile is waited for as well."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sterna.model.errors import Conflict, EngineUnavailable, InvalidRequest, NotFound

if TYPE_CHECKING:
    from sterna.interfaces.client.client import Client

STATES = ("succeeded", "finished", "running", "suspended", "deleted")

_LOOK_AGAIN_S = 5.0  # at the latest, whatever the engine says has changed
_ENGINE_GONE_S = 30.0  # for how long an engine may be away before the wait fails
_FINISHED = ("Succeeded", "Failed")

Record = dict[str, Any]
Reached = Callable[[Record], bool]


def wait_until(client: "Client", job_id: str, state: str, *, timeout_s: float | None) -> Record | None:
    """See `Client.wait`."""
    reached = _reached(state)
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    counter, gone_since_s, job = 0, None, None
    while True:
        left_s = _LOOK_AGAIN_S if deadline_s is None else deadline_s - time.monotonic()
        try:
            job = client.job(job_id)
            gone_since_s = None
        except NotFound:
            if state == "deleted":
                return None
            raise
        except EngineUnavailable as error:
            gone_since_s = gone_since_s or time.monotonic()
            if time.monotonic() - gone_since_s > _ENGINE_GONE_S or (job is None and counter == 0):
                raise
            time.sleep(min(error.retry_after_s, max(0.05, left_s)))
        else:
            if reached(job):
                return job
            if job["phase"] in _FINISHED and state != "deleted":
                raise Conflict(f"{job['id']} has {job['phase'].lower()} and will never be {state}{_said(job)}")
        if left_s <= 0:
            waited_s = round(timeout_s or 0.0, 1)
            raise TimeoutError(f"{job_id} is not {state} after {waited_s:g} s; it is {_phase(job)}{_said(job)}")
        counter = _sleep(client, counter, min(left_s, _LOOK_AGAIN_S))


def _reached(state: str) -> Reached:
    kind, _, condition = state.partition("=")
    match kind:
        case "succeeded":
            return lambda job: job["phase"] == "Succeeded"
        case "finished":
            return lambda job: job["phase"] in _FINISHED
        case "running":
            return lambda job: job["phase"] == "Running"
        case "suspended":
            return lambda job: job["phase"] == "Suspended"
        case "deleted":
            return lambda job: False
        case "condition" if condition:
            return lambda job: any(_is(one, condition) for one in job.get("conditions", ()))
    raise InvalidRequest(field="--for", value=state, expected="one of: " + ", ".join((*STATES, "condition=NAME")))


def _is(condition: Record, name: str) -> bool:
    return str(condition.get("type", "")).lower() == name.lower() and condition.get("status") in ("True", True)


def _sleep(client: "Client", counter: int, most_s: float) -> int:
    """Until something changes, or that long."""
    begun_s = time.monotonic()
    try:
        now = client.changed(after=counter, timeout_s=most_s)
    except EngineUnavailable:
        now = counter
    if now == counter:  # an engine that answers at once must not cause a busy loop
        time.sleep(max(0.0, min(most_s, 0.2) - (time.monotonic() - begun_s)))
    return now


def _phase(job: Record | None) -> str:
    return "unknown" if job is None else str(job["phase"])


def _said(job: Record | None) -> str:
    message = "" if job is None else job.get("message") or job.get("reason")
    return f": {message}" if message else ""
