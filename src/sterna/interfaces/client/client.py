"""Every question an engine answers, as a method. Names and records are those of `interfaces/api/port.py`."""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from sterna.interfaces.api.endpoint import Endpoint, state_home
from sterna.interfaces.client.connection import DEADLINE_S, Connection, Query, running
from sterna.interfaces.client.waiting import wait_until

Record = dict[str, Any]

_SLOW_S = 60.0  # for what may have to stop or place processes before it is answered


class Line(Protocol):
    """How questions reach whoever answers them."""

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,  # None: the line's own
    ) -> Any: ...

    def stream(self, path: str, *, query: Query) -> Iterator[bytes]: ...


class Client:
    """The engine of one home: STERNA_HOME, unless another is given, or whoever is at the other end of a `line`.

    Job ids are `namespace/name`, or a bare name in `namespace`.
    """

    def __init__(
        self,
        home: str | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        line: Line | None = None,
        namespace: str = "default",
    ) -> None:
        self._home = state_home(home)
        self._connection: Line = line or Connection(self._home, deadline_s=deadline_s)
        self._namespace = namespace

    @property
    def home(self) -> str:
        return str(self._home)

    def endpoint(self) -> Endpoint:
        """Where the engine of the home listens; `EngineUnavailable` when none runs."""
        return running(self._home)

    def health(self) -> Record:
        return self._get("/v1/health")

    def submit(self, manifest: str, *, cwd: str | None = None, dry_run: bool = False) -> list[Record]:
        """Jobs from a YAML text, all or none. Programs run in `cwd`, which is here unless said otherwise."""
        body = {"manifest": manifest, "cwd": cwd or os.getcwd(), "dryRun": dry_run}
        return _list(self._connection.ask("POST", "/v1/jobs", body=body, deadline_s=_SLOW_S))

    def jobs(self, *, namespace: str | None = None) -> list[Record]:
        return _list(self._connection.ask("GET", "/v1/jobs", query={"namespace": namespace}))

    def job(self, job_id: str) -> Record:
        return self._get(self._path(job_id))

    def delete(self, job_id: str) -> Record:
        return _record(self._connection.ask("DELETE", self._path(job_id), deadline_s=_SLOW_S))

    def nodes(self) -> list[Record]:
        return _list(self._connection.ask("GET", "/v1/nodes"))

    def migrations(self, job_id: str | None = None) -> list[Record]:
        path = "/v1/migrations" if job_id is None else f"{self._path(job_id)}/migrations"
        return _list(self._connection.ask("GET", path))

    def events(self, job_id: str | None = None, *, after: int = 0, limit: int = 1000) -> list[Record]:
        path = "/v1/events" if job_id is None else f"{self._path(job_id)}/events"
        return _list(self._connection.ask("GET", path, query={"after": after, "limit": limit}))

    def explain(self, job_id: str) -> Record:
        return self._get(f"{self._path(job_id)}/explain")

    def scale(
        self, job_id: str, *, minimum: int | None = None, maximum: int | None = None, workers: int | None = None
    ) -> Record:
        return self._post(f"{self._path(job_id)}/scale", {"min": minimum, "max": maximum, "workers": workers})

    def migrate(self, job_id: str, *, worker: int | None = None, to: str | None = None) -> Record:
        return self._post(f"{self._path(job_id)}/migrate", {"worker": worker, "to": to})

    def suspend(self, job_id: str) -> Record:
        return self._post(f"{self._path(job_id)}/suspend", {})

    def resume(self, job_id: str) -> Record:
        return self._post(f"{self._path(job_id)}/resume", {})

    def drain(self, node: str) -> Record:
        return self._post(f"/v1/nodes/{_in_path(node)}/drain", {})

    def uncordon(self, node: str) -> Record:
        return self._post(f"/v1/nodes/{_in_path(node)}/uncordon", {})

    def policy(self) -> Record:
        return self._get("/v1/policy")

    def set_policy(self, policy: str, settings: Mapping[str, str] | None = None) -> Record:
        body = {"policy": policy, "settings": dict(settings or {})}
        return _record(self._connection.ask("PUT", "/v1/policy", body=body))

    def changed(self, *, after: int, timeout_s: float = 30.0) -> int:
        """The number of the newest event, once it is above `after` or time is up."""
        query = {"after": after, "timeout": max(0, min(60, int(timeout_s)))}
        answer = self._connection.ask("GET", "/v1/changed", query=query, deadline_s=timeout_s + DEADLINE_S)
        return int(_record(answer).get("counter", 0))

    def logs(
        self,
        job_id: str,
        *,
        worker: str | None = None,
        follow: bool = False,
        previous: bool = False,
        every: bool = False,
        prefix: bool = False,
        tail: int | None = None,
    ) -> Iterator[bytes]:
        """What the job's processes print; with `follow`, until the job has ended."""
        query = {"worker": worker, "follow": follow, "previous": previous, "every": every, "prefix": prefix}
        return self._connection.stream(f"{self._path(job_id)}/logs", query={**query, "tail": tail})

    def wait(self, job_id: str, *, until: str = "finished", timeout_s: float | None = None) -> Record | None:
        """Until the job is as asked: succeeded, finished, running, suspended, deleted or condition=NAME.

        Gives the job as it then is, None once it is deleted. `TimeoutError` when time is up, `Conflict` when it can no
        longer come true.
        """
        return wait_until(self, job_id, until, timeout_s=timeout_s)

    def shutdown(self, *, leave_jobs: bool = False) -> None:
        """Stop the engine. Its jobs stop at a committed step and go on when it is started again."""
        self._post("/v1/shutdown", {"leaveJobs": leave_jobs})

    def _path(self, job_id: str) -> str:
        namespace, _, name = full_id(job_id, self._namespace).partition("/")
        return f"/v1/jobs/{_in_path(namespace)}/{_in_path(name)}"

    def _get(self, path: str) -> Record:
        return _record(self._connection.ask("GET", path))

    def _post(self, path: str, body: Mapping[str, Any]) -> Record:
        return _record(self._connection.ask("POST", path, body=body, deadline_s=_SLOW_S))


def _in_path(name: str) -> str:
    """Halves of characters, of which no name consists, become question marks: they find nothing, and nothing breaks."""
    return quote(name, safe="", errors="replace")


def full_id(name: str, namespace: str = "default") -> str:
    """A job's id from what was typed: `name`, or `namespace/name`."""
    return name if "/" in name else f"{namespace}/{name}"


def _record(answer: Any) -> Record:
    return answer if isinstance(answer, dict) else {}


def _list(answer: Any) -> list[Record]:
    return answer if isinstance(answer, list) else []
