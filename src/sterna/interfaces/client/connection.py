"""The engine of a home over HTTP: finds it, brings the token, keeps deadlines, turns problems back into errors.

The endpoint is looked up anew for every request, so that a command which watches outlives a restart of the engine.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from sterna.interfaces.api.engine_home import Endpoint, read_endpoint, read_token
from sterna.interfaces.api.problem_details import error_of
from sterna.interfaces.client.http_scheduler import HttpScheduler, Query, answer_of, job_path
from sterna.interfaces.scheduler_port import LogSelection
from sterna.model.errors import EngineUnavailable, InvalidRequest

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from sterna.interfaces.client.client import Question

DEADLINE_S = 10.0
SLOW_S = 60.0  # for what may have to stop or place processes before it is answered
BODY_BYTES_MAX = 1 << 20

_CHUNK_BYTES = 1 << 16

T = TypeVar("T")


class Connection:
    """The line to the engine of one home. Holds nothing open between questions."""

    def __init__(self, home: Path, *, deadline_s: float = DEADLINE_S) -> None:
        self.home = home
        self._deadline_s = deadline_s

    def ask(self, question: "Question[T]", *, within_s: float | None = None) -> T:
        return answer_of(question(HttpScheduler(partial(self._json, within_s or self._deadline_s))))

    def logs(self, wanted: LogSelection) -> Iterator[bytes]:
        query = wanted._asdict()
        path = f"{job_path(query.pop('job_id'))}/logs"
        with self._answered("GET", path, query, None, self._deadline_s, endless=True) as response:
            while content := response.read1(_CHUNK_BYTES):
                yield content

    def shutdown(self, *, leave_jobs: bool) -> None:
        self._json(SLOW_S, "POST", "/v1/shutdown", body={"leaveJobs": leave_jobs})

    def close(self) -> None:
        pass

    def _json(
        self,
        deadline_s: float,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        with self._answered(method, path, query, body, deadline_s) as response:
            return _read_json(response)

    @contextmanager
    def _answered(
        self,
        method: str,
        path: str,
        query: Query | None,
        body: Mapping[str, Any] | None,
        deadline_s: float,
        *,
        endless: bool = False,  # only the beginning of the answer has a deadline
    ) -> "Iterator[HTTPResponse]":
        from http.client import HTTPConnection, HTTPException

        endpoint = running(self.home)
        content = None if body is None else json.dumps(body).encode()
        if content is not None and len(content) > BODY_BYTES_MAX:
            raise InvalidRequest(field="request", value=f"{len(content)} bytes", expected="at most 1 MiB")
        http = HTTPConnection(endpoint.host, endpoint.port, timeout=deadline_s)
        try:
            headers = {"Authorization": f"Bearer {read_token(self.home)}", "Connection": "close"}
            http.connect()
            sock = http.sock
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have refused before it read everything
                http.request(method, _target(path, query or {}), content, headers)
            response = http.getresponse()
            if response.status >= 400:
                raise error_of(response.status, _read_json(response))
            if endless:
                sock.settimeout(None)
            yield response
        except ConnectionRefusedError:
            raise _no_engine(self.home) from None
        except TimeoutError:
            words = f"the engine at {endpoint.url} did not answer within {deadline_s:g} s"
            raise EngineUnavailable(words, retry_after_s=1.0) from None
        except (HTTPException, ConnectionError) as error:
            words = f"the engine at {endpoint.url} went away in the middle of an answer"
            raise EngineUnavailable(words, retry_after_s=1.0) from error
        finally:
            http.close()


def running(home: Path) -> Endpoint:
    """The engine that is announced in this home and alive. A process that took a dead engine's port gets no token."""
    endpoint = read_endpoint(home)
    if endpoint is None or not _alive(endpoint.pid):
        raise _no_engine(home)
    return endpoint


def _no_engine(home: Path) -> EngineUnavailable:
    return EngineUnavailable(f"no engine is running in {home}: start one with `sterna up`", retry_after_s=1.0)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return False  # a process of another user is no engine of ours
    return True


def _target(path: str, query: Query) -> str:
    said = {
        name: int(value) if isinstance(value, bool) else value for name, value in query.items() if value is not None
    }
    return f"{path}?{urlencode(said)}" if said else path


def _read_json(response: "HTTPResponse") -> Any:
    content = response.read()
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
