"""The scheduler over HTTP: which path asks which question. A handler reads the request, asks, and answers.

Every error is a problem document and every request has this boundary: none of them can take the engine down.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from sterna.engines.door.door import Door
from sterna.interfaces.api.door_routes import door_routes
from sterna.interfaces.api.doorkeeper import Doorkeeper, problem_response
from sterna.interfaces.api.json_answer import JsonAnswer
from sterna.interfaces.api.problem_details import INTERNAL, Problem, problem_of
from sterna.interfaces.api.request_values import Refused, body_of, flag, given, number, texts
from sterna.interfaces.log_stream import log_stream
from sterna.interfaces.scheduler_port import LogSelection, Scheduler
from sterna.model.errors import SternaError

LONG_POLL_MAX_S = 60
EVENTS_MAX = 10_000
TAIL_MAX = 1_000_000

_COUNTER_MAX = 1 << 53  # what every JSON reader can count to
_LOG = logging.getLogger("sterna.api")

Stop = Callable[[bool], None]  # told whether training processes are to be left alive
Handler = Callable[[Request], Awaitable[Any]]


class _Way(NamedTuple):
    path: str
    method: str
    handler: Handler


def build_app(scheduler: Scheduler, *, token: str, stop: Stop, door: Door | None = None) -> ASGIApp:
    """The whole API on one scheduler, for requests that bring this token. `door`: what monitors ask, beside it."""
    ways = _ways(_Answers(scheduler, stop))
    paths = dict.fromkeys(way.path for way in ways)
    routes = [_route(path, [way for way in ways if way.path == path]) for path in paths]
    if door is not None:
        routes += door_routes(door)
    app = Starlette(routes=routes, exception_handlers={HTTPException: _not_routed})
    app.router.redirect_slashes = False  # a path is right or wrong
    return Doorkeeper(app, token=token)


def _ways(api: "_Answers") -> list[_Way]:
    job = "/v1/jobs/{namespace}/{name}"
    return [
        _Way("/healthz", "GET", api.alive),
        _Way("/v1/health", "GET", api.health),
        _Way("/v1/jobs", "GET", api.jobs),
        _Way("/v1/jobs", "POST", api.submit),
        _Way(job, "GET", api.job),
        _Way(job, "DELETE", api.delete),
        _Way(f"{job}/explain", "GET", api.explain),
        _Way(f"{job}/events", "GET", api.events),
        _Way(f"{job}/logs", "GET", api.logs),
        _Way(f"{job}/migrations", "GET", api.migrations),
        _Way(f"{job}/scale", "POST", api.scale),
        _Way(f"{job}/migrate", "POST", api.migrate),
        _Way(f"{job}/suspend", "POST", api.suspend),
        _Way(f"{job}/resume", "POST", api.resume),
        _Way("/v1/nodes", "GET", api.nodes),
        _Way("/v1/nodes/{name}/drain", "POST", api.drain),
        _Way("/v1/nodes/{name}/uncordon", "POST", api.uncordon),
        _Way("/v1/migrations", "GET", api.migrations),
        _Way("/v1/events", "GET", api.events),
        _Way("/v1/policy", "GET", api.policy),
        _Way("/v1/policy", "PUT", api.set_policy),
        _Way("/v1/changed", "GET", api.changed),
        _Way("/v1/shutdown", "POST", api.shutdown),
    ]


class _Answers:
    """One method for each question; what it returns becomes JSON, unless it is a response already."""

    def __init__(self, scheduler: Scheduler, stop: Stop) -> None:
        self._scheduler = scheduler
        self._stop = stop

    async def alive(self, request: Request) -> Any:
        """Answered without a token, so it says no more than that an engine is there."""
        health = await self._scheduler.health()
        return {name: health.get(name) for name in ("ok", "version")}

    async def health(self, request: Request) -> Any:
        return await self._scheduler.health()

    async def jobs(self, request: Request) -> Any:
        return await self._scheduler.jobs(namespace=request.query_params.get("namespace"))

    async def submit(self, request: Request) -> Any:
        body = await body_of(request, {"manifest": str, "cwd": str, "dryRun": bool})
        manifest, cwd = given(body, "manifest"), given(body, "cwd")
        jobs = await self._scheduler.submit(manifest, cwd=cwd, dry_run=bool(body["dryRun"]))
        return JsonAnswer(jobs, 200 if body["dryRun"] else 201)

    async def job(self, request: Request) -> Any:
        return await self._scheduler.job(_job_id(request))

    async def delete(self, request: Request) -> Any:
        return await self._scheduler.delete(_job_id(request))

    async def explain(self, request: Request) -> Any:
        return await self._scheduler.explain(_job_id(request))

    async def events(self, request: Request) -> Any:
        after = number(request, "after", default=0, most=_COUNTER_MAX)
        limit = number(request, "limit", default=1000, most=EVENTS_MAX, least=1)
        return await self._scheduler.events(_job_id_or_none(request), after=after, limit=limit)

    async def logs(self, request: Request) -> Any:
        tail = number(request, "tail", default=-1, most=TAIL_MAX)
        selection = LogSelection(
            job_id=_job_id(request),
            worker=request.query_params.get("worker"),
            follow=flag(request, "follow"),
            previous=flag(request, "previous"),
            every=flag(request, "every"),
            prefix=flag(request, "prefix"),
            tail=None if tail < 0 else tail,
        )
        content = await log_stream(self._scheduler, selection)
        return StreamingResponse(_told(content), media_type="text/plain; charset=utf-8")

    async def scale(self, request: Request) -> Any:
        body = await body_of(request, {"min": int, "max": int, "workers": int})
        least, most, workers = body["min"], body["max"], body["workers"]
        return await self._scheduler.scale(_job_id(request), minimum=least, maximum=most, workers=workers)

    async def migrate(self, request: Request) -> Any:
        body = await body_of(request, {"worker": int, "to": str})
        return await self._scheduler.migrate(_job_id(request), worker=body["worker"], to=body["to"])

    async def suspend(self, request: Request) -> Any:
        return await self._scheduler.suspend(_job_id(request))

    async def resume(self, request: Request) -> Any:
        return await self._scheduler.resume(_job_id(request))

    async def nodes(self, request: Request) -> Any:
        return await self._scheduler.nodes()

    async def drain(self, request: Request) -> Any:
        return await self._scheduler.drain(request.path_params["name"])

    async def uncordon(self, request: Request) -> Any:
        return await self._scheduler.uncordon(request.path_params["name"])

    async def migrations(self, request: Request) -> Any:
        return await self._scheduler.migrations(_job_id_or_none(request))

    async def policy(self, request: Request) -> Any:
        return await self._scheduler.policy()

    async def set_policy(self, request: Request) -> Any:
        body = await body_of(request, {"policy": str, "settings": dict})
        settings = texts(body["settings"] or {}, "settings")
        return await self._scheduler.set_policy(given(body, "policy"), settings)

    async def changed(self, request: Request) -> Any:
        after = number(request, "after", default=0, most=_COUNTER_MAX)
        timeout_s = number(request, "timeout", default=30, most=LONG_POLL_MAX_S)
        return {"counter": await self._scheduler.changed(after=after, timeout_s=timeout_s)}

    async def shutdown(self, request: Request) -> Any:
        body = await body_of(request, {"leaveJobs": bool})
        self._stop(bool(body["leaveJobs"]))
        return JsonAnswer({"stopping": True}, 202)


async def _told(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """An answer that goes wrong once it has begun can only be cut short; why, the log says."""
    try:
        async for part in content:
            yield part
    except SternaError as error:
        _LOG.warning("answer cut short", extra={"why": str(error)})
        raise
    except Exception:
        _LOG.exception("answer cut short")
        raise


def _route(path: str, ways: list[_Way]) -> Route:
    """One path with all its methods, so that a wrong one is told which there are."""
    handlers = {way.method: way.handler for way in ways}
    if "GET" in handlers:
        handlers["HEAD"] = handlers["GET"]

    async def answer(request: Request) -> Response:
        try:
            found = await handlers[request.method](request)
            return found if isinstance(found, Response) else JsonAnswer(found, headers={"cache-control": "no-store"})
        except Refused as error:
            return problem_response(error.problem)
        except SternaError as error:
            problem = problem_of(error)
            if problem is INTERNAL:
                _LOG.exception("request failed", extra={"path": path})
            return problem_response(problem)
        except Exception:  # the boundary of a request: one that goes wrong is told so, the engine goes on
            _LOG.exception("request failed", extra={"path": path})
            return problem_response(INTERNAL)

    return Route(path, answer, methods=list(handlers))


async def _not_routed(request: Request, error: Exception) -> Response:
    """No such path, or not in this way."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = {404: "there is nothing at this path", 405: "this path does not answer to this method"}
    response = problem_response(Problem(status, "", detail.get(status, "the request cannot be answered")))
    if isinstance(error, HTTPException):
        response.headers.update(error.headers or {})
    return response


def _job_id(request: Request) -> str:
    return f"{request.path_params['namespace']}/{request.path_params['name']}"


def _job_id_or_none(request: Request) -> str | None:
    """In a path below a job: that job. Elsewhere what the query says, if anything."""
    return _job_id(request) if "namespace" in request.path_params else request.query_params.get("job")
