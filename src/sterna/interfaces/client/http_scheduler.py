"""The port over HTTP: each question as one request to the engine of another process, whose answer it returns.

Its methods are coroutines because the port's are, and none of them ever waits for an event loop: they block, and
`answer_of` runs one to its end without a loop. A command line that asks once must not pay for asyncio.
"""

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from sterna.interfaces.scheduler_port import Record

T = TypeVar("T")
Query = Mapping[str, str | int | bool | None]  # None: not said


class Ask(Protocol):
    """One request and its answer as JSON."""

    def __call__(
        self, method: str, path: str, *, query: Query | None = None, body: Mapping[str, Any] | None = None
    ) -> Any: ...


class HttpScheduler:
    """Implements `Questions`."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def submit(self, manifest: str, *, cwd: str, dry_run: bool = False) -> list[Record]:
        body = {"manifest": manifest, "cwd": cwd, "dryRun": dry_run}
        return _list(self._ask("POST", "/v1/jobs", body=body))

    async def jobs(self, *, namespace: str | None = None) -> list[Record]:
        return _list(self._ask("GET", "/v1/jobs", query={"namespace": namespace}))

    async def job(self, job_id: str) -> Record:
        return _record(self._ask("GET", job_path(job_id)))

    async def nodes(self) -> list[Record]:
        return _list(self._ask("GET", "/v1/nodes"))

    async def migrations(self, job_id: str | None = None) -> list[Record]:
        path = "/v1/migrations" if job_id is None else f"{job_path(job_id)}/migrations"
        return _list(self._ask("GET", path))

    async def events(self, job_id: str | None = None, *, after: int = 0, limit: int = 1000) -> list[Record]:
        path = "/v1/events" if job_id is None else f"{job_path(job_id)}/events"
        return _list(self._ask("GET", path, query={"after": after, "limit": limit}))

    async def explain(self, job_id: str) -> Record:
        return _record(self._ask("GET", f"{job_path(job_id)}/explain"))

    async def scale(self, job_id: str, *, minimum: int | None, maximum: int | None, workers: int | None) -> Record:
        return self._post(f"{job_path(job_id)}/scale", {"min": minimum, "max": maximum, "workers": workers})

    async def migrate(self, job_id: str, *, worker: int | None, to: str | None) -> Record:
        return self._post(f"{job_path(job_id)}/migrate", {"worker": worker, "to": to})

    async def drain(self, node: str) -> Record:
        return self._post(f"/v1/nodes/{_in_path(node)}/drain", {})

    async def uncordon(self, node: str) -> Record:
        return self._post(f"/v1/nodes/{_in_path(node)}/uncordon", {})

    async def suspend(self, job_id: str) -> Record:
        return self._post(f"{job_path(job_id)}/suspend", {})

    async def resume(self, job_id: str) -> Record:
        return self._post(f"{job_path(job_id)}/resume", {})

    async def delete(self, job_id: str) -> Record:
        return _record(self._ask("DELETE", job_path(job_id)))

    async def policy(self) -> Record:
        return _record(self._ask("GET", "/v1/policy"))

    async def set_policy(self, policy: str, settings: Mapping[str, str]) -> Record:
        return _record(self._ask("PUT", "/v1/policy", body={"policy": policy, "settings": dict(settings)}))

    async def changed(self, *, after: int, timeout_s: float) -> int:
        answer = self._ask("GET", "/v1/changed", query={"after": after, "timeout": int(timeout_s)})
        return int(_record(answer).get("counter", 0))

    async def health(self) -> Record:
        return _record(self._ask("GET", "/v1/health"))

    def _post(self, path: str, body: Mapping[str, Any]) -> Record:
        return _record(self._ask("POST", path, body=body))


def answer_of(question: Coroutine[Any, Any, T]) -> T:
    """What a coroutine that never waits returns, or raises."""
    try:
        question.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    question.close()
    raise AssertionError("a question over HTTP waited for an event loop")


def job_path(job_id: str) -> str:
    namespace, _, name = job_id.partition("/")
    return f"/v1/jobs/{_in_path(namespace)}/{_in_path(name)}"


def _in_path(name: str) -> str:
    return quote(name, safe="")


def _record(answer: Any) -> Record:
    return answer if isinstance(answer, dict) else {}


def _list(answer: Any) -> list[Record]:
    return answer if isinstance(answer, list) else []
